/**
 * How a list of backend indexes in the slots map becomes another one.
 *
 * In place, every state between two writes is a list of valid backends: a leaving
 * backend's slot is overwritten by a new one or by the last one of the list, and the
 * count is raised after the slots behind it are written. In a table (Maglev) the slots
 * that differ are overwritten one by one: each connection has its old backend or its new.
 */

/** One slot to write: position in the list, backend index. */
export interface SlotWrite {
  readonly position: number
  readonly backend: number
}

export interface InPlace {
  /** Before the count changes, in this order. */
  readonly writes: readonly SlotWrite[]
  readonly count: number
  readonly members: readonly number[]
}

/**
 * The writes that turn `current` (backend index by position) into a list with each
 * backend of `target` in so many slots; undefined when the change is so large that a new
 * list and one store are better: the rule of thumb is a quarter of the list, but at least
 * 16 slots.
 */
export function changeInPlace(
  current: readonly number[],
  target: ReadonlyMap<number, number>,
  capacity: number,
): InPlace | undefined {
  const members = [...current]
  const missing = new Map(target)
  const holes: number[] = []
  current.forEach((backend, position) => {
    const wanted = missing.get(backend) ?? 0
    if (wanted === 0) holes.push(position)
    else missing.set(backend, wanted - 1)
  })
  const added: number[] = []
  for (const [backend, count] of missing) for (let i = 0; i < count; i++) added.push(backend)
  const count = current.length - holes.length + added.length
  if (count > capacity || holes.length + added.length > Math.max(16, current.length / 4)) return undefined

  const writes: SlotWrite[] = []
  const write = (position: number, backend: number) => {
    writes.push({ position, backend })
    members[position] = backend
  }
  while (holes.length > 0 && added.length > 0) write(holes.shift() as number, added.shift() as number)
  for (const backend of added) write(members.length, backend)
  // Remaining holes from the back: the last member is never itself a hole that is still to be filled.
  for (const position of holes.reverse()) {
    const last = members.length - 1
    if (position !== last) write(position, members[last] as number)
    members.pop()
  }
  return { writes, count: members.length, members }
}

/**
 * The writes that turn one table into another of the same size: the slots that differ,
 * nothing else. undefined when the sizes differ: positions of the one mean nothing in the
 * other, so that takes a new list.
 */
export function changeTable(current: readonly number[], target: readonly number[]): InPlace | undefined {
  if (current.length !== target.length) return undefined
  const writes: SlotWrite[] = []
  target.forEach((backend, position) => {
    if (current[position] !== backend) writes.push({ position, backend })
  })
  return { writes, count: target.length, members: target }
}

/** The 8-byte word of a service's list (bpf/layout/service.h). */
export function listWord(base: number, count: number): bigint {
  return (BigInt(count) << 32n) | BigInt(base)
}

/** The inverse of {@link listWord}. */
export function splitWord(word: bigint): { base: number; count: number } {
  return { base: Number(word & 0xffffffffn), count: Number(word >> 32n) }
}
