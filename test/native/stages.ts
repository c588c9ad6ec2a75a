import { execFileSync } from 'node:child_process'
import { basename } from 'node:path'
import { setImmediate, setTimeout } from 'node:timers/promises'
import type { BpfMap, BpfObject, BpfProgram, Native } from '../../src/ebpf/native.js'
import { bpfDescriptors } from './descriptors.js'
import { AttachType, MapType } from './kernel-enums.js'

/** What a stage is reached with. */
export interface World {
  readonly native: Native
  /** The fixture, compiled. */
  readonly objectPath: string
  readonly cgroup: string
  readonly netns: string
  /** Starts a thread, waits until it has called reached(), decides its end by `then`, waits for it. */
  worker(stage: string, then: (thread: { terminate(): Promise<number> }) => Promise<unknown>): Promise<void>
  /** Of a worker. */
  reached(): void
}

type Stage = (world: World) => void | Promise<void>

const MMAPABLE = 1024
const PACKET = { data: new Uint8Array(64) }

const collect = (globalThis as { gc?: () => void }).gc ?? (() => {})

function loaded({ native, objectPath }: World): { object: BpfObject; events: BpfMap; emit: BpfProgram } {
  const object = native.openObject(objectPath)
  object.load()
  return { object, events: object.map('events'), emit: object.program('emit') }
}

function plainMap(native: Native): BpfMap {
  return native.createMap({ type: MapType.hash, name: 'waggle_stage', keySize: 4, valueSize: 4, maxEntries: 4 })
}

function check(condition: boolean, what: string): void {
  if (!condition) throw new Error(`not so: ${what}`)
}

/** Collects, and lets finalizers run: they wait for a turn of the loop. */
async function garbage(): Promise<void> {
  for (let i = 0; i < 5; i++) {
    collect()
    await setImmediate()
  }
}

/** A change that a netlink watch in the namespace hears of. */
function raiseLoopback({ netns }: World): void {
  for (const state of ['down', 'up']) execFileSync('ip', ['-n', basename(netns), 'link', 'set', 'lo', state])
}

