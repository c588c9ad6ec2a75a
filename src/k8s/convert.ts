import type { ObjectKey, WatchedKind, WatchedObject } from '../model/objects.js'
import { convertEndpointSlice } from './convert-endpoint-slice.js'
import { convertNode } from './convert-node.js'
import type { FieldProblem } from './convert-report.js'
import { convertService } from './convert-service.js'

/**
 * What became of a raw API object:
 * - an object: usable; problems name the elements that were left out;
 * - no object and problems: invalid as a whole, its last good state stays;
 * - neither: not for us (headless, ExternalName, another proxy's, FQDN), to be treated as
 *   if it did not exist.
 */
export interface Converted {
  /** undefined when not even the name is known. */
  readonly key: ObjectKey | undefined
  readonly object: WatchedObject | undefined
  readonly problems: readonly FieldProblem[]
}

const CONVERTERS: Readonly<Record<WatchedKind, (raw: unknown) => Converted>> = {
  Service: convertService,
  EndpointSlice: convertEndpointSlice,
  Node: convertNode,
}

/**
 * A raw API object of a known kind (the kind is an argument because items of an API list
 * do not carry it), checked and normalised. Never throws and never changes `raw`.
 */
export function convert(kind: WatchedKind, raw: unknown): Converted {
  return CONVERTERS[kind](raw)
}

/** Nothing of the object is used, and nothing is wrong with it. */
export function isAbsent(converted: Converted): boolean {
  return converted.object === undefined && converted.problems.length === 0
}
