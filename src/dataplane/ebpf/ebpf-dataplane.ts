import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { BpfProgram, Native } from '../../ebpf/native.js'
import { SOCK_EGRESS_HOOK, SOCK_HOOKS } from '../../ebpf/sock-hooks.js'
import type { Address } from '../../model/address.js'
import type { DesiredState } from '../../model/desired.js'
import type { ApplyReport, Dataplane, Missing } from '../dataplane.js'
import type { Inspection } from '../inspection.js'
import { dumpMaps } from './adopt.js'
import { Applier } from './applier.js'
import { CgroupLinks } from './cgroup-links.js'
import { cleanupPinned } from './cleanup.js'
import { type AdoptConntrack, adoptionConstants, decideAdoption, readConntrackFacts } from './conntrack-adoption.js'
import { type Device, DeviceLinks } from './device-links.js'
import type { Filter } from './filter.js'
import { type FlowTimeouts, sweepFlows, timeoutConstants } from './flow-expiry.js'
import type { FlowTableKind } from './flow-table.js'
import { chooseFlowTable } from './flow-table-choice.js'
import { Grace } from './grace.js'
import { inspectMaps, readCounters } from './inspect.js'
import { KernelMaps, type Limits } from './kernel-maps.js'
import { KernelWriter } from './kernel-writer.js'
import { loadObjects } from './loader.js'
import { Pins } from './pins.js'
import { READERS_MS } from './service-table.js'
import { type SourcePorts, sourcePortConstants } from './source-ports.js'
import { StaleSockets } from './stale-sockets.js'
import type { XdpMode } from './xdp-choice.js'
import { XDP_PROGRAMS, XdpLinks } from './xdp-links.js'

export interface EbpfOptions {
  readonly native: Native
  /** Folder with the object files that the loader names. */
  readonly objectsDir: string
  /** Folder in a bpffs for our pins; made when missing. */
  readonly pinDir: string
  /** Where the bpffs is to be mounted when it is not. */
  readonly bpffs: string
  /** Directory of cgroup v2 whose sockets are served. */
  readonly cgroup: string
  readonly limits: Limits
  readonly timeouts: FlowTimeouts
  /** Where flows are kept, unless the pinned maps have them elsewhere. Default: hash. */
  readonly flowTable?: FlowTableKind
  /** Whether Service addresses answer to ping. */
  readonly answerPing?: boolean
  /** Not given: as the programs have them. */
  readonly sourcePorts?: SourcePorts
  /** Whether flows that the kernel's NAT translates are left to it. Default auto. */
  readonly adoptConntrack?: AdoptConntrack
  readonly logger: Logger
  readonly clock: Clock
  /** Default off. */
  readonly xdp?: XdpMode
  /** Whether XDP drops unknown ports of Service addresses, which are refused otherwise. */
  readonly xdpDropUnknownPorts?: boolean
  /** Use clsact filters even where the kernel has tcx. */
  readonly clsact?: boolean
}

/** Seconds until the whole flow table was looked at. */
const SWEEP_SECONDS = 15

/** What start() makes and stop() lets go. */
interface Running {
  readonly maps: KernelMaps
  readonly filter: Filter
  readonly grace: Grace
  readonly applier: Applier
  readonly cgroup: CgroupLinks
  readonly devices: DeviceLinks
  readonly stale: StaleSockets
  readonly programs: ReadonlyMap<string, BpfProgram>
  sweptAt: number
  /** When the filter was last looked at; infinite before it may be renewed. */
  filterAt: number
}

/** The product's dataplane: BPF programs at the node's cgroup and devices, fed through pinned maps. */
export class EbpfDataplane implements Dataplane {
  readonly name = 'ebpf'
  readonly #options: EbpfOptions
  readonly #pins: Pins
  #running: Running | undefined

  constructor(options: EbpfOptions) {
    this.#options = options
    this.#pins = new Pins(options.pinDir)
  }

  async probe(): Promise<readonly Missing[]> {
    const { cgroup, objectsDir } = this.#options
    const missing: Missing[] = []
    if (!existsSync(join(cgroup, 'cgroup.procs')) || !existsSync(join(cgroup, 'cgroup.controllers'))) {
      missing.push({ what: `${cgroup} is no cgroup v2 directory`, remedy: 'mount cgroup2 and pass --cgroup' })
    }
    if (!existsSync('/sys/kernel/btf/vmlinux')) {
      missing.push({ what: 'the kernel has no BTF', remedy: 'use a kernel with CONFIG_DEBUG_INFO_BTF' })
    }
    if (!existsSync(join(objectsDir, 'sock.bpf.o'))) {
      missing.push({ what: `no BPF objects in ${objectsDir}`, remedy: 'run `make build`' })
    }
    return missing
  }