/** Stages of a process, by name; each resolves when it is reached. */
export const stages: Record<string, Stage> = {
  'the addon is loaded': () => {},

  'an object is open': world => void world.native.openObject(world.objectPath),

  'an object is loaded': world => void loaded(world),

  'a load has failed': world => {
    const object = world.native.openObject(world.objectPath)
    object.setMaxEntries('events', 4096 * 3) // not a power of two: libbpf rounds it up
    object.setMaxEntries('cells', 2 ** 32 - 1)
    try {
      object.load()
    } catch {
      return
    }
    throw new Error('that much memory was given')
  },

  'a map is mapped': world => {
    const map = world.native.createMap({
      type: MapType.array,
      name: 'waggle_stage',
      keySize: 4,
      valueSize: 8,
      maxEntries: 1000,
      flags: MMAPABLE,
    })
    new Uint8Array(map.mmap()).fill(1)
  },

  'a mapping is used when its map is garbage': async world => {
    let map: BpfMap | undefined = world.native.createMap({
      type: MapType.array,
      name: 'waggle_stage',
      keySize: 4,
      valueSize: 8,
      maxEntries: 1000,
      flags: MMAPABLE,
    })
    const view = new BigUint64Array(map.mmap())
    map = undefined
    await garbage()
    view.fill(3n)
    check(view[999] === 3n, 'the memory is there')
  },

  'mappings are garbage': async world => {
    const map = world.native.createMap({
      type: MapType.array,
      name: 'waggle_stage',
      keySize: 4,
      valueSize: 8,
      maxEntries: 1000,
      flags: MMAPABLE,
    })
    for (let i = 0; i < 100; i++) new Uint8Array(map.mmap())[i] = i
    await garbage()
    check((map.lookup(new Uint8Array([8, 0, 0, 0])) as Uint8Array)[7] === 71, 'what was stored stays')
  },

  'a program is attached': world => {
    const { object } = loaded(world)
    world.native.attachCgroup(object.program('allow'), world.cgroup, AttachType.connect4)
  },

  'a thousand handles are garbage': async world => {
    const before = bpfDescriptors()
    for (let i = 0; i < 1000; i++) plainMap(world.native)
    await garbage()
    check(bpfDescriptors() - before < 10, `descriptors are given back, not ${bpfDescriptors() - before}`)
  },

  'a ring is open but not waited for': world => {
    const { events } = loaded(world)
    world.native.openRingBuffer(events, () => {}).unref()
  },

  'a ring is closed': world => {
    const { events } = loaded(world)
    world.native.openRingBuffer(events, () => {}).close()
  },

  'a ring is open and the process exits': world => {
    const { events, emit } = loaded(world)
    world.native.openRingBuffer(events, () => {})
    emit.testRun(PACKET)
    process.exit(0)
  },

  'the process exits within the callback': world => {
    const { events, emit } = loaded(world)
    world.native.openRingBuffer(events, () => process.exit(0))
    emit.testRun(PACKET)
  },

  'the callback throws': async world => {
    const { events, emit } = loaded(world)
    const seen: unknown[] = []
    process.on('uncaughtException', error => seen.push(error))
    let calls = 0
    const ring = world.native.openRingBuffer(events, () => {
      calls++
      throw new Error('mine')
    })
    for (let i = 0; i < 2; i++) {
      emit.testRun(PACKET)
      await setTimeout(30)
    }
    ring.close()
    check(calls === 2 && seen.length === 2, `each throw is reported, not ${seen.length} of ${calls}`)
  },

  'promises settle after the callback': async world => {
    const { events, emit } = loaded(world)
    const order: string[] = []
    const ring = world.native.openRingBuffer(events, () => {
      void Promise.resolve().then(() => order.push('promise'))
      order.push('callback')
    })
    emit.testRun(PACKET)
    await setTimeout(30)
    ring.close()
    check(order.join() === 'callback,promise', order.join())
  },

  'a ring that nobody holds still delivers': async world => {
    const { events, emit } = loaded(world)
    let calls = 0
    world.native.openRingBuffer(events, () => calls++).unref()
    await garbage()
    emit.testRun(PACKET)
    await setTimeout(30)
    check(calls === 1, 'one delivery')
  },

  'rings are opened and closed in turn': async world => {
    const { events, emit } = loaded(world)
    for (let i = 0; i < 50; i++) {
      const ring = world.native.openRingBuffer(events, () => {})
      emit.testRun(PACKET)
      if (i % 2) await setImmediate()
      ring.close()
    }
  },

  'the network is watched but not waited for': world => world.native.openNetlinkWatch(() => {}).unref(),

  'the process exits within the callback of a netlink watch': async world => {
    world.native.inNetns(world.netns, () => world.native.openNetlinkWatch(() => process.exit(0)))
    raiseLoopback(world)
  },

  'a netlink watch that nobody holds still hears': async world => {
    let calls = 0
    world.native.inNetns(world.netns, () => world.native.openNetlinkWatch(() => calls++).unref())
    await garbage()
    raiseLoopback(world)
    await setTimeout(100)
    check(calls > 0, 'it was told')
  },

  'netlink watches are opened and closed in turn': async world => {
    for (let i = 0; i < 50; i++) {
      const watch = world.native.inNetns(world.netns, () => world.native.openNetlinkWatch(() => {}))
      if (i % 10 === 0) raiseLoopback(world)
      if (i % 2) await setImmediate()
      watch.close()
    }
  },

  'the process exits within a namespace': world => world.native.inNetns(world.netns, () => process.exit(0)),

  'a worker ends with all of it open': world => world.worker('everything is open', async () => {}),

  'a worker is terminated with all of it open': world =>
    world.worker('everything stays open', thread => thread.terminate()),

  'a worker is terminated within a namespace': world =>
    world.worker('busy in a namespace', async thread => {
      await setTimeout(50)
      await thread.terminate()
    }),

  'workers come and go': async world => {
    for (let i = 0; i < 5; i++) await world.worker('everything is open', async () => {})
    world.native.openObject(world.objectPath).close()
  },
}

/** Stages of a worker. */
export const workerStages: Record<string, Stage> = {
  'everything is open': world => {
    const { object, events } = loaded(world)
    const cells = object.map('cells')
    new Uint8Array(cells.mmap())[0] = 1
    world.native.attachCgroup(object.program('allow'), world.cgroup, AttachType.connect4)
    world.native.openRingBuffer(events, () => {}).unref()
    world.native.openNetlinkWatch(() => {}).unref()
    world.reached()
  },
  'everything stays open': async world => {
    const { events, emit } = loaded(world)
    world.native.openRingBuffer(events, () => {})
    world.native.openNetlinkWatch(() => {})
    for (let i = 0; ; i++) {
      emit.testRun(PACKET)
      await setImmediate()
      if (i === 10) world.reached()
    }
  },
  'busy in a namespace': world =>
    world.native.inNetns(world.netns, () => {
      world.reached()
      for (;;) plainMap(world.native).close()
    }),
}
