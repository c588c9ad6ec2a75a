import type { Address } from '../../model/address.js'
import type { DesiredState, ServicePort } from '../../model/desired.js'
import type { ApplyReport, ServiceStatus } from '../dataplane.js'
import { type Adoption, adopt, type KernelDump } from './adopt.js'
import type { Grace } from './grace.js'
import type { Limits } from './kernel-maps.js'
import type { KernelWriter } from './kernel-writer.js'
import { READERS_MS, ServiceTable, type TableHooks } from './service-table.js'

/**
 * Makes the maps match a desired state, Service port by Service port. A failure stays
 * with its Service port: the kernel keeps what it had, the others go on, and the caller
 * tries again.
 */
export class Applier {
  readonly #writer: KernelWriter
  readonly #grace: Grace
  readonly #hooks: TableHooks
  readonly #table: ServiceTable
  /** What an earlier run left and nobody claims; goes with the first pruning. */
  #orphans: Adoption['orphans'] | undefined
  #pruned = false

  constructor(limits: Limits, writer: KernelWriter, grace: Grace, hooks: TableHooks) {
    this.#writer = writer
    this.#grace = grace
    this.#hooks = hooks
    this.#table = new ServiceTable(limits, writer, grace, hooks)
  }

  /** Fill of the arrays. */
  get used(): { services: number; backends: number; slots: number } {
    return this.#table.used
  }

  /** Takes over what an earlier run left; call before the first apply. Writes nothing. */
  adopt(dump: KernelDump): void {
    const { services, orphans, retired } = adopt(dump)
    for (const range of dump.ranges) this.#table.adoptRange(range)
    for (const service of services) this.#table.adopt(service, dump.addresses)
    for (const index of [...retired, ...orphans.backends]) this.#table.quarantine('backend', index)
    for (const index of orphans.names) this.#table.quarantine('service', index)
    this.#orphans = orphans
  }

  /** Ids of the Service ports that the kernel has. */
  get ids(): readonly string[] {
    return [...this.#table.services.keys()]
  }

  /** See `Dataplane.apply`. */
  apply(desired: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): ApplyReport {
    const before = this.#writer.writes
    const failed = new Map<string, ServiceStatus>()
    const attempt = (id: string, work: () => void) => {
      if (failed.has(id)) return
      try {
        work()
      } catch (thrown) {
        const error = thrown instanceof Error ? thrown : new Error(String(thrown))
        failed.set(id, { id, revision: this.#table.services.get(id)?.revision ?? 0, error })
      }
    }
    // What was held back while sources were incomplete is compared once they are complete.
    const everything = changed === undefined || (prune && !this.#pruned)
    const ids = everything ? new Set([...desired.services.keys(), ...this.#table.services.keys()]) : changed
    const present = [...ids].flatMap(id => desired.services.get(id) ?? [])
    const wanted = present.filter(port => prune || !this.#isHeldBack(port))
    // Make before break: a frontend that moves from one Service port to another never goes away.
    const { podNetworks = [] } = desired
    attempt('', () => this.#table.growPodNetworks(podNetworks))
    for (const port of wanted) attempt(port.id, () => this.#table.grow(port, desired.revision))
    for (const port of wanted) attempt(port.id, () => this.#table.shrink(port))
    if (prune) {
      for (const id of ids) if (!desired.services.has(id)) attempt(id, () => this.#table.remove(id))
      attempt('', () => {
        this.#table.shrinkPodNetworks(podNetworks)
        this.#removeOrphans()
      })
      this.#pruned = true
    }
    return {
      revision: desired.revision,
      services: ids.size,
      writes: this.#writer.writes - before,
      failed: [...failed.values()],
    }
  }

  /** Tells which addresses are the node's own. */
  setOwnAddresses(own: ReadonlySet<Address>): void {
    this.#table.setOwnAddresses(own)
  }

  /** Adopted and not compared yet: half a list from the source must not replace it. */
  #isHeldBack(port: ServicePort): boolean {
    return this.#table.services.get(port.id)?.revision === 0
  }

  #removeOrphans(): void {
    const orphans = this.#orphans
    if (!orphans) return
    for (const each of orphans.frontends) {
      if (!this.#table.hasFrontend(each.protocol, each)) this.#writer.deleteFrontendKey(each.address, each.key)
    }
    for (const address of orphans.addresses) {
      if (!this.#table.hasAddress(address)) this.#writer.deleteAddress(address)
    }
    this.#table.removeStrayRanges()
    for (const index of orphans.names) this.#writer.deleteName(index)
    this.#orphans = undefined
    this.#grace.after(READERS_MS, () => {
      for (const index of orphans.backends) {
        this.#writer.retireBackend(index)
        this.#hooks.backendRetired(index)
      }
    })
  }
}
