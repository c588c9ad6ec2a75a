import { dumpMaps } from '../../src/dataplane/ebpf/adopt.js'
import { Applier } from '../../src/dataplane/ebpf/applier.js'
import { Grace } from '../../src/dataplane/ebpf/grace.js'
import { KernelMaps, type Limits, type MapHandles, sizesOf } from '../../src/dataplane/ebpf/kernel-maps.js'
import { KernelWriter } from '../../src/dataplane/ebpf/kernel-writer.js'
import { maps as layouts } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { MapType } from '../../src/ebpf/uapi.js'
import type { FakeClock } from '../unit/sync-fake-clock.js'

/** The dataplane's writing half on real maps, without programs: small maps, a clock that obeys, writes that fail. */
const LIMITS: Limits = { services: 64, frontends: 256, backends: 512, slots: 262144, flows: 8, sourceRanges: 256 }

class Refusal extends Error {}

/** Whether the writer's call number `n`, of the method `name`, fails. */
export type Refuses = (n: number, name: string | symbol) => boolean

/** A tenth of all writes; of the slots, of which a table has thousands, one in fifty. */
export function refuseTenth(seed: number): Refuses {
  return (n, name) => Math.imul(n + seed, 0x9e3779b1) >>> 0 < 0xffffffff / (name === 'putSlot' ? 50 : 10)
}

export function createMaps(): KernelMaps {
  const native = loadNative()
  const sizes: Partial<Record<string, number>> = sizesOf(LIMITS)
  const handles = Object.entries(layouts).map(([name, layout]) => {
    // Socket storage wants BTF of its value; the control plane never touches it.
    const storage = layout.type === MapType.SK_STORAGE
    const map = native.createMap({
      type: storage ? MapType.HASH : layout.type,
      name: layout.name,
      keySize: layout.key.size,
      valueSize: layout.value.size,
      maxEntries: sizes[name] ?? 16,
      flags: storage ? 0 : layout.flags,
    })
    return [name, map] as const
  })
  return new KernelMaps(Object.fromEntries(handles) as MapHandles)
}

/** A writer whose write number `n` throws for every `n` that `refuses`. */
function writerThat(maps: KernelMaps, refuses: Refuses): KernelWriter {
  let n = 0
  return new Proxy(new KernelWriter(maps), {
    get(target, name) {
      const member = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      return (...args: unknown[]) => {
        if (refuses(n++, name)) throw new Refusal()
        return Reflect.apply(member, target, args)
      }
    },
  })
}

/** One process: adopts what the maps hold. Write number `n` is refused for every `n` that `refuses`. */
export function startProcess(maps: KernelMaps, clock: FakeClock, refuses: Refuses = () => false) {
  const errors: unknown[] = []
  const grace = new Grace(clock, error => errors.push(error))
  const hooks = { now: () => clock.monotonic(), backendIsUnused: () => true, backendRetired() {} }
  const applier = new Applier(LIMITS, writerThat(maps, refuses), grace, hooks)
  applier.adopt(dumpMaps(maps))
  return { applier, grace }
}
