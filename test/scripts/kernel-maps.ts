import { dumpMaps } from '../../src/dataplane/ebpf/adopt.js'
import { BackendFlag } from '../../src/ebpf/generated/layouts.js'
import { formatEndpoint } from '../../src/model/address.js'
import { createMaps, refuseTenth, startProcess } from '../bpf/maps-rig.js'
import { FakeClock } from '../unit/sync-fake-clock.js'
import type { Extension } from './script-run.js'

/** Longer than every grace period of the dataplane. */
const SETTLED_MS = 5000

/**
 * Lets a script run on real maps: each plan is applied, a tenth of the writes fail, and
 * what failed is repeated until nothing does. `expect maps` reads the kernel.
 */
export function kernelExtension(): { extension: Extension; close: () => void } {
  const maps = createMaps()
  const clock = new FakeClock()
  const { applier } = startProcess(maps, clock, refuseTenth(1))
  return {
    close: () => maps.close(),
    extension: {
      async onPlan({ state, changed }) {
        let pending: ReadonlySet<string> = changed
        for (let round = 0; ; round++) {
          const { failed } = applier.apply(state, pending, true)
          if (failed.length === 0) break
          if (round > 200) throw failed[0]?.error
          pending = new Set(failed.map(each => each.id))
        }
        clock.advance(SETTLED_MS)
      },
      dumps: { maps: () => dumpText(maps) },
    },
  }
}

/** Services with their lists (a backend of several slots with their number), then what else is there. */
function dumpText(maps: ReturnType<typeof createMaps>): string {
  const dump = dumpMaps(maps)
  const endpoint = new Map(dump.backends.map(each => [each.index, formatEndpoint(each.address, each.port)]))
  const list = (members: readonly number[]) => {
    const slots = new Map<number, number>()
    for (const index of members) slots.set(index, (slots.get(index) ?? 0) + 1)
    const texts = [...slots].map(([index, count]) => `${endpoint.get(index)}${count === 1 ? '' : `*${count}`}`)
    return texts.sort().join(' ') || 'none'
  }
  const lines = [...dump.names]
    .sort((a, b) => (a.id < b.id ? -1 : 1))
    .flatMap(({ index, id }) => {
      const service = dump.services.get(index)
      if (!service) return []
      const settings = [
        service.scheduler,
        service.affinitySeconds ? `affinity=${service.affinitySeconds}s` : '',
        service.internalLocal ? 'internal=local' : '',
        service.externalLocal ? 'external=local' : '',
      ]
      const frontends = dump.frontends
        .filter(each => each.service === index)
        .map(each => `  frontend  ${each.kind} ${formatEndpoint(each.address, each.port)}/${each.protocol}`)
      const kept = dump.backends
        .filter(each => each.service === index && (each.flags & ~BackendFlag.LOCAL) === 0)
        .map(each => `  kept      ${endpoint.get(each.index)}`)
      return [
        `${id} ${settings.filter(Boolean).join(' ')}`,
        ...frontends.sort(),
        `  cluster   ${list(service.cluster.members)}`,
        `  local     ${list(service.local.members)}`,
        ...kept.sort(),
      ]
    })
  const addresses = [...dump.addresses.keys()].sort().map(address => `address ${address}`)
  return [...lines, ...addresses].join('\n')
}
