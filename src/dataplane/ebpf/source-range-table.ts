import { type Cidr, cidrOfMapped } from '../../model/cidr.js'
import type { DumpedRange } from './adopt.js'
import type { KernelWriter } from './kernel-writer.js'

/** Index that stands for the pod networks of the cluster, in the place of a service's. */
export const POD_NETWORKS = 0

/**
 * The networks in the kernel's trie, by the service that they belong to. Growing comes
 * before a service's settings and its frontends, shrinking after both: between two writes
 * nobody is let in whom neither the old nor the new list names.
 */
export class SourceRangeTable {
  readonly #writer: KernelWriter
  readonly #applied = new Map<number, Set<Cidr>>()

  constructor(writer: KernelWriter) {
    this.#writer = writer
  }

  /** Service indexes that have a range, the pod networks' too. */
  get indexes(): readonly number[] {
    return [...this.#applied.keys()]
  }

  /** A range that an earlier run left. */
  adopt({ service, base, prefix }: DumpedRange): void {
    this.#of(service).add(cidrOfMapped(base, prefix))
  }

  grow(service: number, ranges: readonly Cidr[]): void {
    if (ranges.length === 0) return
    const applied = this.#of(service)
    for (const range of ranges) {
      if (applied.has(range)) continue
      this.#writer.putRange(service, range)
      applied.add(range)
    }
  }

  /** Leaves those of `ranges`. */
  shrink(service: number, ranges: readonly Cidr[]): void {
    const applied = this.#applied.get(service)
    if (applied === undefined) return
    for (const range of applied) {
      if (ranges.includes(range)) continue
      this.#writer.deleteRange(service, range)
      applied.delete(range)
    }
    if (applied.size === 0) this.#applied.delete(service)
  }

  #of(service: number): Set<Cidr> {
    const known = this.#applied.get(service)
    if (known) return known
    const ranges = new Set<Cidr>()
    this.#applied.set(service, ranges)
    return ranges
  }
}
