import { setTimeout as sleep } from 'node:timers/promises'
import { type LoadResult, Tally } from './tally.js'
import type { LoadOptions } from './target.js'
import { type Answer, TcpKeeper, tcpAttempt } from './tcp.js'
import { UdpAsker } from './udp.js'

interface Worker {
  attempt(): Promise<Answer>
  close(): void
}

function makeWorker(options: LoadOptions): Worker {
  switch (options.mode) {
    case 'tcp':
      return { attempt: () => tcpAttempt(options), close: () => {} }
    case 'tcp-keep':
      return new TcpKeeper(options)
    case 'udp': {
      const asker = new UdpAsker(options, true)
      return { attempt: () => asker.attempt().finally(() => asker.close()), close: () => asker.close() }
    }
    case 'udp-keep':
      return new UdpAsker(options, true)
    case 'udp-sendto':
      return new UdpAsker(options, false)
  }
}

/**
 * Makes attempts from this process until their number or the time is used up, or `stop`
 * is aborted. Never rejects for a failed attempt: those are counted. `onFirst` is called
 * at the first success.
 */
export async function runLoad(options: LoadOptions, stop: AbortSignal, onFirst?: () => void): Promise<LoadResult> {
  const started = performance.now()
  const tally = new Tally(started)
  let left = options.count
  const goOn = () => left > 0 && !stop.aborted && performance.now() - started < options.seconds * 1000

  const work = async () => {
    const worker = makeWorker(options)
    while (goOn()) {
      left--
      try {
        const { name, peer } = await worker.attempt()
        if (tally.success(performance.now(), name, peer) === 1) onFirst?.()
      } catch (error) {
        tally.failure((error as { code?: string }).code ?? String(error))
      }
      if (options.intervalMs > 0 && goOn()) await sleep(options.intervalMs)
    }
    worker.close()
  }
  await Promise.all(Array.from({ length: options.concurrency }, work))
  return tally.result(performance.now())
}
