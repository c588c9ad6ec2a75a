/**
 * The table behind the schedulers `maglev` and `source-hash`: which backend is in which
 * slot (Eisenbud et al., "Maglev", NSDI 2016, section 3.4). Pure, and the same on every
 * node: it depends on names alone, not on indexes, order or history.
 */

/** A backend as the table sees it. */
export interface Weighted {
  /** The same on every node, and unique in its list: `address|port`. */
  readonly key: string
  /** 1-100 */
  readonly weight: number
}

/**
 * Table sizes, all prime: a backend's steps then reach every slot. Few, far apart, and
 * just below powers of two, which is what lists are allocated in: a table that changes
 * its size has most connections choose anew, so that should be rare.
 */
const SIZES = [4093, 16381, 65521, 131071] as const
/** When one backend goes, about one in two hundred connections of the others moves; twice as many with half the slots. */
const SLOTS_PER_BACKEND = 800
/** The lightest backend is within a hundredth of its share. */
const SLOTS_OF_LIGHTEST = 100

/** Number of slots for these backends: 0 for none, 1 for one, else a prime. */
export function maglevSize(members: readonly Weighted[]): number {
  if (members.length < 2) return members.length
  let total = 0
  let lightest = Infinity
  for (const { weight } of members) {
    total += weight
    lightest = Math.min(lightest, weight)
  }
  const wanted = Math.max(members.length * SLOTS_PER_BACKEND, (total / lightest) * SLOTS_OF_LIGHTEST)
  return SIZES.find(size => size >= wanted) ?? (SIZES.at(-1) as number)
}

/**
 * The index into `members` of the backend in each slot. Backends take turns; at its turn
 * one takes the next free slot of its own permutation of all slots. A backend of half the
 * largest weight sits out every second turn.
 *
 * @param service name of the Service port: tables of different Services differ
 */
export function maglevTable(service: string, members: readonly Weighted[]): Int32Array {
  const size = maglevSize(members)
  const table = new Int32Array(size).fill(-1)
  const order = members.map((_, i) => i).sort((a, b) => (keyAt(members, a) < keyAt(members, b) ? -1 : 1))
  const largest = members.reduce((max, { weight }) => Math.max(max, weight), 1)
  const turns = order.map(member => {
    const { key, weight } = members[member] as Weighted
    const name = `${service} ${key}`
    const offset = hash(name, 0) % size
    return { member, weight, credit: 0, at: offset, skip: size > 1 ? 1 + (hash(name, 0x9e3779b9) % (size - 1)) : 1 }
  })
  for (let filled = 0; filled < size; ) {
    for (const turn of turns) {
      turn.credit += turn.weight
      if (turn.credit < largest) continue
      turn.credit -= largest
      while (table[turn.at] !== -1) turn.at = (turn.at + turn.skip) % size
      table[turn.at] = turn.member
      if (++filled === size) break
    }
  }
  return table
}

function keyAt(members: readonly Weighted[], index: number): string {
  return (members[index] as Weighted).key
}

/** FNV-1a over the UTF-16 units, then the end of MurmurHash3: 32 bits. */
function hash(text: string, seed: number): number {
  let h = 0x811c9dc5 ^ seed
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}
