import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import type { KubeError } from '../../src/k8s/kube-errors.js'
import { KubeSource, type KubeSourceOptions } from '../../src/k8s/kube-source.js'
import type { SourceEvent, WatchedKind } from '../../src/model/objects.js'

/** Short waits, so that a test sees many tries; healthy connections are told apart by their own test. */
export const quick = { minMs: 5, maxMs: 40, healthyMs: 60_000, idleMs: 30_000, streamIdleMs: 200 } as const

/** A source under test and what it told so far. */
export class Watched {
  readonly batches: (readonly SourceEvent[])[] = []
  readonly errors: { kind: WatchedKind; error: KubeError; retryMs: number }[] = []
  /** Names with what they were last told as; a delete removes them. */
  readonly state = new Map<string, SourceEvent & { type: 'upsert' }>()
  readonly synced = new Set<WatchedKind>()
  readonly source: KubeSource
  lists = 0
  /** Watches that were accepted. */
  opened = 0
  /** Watches given up for silence. */
  silent = 0
  /** Times that lists as streams were given up. */
  noStreams = 0
  /** Watch events and bookmarks. */
  heard = 0
  /** Called with each batch; may throw. */
  onBatch: (events: readonly SourceEvent[]) => void = () => {}

  constructor(servers: readonly string[], options: Partial<KubeSourceOptions> = {}) {
    this.source = new KubeSource({
      access: { server: servers[0] as string, options: async () => ({}) },
      servers,
      nodeName: 'node-a',
      log: silentLogger,
      clock: systemClock,
      ...options,
      timing: { ...quick, ...options.timing },
      observer: {
        onList: () => this.lists++,
        onWatch: () => this.opened++,
        onEvents: (_, events) => {
          this.heard += events
        },
        onNoStream: () => this.noStreams++,
        onSilence: () => this.silent++,
        onError: (kind, error, retryMs) => this.errors.push({ kind, error, retryMs }),
      },
    })
  }

  async start(): Promise<this> {
    await this.source.start(events => {
      this.onBatch(events)
      this.batches.push(events)
      for (const event of events) this.#take(event)
    })
    return this
  }

  /** Upserts and deletes told so far, in short. */
  get told(): string[] {
    return this.batches.flat().flatMap(event => {
      if (event.type === 'upsert') return [`+${keyOfObject(event.object)}`]
      return event.type === 'delete' ? [`-${event.key}`] : []
    })
  }

  kinds(): string[] {
    return [...new Set(this.errors.map(({ error }) => error.kind))]
  }

  #take(event: SourceEvent): void {
    if (event.type === 'synced') this.synced.add(event.kind)
    if (event.type === 'upsert') this.state.set(`${event.object.kind} ${keyOfObject(event.object)}`, event)
    if (event.type === 'delete') this.state.delete(`${event.kind} ${event.key}`)
  }
}

function keyOfObject(object: { kind: string; name: string }): string {
  return 'namespace' in object ? `${object.namespace}/${object.name}` : object.name
}

/** Resolves when `check` no longer throws or returns false; after `ms` it fails with the last reason. */
export async function until(check: () => unknown, ms = 5_000): Promise<void> {
  const end = performance.now() + ms
  for (;;) {
    try {
      if ((await check()) !== false) return
      if (performance.now() > end) throw new Error(`not within ${ms} ms: ${check}`)
    } catch (error) {
      if (performance.now() > end) throw error
    }
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
