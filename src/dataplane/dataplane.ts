import type { DesiredState } from '../model/desired.js'

/** What became of one Service port in an apply. */
export interface ServiceStatus {
  /** ServicePort.id */
  readonly id: string
  /** Revision that the kernel holds for it, 0 = none. */
  readonly revision: number
  /** Why the newest revision could not be written; undefined = applied. */
  readonly error: Error | undefined
}

export interface ApplyReport {
  readonly revision: number
  /** Service ports that were touched. */
  readonly services: number
  /** Kernel entries written or deleted, of every map. 0 = the kernel was as wanted already. */
  readonly writes: number
  /** Failed Service ports; the sync loop retries them. */
  readonly failed: readonly ServiceStatus[]
}

/** A thing that is missing for this dataplane on this machine. */
export interface Missing {
  readonly what: string
  readonly remedy: string
}

/** An implementation that programs the kernel. */
export interface Dataplane {
  readonly name: 'ebpf' | 'nftables' | 'iptables' | 'ipvs' | 'memory'
  /** What is missing here; changes nothing. Empty = it can start. */
  probe(): Promise<readonly Missing[]>
  /** Adopts what a previous run left, traffic flowing; resolves when apply may be called. */
  start(): Promise<void>
  /**
   * Makes the kernel match `desired`. `changed` names the ids that differ from the last
   * apply (a hint that bounds the work); undefined = compare everything. While
   * `prune` is false nothing is removed: not every source has reported its first full
   * list. Repeating it is harmless; retrying belongs to the sync loop.
   */
  apply(desired: DesiredState, changed: ReadonlySet<string> | undefined, prune: boolean): Promise<ApplyReport>
  /** Lets go: kernel state stays and traffic goes on. */
  stop(): Promise<void>
  /** Removes every object this dataplane ever creates, and nothing else. */
  cleanup(): Promise<void>
}
