import { spawn } from 'node:child_process'
import { WaggleError } from '../../base/errors.js'

/** A tool of the host that did not do what it was asked. */
export class ToolError extends WaggleError {
  /** Line of its input that it refused, from 1; undefined when it named none. */
  readonly line: number | undefined

  constructor(tool: string, said: string, line?: number) {
    super('TOOL_FAILED', { what: `${tool}: ${said}` })
    this.line = line
  }
}

/** An output of a hundred thousand rules is some 20 MB. */
const LIMIT_BYTES = 1 << 30

/** Runs a tool of the host with `input`; resolves with its output. @throws ToolError */
export type RunTool = (tool: string, args: readonly string[], input?: string) => Promise<string>

export const runTool: RunTool = (tool, args, input = '') =>
  new Promise((resolve, reject) => {
    const child = spawn(tool, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    const out: Buffer[] = []
    let err = ''
    let size = 0
    child.stdout.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= LIMIT_BYTES) out.push(chunk)
    })
    child.stderr.setEncoding('utf8').on('data', chunk => {
      err += chunk
    })
    child.on('error', error => reject(new ToolError(tool, error.message)))
    child.on('close', (code, signal) => {
      if (size > LIMIT_BYTES) reject(new ToolError(tool, `printed ${size} bytes`))
      else if (code === 0) resolve(Buffer.concat(out).toString())
      else reject(new ToolError(tool, sentence(err) || `ended with ${signal ?? code}`, failedLine(err)))
    })
    // A tool that ends before it has read everything says why on its own.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
  })

/** iptables-restore of both variants and nft name the line in one of these ways. */
export function failedLine(said: string): number | undefined {
  const found = /(?:Error occurred at line: |\bline:? |^(?:-|\/dev\/stdin):)([0-9]+)/m.exec(said)?.[1]
  return found === undefined ? undefined : Number(found)
}

function sentence(text: string): string {
  return text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '' && !line.startsWith('Try `'))
    .join(': ')
}
