import { randomBytes } from 'node:crypto'
import { release } from 'node:os'
import { basename, join } from 'node:path'
import { codeOf, WaggleError } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import { toBytes, u32 } from '../../ebpf/codec.js'
import { maps as layouts } from '../../ebpf/generated/layouts.js'
import type { BpfMap, BpfObject, BpfProgram, Native } from '../../ebpf/native.js'
import type { FlowTableKind } from './flow-table.js'
import { missingFeature, OLDEST_KERNEL } from './kernel-features.js'
import { FLOW_MAPS, type Limits, type MapHandles, mapNames, sizesOf } from './kernel-maps.js'
import type { Pins } from './pins.js'

/** Loading failed: a program refused by the kernel, a pin of another shape. */
export class LoadError extends WaggleError {}

/** Object files, in the order in which they are loaded: {@link fileOf} tells their names in the objects folder. */
const OBJECTS = ['sock.bpf.o', 'sockegress.bpf.o', 'tc.bpf.o', 'xdp.bpf.o', 'flows.bpf.o'] as const
export type ObjectFile = (typeof OBJECTS)[number]

type MapName = keyof typeof layouts
const MAP_NAMES = Object.keys(layouts) as MapName[]

/** Whether this processor does loads in the order of the program (bpf/lib/flat_record.h). */
export const LOADS_IN_ORDER = process.arch === 'x64'

/** Those that have a twin on the flat flow table. */
const ON_FLOWS: ReadonlySet<ObjectFile> = new Set(['tc.bpf.o', 'xdp.bpf.o', 'flows.bpf.o'])

/** Name of an object file in the objects folder. */
export function fileOf(file: ObjectFile, flowTable: FlowTableKind): string {
  return flowTable === 'flat' && ON_FLOWS.has(file) ? file.replace('.bpf.o', '_flat.bpf.o') : file
}

export interface Loaded {
  readonly maps: MapHandles
  /** By program name; pinned under it. */
  readonly programs: ReadonlyMap<string, BpfProgram>
}

/** A signal may interrupt a load; as many times in a row as this it is something else. */
const LOAD_ATTEMPTS = 5

/** Values of the constants (`cfg_*`) of an object file, as its memory holds them. */
export type Constants = Readonly<Partial<Record<ObjectFile, Readonly<Record<string, Uint8Array>>>>>

/**
 * Loads every object onto the pinned maps, making and pinning those that are missing,
 * and pins the programs. Nothing is attached. A map that an earlier run pinned keeps its
 * size; another shape under its name is refused, nothing is lost. Files in `without` are
 * left out.
 */
export function loadObjects(
  native: Native,
  objectsDir: string,
  pins: Pins,
  limits: Limits,
  constants: Constants,
  logger: Logger,
  flowTable: FlowTableKind,
  without: readonly ObjectFile[] = [],
): Loaded {
  pins.makeFolders()
  pins.removeLeftovers()
  const handles = new Map<MapName, BpfMap>()
  const programs = new Map<string, BpfProgram>()
  try {
    for (const name of mapNames(MAP_NAMES, flowTable)) {
      const map = openPinned(native, pins, layouts[name].name)
      if (map) handles.set(name, checkShape(map, name, limits, logger))
    }
    for (const file of OBJECTS) {
      if (without.includes(file)) continue
      const object = openLoaded(
        native,
        join(objectsDir, fileOf(file, flowTable)),
        file,
        handles,
        limits,
        constants[file] ?? {},
        logger,
      )
      try {
        takeMaps(object, handles, pins)
        for (const name of object.programNames()) {
          const program = object.program(name)
          pins.replace('programs', name, program)
          programs.set(name, program)
        }
      } finally {
        object.close()
      }
    }
  } catch (error) {
    for (const handle of [...handles.values(), ...programs.values()]) handle.close()
    throw error
  }
  return { maps: Object.fromEntries(handles) as MapHandles, programs }
}

/** The pinned maps of a previous run; undefined when one is missing. */
export function openPinnedMaps(native: Native, pins: Pins): MapHandles | undefined {
  const flowTable = pinnedFlowTable(pins)
  if (!flowTable) return undefined
  const handles = new Map<MapName, BpfMap>()
  for (const name of mapNames(MAP_NAMES, flowTable)) {
    const map = openPinned(native, pins, layouts[name].name)
    if (!map) {
      for (const handle of handles.values()) handle.close()
      return undefined
    }
    handles.set(name, map)
  }
  return Object.fromEntries(handles) as MapHandles
}

/** Which flow table a previous run pinned. */
export function pinnedFlowTable(pins: Pins): FlowTableKind | undefined {
  const pinned = new Set(pins.list('maps'))
  const kinds = ['hash', 'flat'] as const
  return kinds.find(kind => FLOW_MAPS[kind].some(name => pinned.has(layouts[name].name)))
}

