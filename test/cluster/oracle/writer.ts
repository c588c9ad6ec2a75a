import { type ApiObject, type ApiObjects, pathOf } from '../api-objects.js'
import type { Rendered } from './history.js'

const MERGE_PATCH = { type: 'application/merge-patch+json' }

/** Brings the objects of one history from state to state, and remembers what it wrote. */
export class HistoryWriter {
  readonly #objects: ApiObjects
  #service: Rendered['service']
  #slices = new Map<string, object>()

  constructor(objects: ApiObjects) {
    this.#objects = objects
  }

  async become({ service, slices }: Rendered): Promise<void> {
    await this.#serviceBecomes(service)
    for (const [name, old] of this.#slices) {
      if (slices.has(name)) continue
      await this.#objects.request('DELETE', pathOf(old as ApiObject))
      this.#slices.delete(name)
    }
    for (const [name, slice] of slices) {
      await this.#write(this.#slices.get(name), slice)
      this.#slices.set(name, slice)
    }
  }

  async #serviceBecomes(next: Rendered['service']): Promise<void> {
    const old = this.#service
    const same = old !== undefined && next !== undefined && old.identity === next.identity
    if (old !== undefined && !same) await this.#objects.request('DELETE', pathOf(old.body as ApiObject))
    this.#service = next
    if (next === undefined) return
    const kept = await this.#write(same ? old.body : undefined, next.body)
    if (next.status === undefined) return
    // A Service that was no load balancer meanwhile has lost its status.
    if (kept && JSON.stringify(old?.status) === JSON.stringify(next.status)) return
    await this.#objects.request(
      'PATCH',
      `${pathOf(next.body as ApiObject)}/status`,
      { status: next.status },
      MERGE_PATCH,
    )
  }

  /** False when the object is a new one now. */
  async #write(old: object | undefined, next: object): Promise<boolean> {
    if (JSON.stringify(old) === JSON.stringify(next)) return true
    const path = pathOf(next as ApiObject)
    if (old !== undefined) {
      // The API server gives the node ports of before to the ports of now by their number alone, and then
      // finds that TCP and UDP got the same one (500): such a Service is made anew.
      const { status } = await this.#objects.request('PATCH', path, next, { ...MERGE_PATCH, accept: [500] })
      if (status < 300) return true
      await this.#objects.request('DELETE', path)
    }
    await this.#objects.request('POST', path.slice(0, path.lastIndexOf('/')), withoutNulls(next))
    return false
  }
}

/** A new object has no fields to take away, and null would be a value of its own for some. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => (inner === null ? [] : [[key, withoutNulls(inner)]])),
  )
}