  async start(): Promise<void> {
    const { native, objectsDir, bpffs, cgroup, limits, timeouts, sourcePorts, logger, clock, clsact } = this.#options
    const flowTable = chooseFlowTable(this.#pins, limits, this.#options.flowTable ?? 'hash', logger)
    const { answerPing = false, xdp = 'off', xdpDropUnknownPorts = false } = this.#options
    const adoption = decideAdoption(this.#options.adoptConntrack ?? 'auto', readConntrackFacts())
    const shared = {
      ...timeoutConstants(timeouts),
      ...(sourcePorts ? sourcePortConstants(sourcePorts) : {}),
      ...adoptionConstants(adoption),
    }
    native.mountBpffs(bpffs)
    const loaded = loadObjects(
      native,
      objectsDir,
      this.#pins,
      limits,
      {
        'tc.bpf.o': { ...shared, cfg_answer_ping: Uint8Array.of(Number(answerPing)) },
        'xdp.bpf.o': {
          ...shared,
          cfg_drop_unknown_ports: Uint8Array.of(Number(xdpDropUnknownPorts)),
        },
        'flows.bpf.o': timeoutConstants(timeouts),
      },
      logger,
      flowTable,
      xdp === 'off' ? ['xdp.bpf.o'] : [],
    )
    if (xdp === 'off') for (const name of Object.values(XDP_PROGRAMS)) this.#pins.remove('programs', name)
    const maps = new KernelMaps(loaded.maps)
    const grace = new Grace(clock, error => logger.error('a deferred write failed', { error: messageOf(error) }))
    const links = new CgroupLinks(native, this.#pins, cgroup, loaded.programs, logger)
    const xdpLinks = new XdpLinks(native, this.#pins, loaded.programs, xdp, logger)
    const devices = new DeviceLinks(native, this.#pins, loaded.programs, maps.handles.devices, xdpLinks, logger, clsact)
    const stale = new StaleSockets(maps, links, logger)
    const writer = new KernelWriter(maps)
    const applier = new Applier(maps.limits, writer, grace, {
      now: () => clock.monotonic(),
      backendIsUnused: index => stale.live(index) === 0,
      backendRetired: index => stale.watch(index),
    })
    applier.adopt(dumpMaps(maps))
    // Maps are as the last run left them; programs that read old state go before those that make it.
    for (const hook of SOCK_HOOKS) links.attach(hook)
    stale.adopt()
    const sweptAt = clock.monotonic()
    const { programs } = loaded
    const { filter } = writer
    const filterAt = Number.POSITIVE_INFINITY
    this.#running = { maps, filter, grace, applier, cgroup: links, devices, stale, programs, sweptAt, filterAt }
    logger.info('adopted', { ...applier.used, flowTable })
    if (adoption.warning) logger.warn(adoption.warning, { reason: adoption.reason })
    else logger.info('flows that the kernel translates', { left: adoption.on, reason: adoption.reason })
  }

  /** Ids of the Service ports that the kernel has; after start() what an earlier run left. */
  get served(): readonly string[] {
    return this.#state().applier.ids
  }

  async apply(desired: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): Promise<ApplyReport> {
    return this.#state().applier.apply(desired, changed, prune)
  }

  /**
   * Tells which devices the packet layer serves and which addresses are the node's own
   * (the devices' if not said): an unknown port of one of those belongs to the host. Call
   * it once after start() and at each change.
   */
  setDevices(
    devices: readonly Device[],
    addresses: readonly Address[] = devices.flatMap(each => [each.address4 ?? [], each.address6 ?? []].flat()),
  ): void {
    const { devices: links, applier } = this.#state()
    links.set(devices)
    applier.setOwnAddresses(new Set(addresses))
    // Not before: an earlier run's programs may still be opening flows without a word to it.
    this.#renewFilter()
  }

  /**
   * What must be looked at now and then, about once a second: own links, dead sockets, old
   * flows. Returns the programs that somebody had detached and that are attached again.
   */
  async housekeep(): Promise<readonly string[]> {
    const running = this.#state()
    const { cgroup, devices } = running
    running.stale.check()
    const hooks = cgroup.isPinned(SOCK_EGRESS_HOOK) ? [...SOCK_HOOKS, SOCK_EGRESS_HOOK] : SOCK_HOOKS
    const restored = [...cgroup.repair(hooks), ...devices.repair()]
    const now = this.#options.clock.monotonic()
    const share = Math.min(1, (now - running.sweptAt) / (SWEEP_SECONDS * 1000))
    const sweep = running.programs.get('flow_sweep')
    // Interrupted: the next look does this one's share, too.
    if (!sweep || sweepFlows(sweep, running.maps.flows.places, share)) running.sweptAt = now
    if (now - running.filterAt >= SWEEP_SECONDS * 1000) this.#renewFilter()
    return restored
  }

  #renewFilter(): void {
    const running = this.#state()
    const { filter, grace } = running
    running.filterAt = this.#options.clock.monotonic()
    if (!filter.wantsRenewal) return
    filter.prepare()
    grace.after(READERS_MS, () => filter.renew())
  }

  /** What the kernel holds now. */
  inspect(): Inspection {
    return inspectMaps(this.#options.native, this.#state().maps, this.#pins, process.hrtime.bigint())
  }

  /** What the packet path counts and how full the maps are: cheap enough for every scrape. */
  counters(): Pick<Inspection, 'outcomes' | 'maps' | 'flowCounts'> {
    return readCounters(this.#state().maps)
  }

  async stop(): Promise<void> {
    const running = this.#running
    if (!running) return
    this.#running = undefined
    running.grace.stop()
    for (const program of running.programs.values()) program.close()
    running.maps.close()
  }

  async cleanup(): Promise<void> {
    await this.stop()
    cleanupPinned(this.#options.native, this.#pins, false)
  }

  #state(): Running {
    if (!this.#running) throw new TypeError('the dataplane is not started')
    return this.#running
  }
}
