import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.js'
import { type Logger, silentLogger } from '../../src/base/log.js'
import type { Device } from '../../src/dataplane/ebpf/device-links.js'
import { EbpfDataplane } from '../../src/dataplane/ebpf/ebpf-dataplane.js'
import type { FlowTableKind } from '../../src/dataplane/ebpf/flow-table.js'
import type { Limits } from '../../src/dataplane/ebpf/kernel-maps.js'
import type { XdpMode } from '../../src/dataplane/ebpf/xdp-choice.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { parseAddress } from '../../src/model/address.js'
import type { DesiredState } from '../../src/model/desired.js'
import { FAMILIES, type NodeDevice, nodeAddress, nodeOf } from './paths.js'
import { ROOT, type World } from './world.js'

/** What `waggle run` uses when nothing is said. */
export const DEFAULT_LIMITS: Limits = {
  services: 16_384,
  frontends: 65_536,
  backends: 131_072,
  slots: 524_288,
  flows: 65_536,
  sourceRanges: 65_536,
}

/** Errors count: a benchmark of a dataplane that complains is worth nothing. */
const strictLogger: Logger = {
  ...silentLogger,
  error(message, fields) {
    throw new Error(`${message} ${JSON.stringify(fields)}`)
  },
}

export interface Place {
  readonly bpffs: string
  readonly cgroup: string
}

let flowTable: FlowTableKind | undefined

/** Has all dataplanes made from now on keep their flows there; what `waggle run` chooses when not said. */
export function useFlowTable(kind: FlowTableKind | undefined): void {
  flowTable = kind
}

/** The product's dataplane in a private bpffs and cgroup; not started. */
export function makeDataplane({ bpffs, cgroup }: Place, limits: Limits, xdp: XdpMode = 'off'): EbpfDataplane {
  return new EbpfDataplane({
    native: loadNative(),
    objectsDir: join(ROOT, 'build/bpf'),
    pinDir: join(bpffs, 'waggle'),
    bpffs,
    cgroup,
    limits,
    xdp,
    ...(flowTable && { flowTable }),
    timeouts: {
      tcpEstablishedSeconds: 7440,
      tcpTransitorySeconds: 240,
      tcpClosedSeconds: 10,
      udpSeconds: 120,
      udpStreamSeconds: 300,
    },
    logger: strictLogger,
    clock: systemClock,
  })
}

/** A started dataplane that goes with the world. */
export async function startDataplane(
  world: World,
  place: Place,
  limits: Limits,
  xdp: XdpMode = 'off',
): Promise<EbpfDataplane> {
  const dataplane = makeDataplane(place, limits, xdp)
  await dataplane.start()
  // Not cleanup(), which waits for nothing here: pins go with the bpffs, links with their pins.
  world.later(() => void dataplane.stop())
  return dataplane
}

/** Applies all of `desired`; throws when a Service port failed. Returns the number of writes. */
export async function applyAll(dataplane: EbpfDataplane, desired: DesiredState): Promise<number> {
  const report = await dataplane.apply(desired, undefined, true)
  const [failure] = report.failed
  if (failure) throw failure.error ?? new Error(failure.id)
  return report.writes
}

/** Attaches the packet layer to devices of the node of a path. */
export function setDevices(world: World, dataplane: EbpfDataplane, path: number, names: readonly NodeDevice[]): void {
  const native = loadNative()
  native.inNetns(`/run/netns/${world.netnsName(nodeOf(path))}`, () => {
    const devices = names.map((name): Device => {
      const [address4, address6] = FAMILIES.map(family => parseAddress(nodeAddress(path, family, name)))
      if (!address4 || !address6) throw new TypeError(`${name} has no address`)
      return { name, ifindex: native.ifNameToIndex(name), address4, address6 }
    })
    dataplane.setDevices(devices)
  })
}
