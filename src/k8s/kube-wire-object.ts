import type { ObjectKey } from '../model/objects.js'

/** Stands for an object whose bytes are none; the others of its list or watch go on. */
export class Undecodable {
  /** undefined = not even its name can be read. */
  readonly key: ObjectKey | undefined
  /** metadata.resourceVersion, '' when that cannot be read. */
  readonly version: string
  readonly message: string

  constructor(key: ObjectKey | undefined, version: string, message: string) {
    this.key = key
    this.version = version
    this.message = message
  }
}
