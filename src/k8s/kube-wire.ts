import type { IncomingMessage } from 'node:http'
import type { Clock } from '../base/clock.js'
import { errorOfStatus, errorOfStream, type KubeError } from './kube-errors.js'
import { record } from './kube-known.js'

/** How an answer ended: as the server wanted, without a byte for too long, or when its time was over. */
export type BodyEnd = 'complete' | 'silent' | 'over'

/**
 * Hands each chunk of an answer to `take` as it comes, the next one when that is done. Ends
 * with `silent` when none comes for `idleMs`, with `over` after `lifeMs`. Throws KubeError `cut` when the connection
 * breaks, and what `take` throws; the answer is closed in each case.
 */
export async function readChunks(
  what: string,
  response: IncomingMessage,
  clock: Clock,
  limits: { readonly idleMs: () => number; readonly lifeMs?: number },
  take: (chunk: Buffer) => void | Promise<void>,
): Promise<BodyEnd> {
  let ended: BodyEnd = 'complete'
  const endAs = (how: BodyEnd) => () => {
    ended = how
    response.destroy()
  }
  const cancelLife = limits.lifeMs === undefined ? () => {} : clock.after(limits.lifeMs, endAs('over'))
  let cancelIdle = clock.after(limits.idleMs(), endAs('silent'))
  const chunks: AsyncIterator<Buffer> = response[Symbol.asyncIterator]()
  try {
    for (let next = await nextOf(what, chunks); next !== undefined; next = await nextOf(what, chunks)) {
      cancelIdle()
      await take(next)
      cancelIdle = clock.after(limits.idleMs(), endAs('silent'))
    }
  } catch (error) {
    if (ended === 'complete') throw error
  } finally {
    cancelIdle()
    cancelLife()
    response.destroy()
  }
  return ended
}

/** The next chunk, undefined at the end. */
async function nextOf(what: string, chunks: AsyncIterator<Buffer>): Promise<Buffer | undefined> {
  try {
    const { done, value } = await chunks.next()
    return done ? undefined : value
  } catch (error) {
    throw errorOfStream(what, error)
  }
}

/** The error of a watch's ERROR event, whose object is a Status. */
export function errorOfEvent(what: string, object: unknown): KubeError {
  const status = record(object)
  const seconds = Number(record(status?.details)?.retryAfterSeconds ?? 0)
  const message = typeof status?.message === 'string' ? status.message : ''
  return errorOfStatus(what, Number(status?.code ?? 0), message, Number.isFinite(seconds) ? seconds * 1000 : 0)
}
