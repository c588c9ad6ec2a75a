import { CommanderError } from 'commander'
import { messageOf } from '../base/errors.js'
import { actions, exitCodeOf } from './actions.js'
import { EXIT, LoggedError } from './exit.js'
import { buildProgram } from './program.js'

// A reader that goes away, as in `waggle show flows | head`, is no failure.
process.stdout.on('error', error => {
  if ('code' in error && error.code === 'EPIPE') process.exit(EXIT.ok.code)
  throw error
})

try {
  await buildProgram(actions).parseAsync()
} catch (error) {
  if (error instanceof CommanderError) {
    // Commander has printed its message or the help.
    process.exitCode = error.exitCode === 0 ? EXIT.ok.code : EXIT.usage.code
  } else {
    if (!(error instanceof LoggedError)) process.stderr.write(`waggle: ${messageOf(error)}\n`)
    process.exitCode = exitCodeOf(error)
  }
}
