import { loadNative } from '../../src/ebpf/load-native.js'
import { NODE_IN, NODE_OUT, nodeOf } from './paths.js'
import type { World } from './world.js'

/** Attaches programs that do nothing where ours would be: what is paid for the hooks alone. Needs tcx (Linux 6.6). */
export function attachEmpty(world: World, path: number): void {
  const native = loadNative()
  const object = native.openObject(world.compile('driver.bpf.c'))
  object.load()
  const empty = object.program('empty')
  native.inNetns(`/run/netns/${world.netnsName(nodeOf(path))}`, () => {
    for (const device of [NODE_IN, NODE_OUT]) {
      for (const direction of ['ingress', 'egress'] as const) {
        const link = native.attachTcx(empty, native.ifNameToIndex(device), direction, 'after')
        world.later(() => link.close())
      }
    }
  })
  empty.close()
  object.close()
}
