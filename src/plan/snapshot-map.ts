/**
 * A map whose versions share what they have in common: a change copies one shard of 256,
 * not the map, so a revision costs what changed in it.
 */
const SHARDS = 256

/** FNV-1a over UTF-16 units, folded to a shard number. */
function shardOf(key: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash ^ (hash >>> 8)) & (SHARDS - 1)
}

/** One immutable version. Iterates in no particular order. */
export class SnapshotMap<V> implements ReadonlyMap<string, V> {
  readonly #shards: readonly ReadonlyMap<string, V>[]
  readonly size: number

  private constructor(shards: readonly ReadonlyMap<string, V>[], size: number) {
    this.#shards = shards
    this.size = size
  }

  static empty<V>(): SnapshotMap<V> {
    return new SnapshotMap<V>(new Array(SHARDS).fill(new Map<string, V>()), 0)
  }

  /** The next version: `changes` applied to this one, an undefined value meaning removal. */
  with(changes: ReadonlyMap<string, V | undefined>): SnapshotMap<V> {
    const shards = [...this.#shards]
    const copied = new Map<number, Map<string, V>>()
    let size = this.size
    for (const [key, value] of changes) {
      const number = shardOf(key)
      let shard = copied.get(number)
      if (shard === undefined) {
        shard = new Map(shards[number])
        copied.set(number, shard)
        shards[number] = shard
      }
      size -= shard.size
      if (value === undefined) shard.delete(key)
      else shard.set(key, value)
      size += shard.size
    }
    return new SnapshotMap(shards, size)
  }

  get(key: string): V | undefined {
    return this.#shards[shardOf(key)]?.get(key)
  }

  has(key: string): boolean {
    return this.#shards[shardOf(key)]?.has(key) === true
  }

  forEach(visit: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [key, value] of this) visit(value, key, this)
  }

  *entries(): MapIterator<[string, V]> {
    for (const shard of this.#shards) yield* shard
  }

  *keys(): MapIterator<string> {
    for (const shard of this.#shards) yield* shard.keys()
  }

  *values(): MapIterator<V> {
    for (const shard of this.#shards) yield* shard.values()
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries()
  }
}
