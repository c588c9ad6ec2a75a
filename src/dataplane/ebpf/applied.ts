import type { Address } from '../../model/address.js'
import type { FrontendKind, Protocol, Scheduler } from '../../model/desired.js'
import type { SourceClasses } from './encode.js'

/** What the kernel holds, as far as we wrote or adopted it. */

/** A list of backends in the slots map. */
export interface AppliedList {
  /** First slot; 0 with capacity 0 = no list. */
  base: number
  capacity: number
  /** Backend index by position; one may have several. */
  members: number[]
  /** What a table was made of, so that it need not be made again; unset unless it is one and complete. */
  madeOf?: string | undefined
}

export interface AppliedBackend {
  readonly index: number
  readonly address: Address
  readonly port: number
  /** enum backend_flag */
  flags: number
  weight: number
}

export interface AppliedFrontend {
  readonly kind: FrontendKind
  readonly address: Address
  readonly port: number
}

export interface AppliedService {
  /** ServicePort.id */
  readonly id: string
  /** Index in the services map. */
  readonly index: number
  readonly protocol: Protocol
  scheduler: Scheduler
  affinitySeconds: number
  internalLocal: boolean
  externalLocal: boolean
  /** Whom its record lets in; undefined = everybody. */
  sourceRanges: SourceClasses | undefined
  cluster: AppliedList
  local: AppliedList
  /** Addresses of its frontends, node ports aside. */
  readonly addresses: Set<Address>
  /** By `address|port`. */
  readonly frontends: Map<string, AppliedFrontend>
  /** By `address|port`. */
  readonly backends: Map<string, AppliedBackend>
  /** Revision of the desired state that it equals; 0 = adopted, not compared yet. */
  revision: number
}

/** Key of a frontend or backend within its Service port. */
export function endpointKey(address: Address, port: number): string {
  return `${address}|${port}`
}

export function emptyList(): AppliedList {
  return { base: 0, capacity: 0, members: [] }
}
