import { ToolError } from './run-tool.js'

/** A tool named the line of its input that the kernel, or itself, refused. */
export class RefusedLine extends Error {
  readonly text: string
  readonly reason: ToolError

  constructor(text: string, reason: ToolError) {
    super(reason.message)
    this.text = text
    this.reason = reason
  }

  /** The error as one of these when it names a line of `input`, else itself. */
  static of(error: unknown, input: string): unknown {
    if (!(error instanceof ToolError) || error.line === undefined) return error
    return new RefusedLine(input.split('\n')[error.line - 1] ?? '', error)
  }
}

/** What {@link writeMost} asks its caller. */
export interface Writer<T> {
  /** Writes a part of the candidates in one transaction; resolves with the number of writes. @throws RefusedLine */
  write(part: ReadonlyMap<string, T>): Promise<number>
  /** The candidate that a refused line belongs to, if that can be told. */
  ownerOf(line: string, part: ReadonlyMap<string, T>): string | undefined
  /** Whether a refused line says nothing about where the fault is. */
  isVague(line: string): boolean
}

/**
 * Writes candidates in one transaction. One that is refused is found by the line that
 * the tool names, or else by halves, and goes to `failed`; the rest goes in.
 *
 * @throws ToolError when the fault is in no candidate
 */
export async function writeMost<T>(
  candidates: ReadonlyMap<string, T>,
  writer: Writer<T>,
  failed: Map<string, Error>,
): Promise<number> {
  let left = new Map(candidates)
  for (;;) {
    try {
      return await writer.write(left)
    } catch (error) {
      if (!(error instanceof RefusedLine)) throw error
      const id = writer.ownerOf(error.text, left)
      if (id !== undefined) {
        failed.set(id, error.reason)
        left = new Map([...left].filter(([each]) => each !== id))
        continue
      }
      if (left.size === 0 || !writer.isVague(error.text)) throw error.reason
      if (left.size === 1) {
        for (const each of left.keys()) failed.set(each, error.reason)
        left = new Map()
        continue
      }
      const entries = [...left]
      const middle = Math.ceil(entries.length / 2)
      const first = await writeMost(new Map(entries.slice(0, middle)), writer, failed)
      return first + (await writeMost(new Map(entries.slice(middle)), writer, failed))
    }
  }
}
