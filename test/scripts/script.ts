/** A command of a script, with the line it stands in. */
export interface Command {
  readonly line: number
  readonly words: readonly string[]
}

/**
 * A script: commands, one a line, then the files they name, each below `-- NAME --`.
 * `#` begins a comment in the part with the commands.
 */
export interface Script {
  readonly commands: readonly Command[]
  readonly files: ReadonlyMap<string, string>
}

const FILE_HEAD = /^-- (\S+) --$/

export function parseScript(text: string): Script {
  const commands: Command[] = []
  const files = new Map<string, string>()
  let file: string | undefined
  for (const [i, line] of text.split('\n').entries()) {
    const head = FILE_HEAD.exec(line)?.[1]
    if (head !== undefined) {
      if (files.has(head)) throw new TypeError(`line ${i + 1}: the file ${head} stands twice`)
      file = head
      files.set(file, '')
    } else if (file !== undefined) {
      files.set(file, `${files.get(file)}${line}\n`)
    } else {
      const words = line.replace(/#.*/, '').trim().split(/\s+/).filter(Boolean)
      if (words.length > 0) commands.push({ line: i + 1, words })
    }
  }
  return { commands, files }
}

/** The script with `content` as the text of one of its files. */
export function withFile(text: string, name: string, content: string): string {
  const lines = text.split('\n')
  const from = lines.findIndex(line => FILE_HEAD.exec(line)?.[1] === name)
  const rest = lines.findIndex((line, i) => i > from && FILE_HEAD.test(line))
  const after = rest === -1 ? [] : lines.slice(rest)
  return [...lines.slice(0, from + 1), ...content.split('\n'), ...(rest === -1 ? [''] : after)].join('\n')
}