/** What programs are told of the node that they are loaded for. */
function setConstants(native: Native, object: BpfObject, onFlatTable: boolean): void {
  if (onFlatTable) object.setConstant('cfg_loads_in_order', Uint8Array.of(Number(LOADS_IN_ORDER)))
  const cookie = native.netnsCookie()
  if (cookie === undefined || !object.programNames().includes('sock_connect4')) return
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, cookie, true)
  object.setConstant('cfg_node_netns', bytes)
}

/** An object that is loaded onto the known maps. An object that failed to load is of no more use: each try opens it anew. */
function openLoaded(
  native: Native,
  path: string,
  file: ObjectFile,
  known: ReadonlyMap<MapName, BpfMap>,
  limits: Limits,
  constants: Readonly<Record<string, Uint8Array>>,
  logger: Logger,
): BpfObject {
  for (let attempt = 1; ; attempt++) {
    const object = native.openObject(path)
    try {
      setConstants(native, object, file !== basename(path))
      for (const [name, bytes] of Object.entries(constants)) object.setConstant(name, bytes)
      setMaps(object, known, limits)
      const failure = loadFailure(object)
      if (failure === undefined) return object
      if (codeOf(failure) !== 'EAGAIN' || attempt === LOAD_ATTEMPTS) throw loadError(file, failure)
    } catch (error) {
      object.close()
      throw error
    }
    object.close()
    logger.warn('loading was interrupted and is tried again', { file, attempt })
  }
}

/** Loads the object; what the kernel has against it, or undefined. */
function loadFailure(object: BpfObject): unknown {
  try {
    object.load()
    return undefined
  } catch (error) {
    return error
  }
}

/** Sizes of the maps that are still to be made, and handles of the others. */
function setMaps(object: BpfObject, handles: ReadonlyMap<MapName, BpfMap>, limits: Limits): void {
  const sizes = sizesOf(limits)
  const declared = new Set(object.mapNames())
  for (const name of MAP_NAMES) {
    const mapName = layouts[name].name
    if (!declared.has(mapName)) continue
    const known = handles.get(name)
    const size = known ? known.info.maxEntries : sizes[name]
    if (size) object.setMaxEntries(mapName, size)
    if (known) object.reuseMap(mapName, known)
  }
}

/** Pins the maps that the object has made. */
function takeMaps(object: BpfObject, handles: Map<MapName, BpfMap>, pins: Pins): void {
  const declared = new Set(object.mapNames())
  for (const name of MAP_NAMES) {
    const mapName = layouts[name].name
    if (!declared.has(mapName) || handles.has(name)) continue
    const map = object.map(mapName)
    handles.set(name, map)
    // Before anybody can find the map: what it spreads stays where it is.
    if (name === 'flatSecret') map.update(toBytes(u32, 0), randomBytes(layouts.flatSecret.value.size))
    map.pin(pins.path('maps', mapName))
  }
}

function loadError(file: string, cause: unknown): LoadError {
  const log = typeof cause === 'object' && cause !== null && 'log' in cause ? String(cause.log) : ''
  const missing = missingFeature(log)
  if (missing) {
    return new LoadError('KERNEL_TOO_OLD', {
      what: `load ${file}: Linux ${release()} has not got ${missing.name}`,
      cause,
      remedy: `Linux ${missing.since} brought it, and all that waggle needs is in ${OLDEST_KERNEL}: use that or a newer kernel`,
    })
  }
  return new LoadError('LOAD_FAILED', {
    what: `load ${file}`,
    cause,
    remedy: 'see the verifier log in the cause; `waggle version` and the kernel release help in a report',
  })
}

function openPinned(native: Native, pins: Pins, name: string): BpfMap | undefined {
  try {
    return native.openMap(pins.path('maps', name))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function checkShape(map: BpfMap, name: MapName, limits: Limits, logger: Logger): BpfMap {
  const { key, value, type } = layouts[name]
  const { info } = map
  if (info.type !== type || info.keySize !== key.size || info.valueSize !== value.size) {
    map.close()
    throw new LoadError('PIN_MISMATCH', {
      what: `adopt the pinned map ${layouts[name].name}: its layout is another one`,
      remedy: 'it was made by an incompatible version; `waggle cleanup` removes it, connections included',
    })
  }
  const wanted = sizesOf(limits)[name]
  if (wanted !== undefined && wanted !== info.maxEntries) {
    logger.warn('keeping the size of a pinned map', { map: info.name, entries: info.maxEntries, wanted })
  }
  return map
}
