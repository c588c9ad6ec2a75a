/** What the exit status says; the same for every command. */
export const EXIT = {
  ok: { code: 0, meaning: 'Done. For `run`: ended by SIGTERM or SIGINT; the kernel goes on.' },
  failed: { code: 1, meaning: 'Failed; standard error says why.' },
  usage: { code: 2, meaning: 'Wrong command line, environment or configuration file. Nothing was changed.' },
  changed: {
    code: 3,
    meaning: 'The configuration file says something else now: start the agent again. The kernel goes on.',
  },
  differs: { code: 4, meaning: 'For `diff`: the kernel holds something else than the manifests say.' },
  notBuilt: { code: 69, meaning: 'A part of the program is missing, such as the native addon: run `make build`.' },
  locked: { code: 75, meaning: 'Another agent runs with this pin directory. Nothing was changed.' },
} as const

/** A failure with its own exit status. */
export class ExitError extends Error {
  readonly exitCode: number

  constructor(exit: keyof typeof EXIT, message: string) {
    super(message)
    this.name = 'ExitError'
    this.exitCode = EXIT[exit].code
  }
}

/** A failure that the log has told already. */
export class LoggedError extends Error {
  readonly exitCode: number

  constructor(exitCode: number) {
    super('see the log')
    this.name = 'LoggedError'
    this.exitCode = exitCode
  }
}
