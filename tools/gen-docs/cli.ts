import type { Command } from 'commander'
import { EXIT } from '../../src/cli/exit.js'
import { buildProgram } from '../../src/cli/program.js'
import { page, table } from './markdown.js'

/** docs/reference/cli.md: every command as its `--help` shows it. */
export function cliPage(): string {
  const nothing = async () => {}
  const program = buildProgram({
    run: nothing,
    show: nothing,
    render: nothing,
    diff: nothing,
    cleanup: nothing,
    version: nothing,
  })
  return page(
    '# Commands',
    `Exit status of every command:\n\n${table(
      ['Status', 'Meaning'],
      Object.values(EXIT).map(({ code, meaning }) => [String(code), meaning]),
    )}`,
    `\`waggle run\` has a flag for every setting of [configuration.md](configuration.md). JSON output is an object with
one key, the name of what is shown, that holds a list: \`waggle show services -o json | jq '.services[]'\`.`,
    ...sections(program, []),
  )
}

function sections(command: Command, path: readonly string[]): string[] {
  const words = [...path, command.name()]
  // The table of settings is a page of its own.
  if (command.name() === 'run') return []
  command.configureHelp({ helpWidth: 100 }).configureOutput({ getOutHelpWidth: () => 100 })
  let text = ''
  command.configureOutput({
    writeOut: part => {
      text += part
    },
  })
  command.outputHelp()
  const own = `## ${words.join(' ')}\n\n\`\`\`text\n${text.trim()}\n\`\`\``
  return [own, ...command.commands.flatMap(child => sections(child, words))]
}
