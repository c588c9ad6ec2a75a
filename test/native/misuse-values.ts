import type { BpfLink, BpfMap, BpfObject, BpfProgram, Native, Watch } from '../../src/ebpf/native.js'
import { AttachType, MapType } from './kernel-enums.js'

/** What an argument has to be; `?` = may be left out. */
export type Kind =
  | 'bytes'
  | 'number'
  | 'number?'
  | 'text'
  | 'text?'
  | 'boolean'
  | 'function'
  | 'options'
  | 'map'
  | 'program'

/** One handle of each class, and closed ones. */
export interface Handles {
  readonly object: BpfObject
  readonly unloaded: BpfObject
  readonly map: BpfMap
  readonly percpu: BpfMap
  readonly events: BpfMap
  readonly tc: BpfProgram
  readonly xdp: BpfProgram
  readonly sock: BpfProgram
  readonly link: BpfLink
  readonly ring: Watch
  readonly network: Watch
  readonly closedMap: BpfMap
  readonly closedProgram: BpfProgram
}

export function makeHandles(native: Native, objectPath: string, cgroup: string): Handles {
  const object = native.openObject(objectPath)
  object.load()
  const closedMap = object.map('words')
  closedMap.close()
  const closedProgram = object.program('answer')
  closedProgram.close()
  const events = object.map('events')
  const sock = object.program('allow')
  const ring = native.openRingBuffer(events, () => {})
  ring.unref()
  const network = native.openNetlinkWatch(() => {})
  network.unref()
  return {
    object,
    unloaded: native.openObject(objectPath),
    map: object.map('words'),
    percpu: native.createMap({
      type: MapType.percpuArray,
      name: 'waggle_misuse',
      keySize: 4,
      valueSize: 8,
      maxEntries: 2,
    }),
    events,
    tc: object.program('answer'),
    xdp: object.program('grow'),
    sock,
    link: native.attachCgroup(sock, cgroup, AttachType.connect4),
    ring,
    network,
    closedMap,
    closedProgram,
  }
}

export function closeHandles(handles: Handles): void {
  for (const handle of Object.values(handles)) handle.close()
}

export interface Bad {
  readonly name: string
  readonly value: unknown
  /** Kinds of argument that this is of: then it may be taken. */
  readonly fits: readonly Kind[]
}

function detached(): Uint8Array {
  const bytes = new Uint8Array(4)
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
  return bytes
}

/** Bytes over a buffer that was shrunk until they hang in the air. */
function outOfBounds(): Uint8Array {
  const buffer = new (ArrayBuffer as unknown as new (length: number, options: object) => ArrayBuffer)(64, {
    maxByteLength: 64,
  })
  const bytes = new Uint8Array(buffer, 32, 4)
  ;(buffer as unknown as { resize(length: number): void }).resize(0)
  return bytes
}

/** Values that no argument was meant to have, or only an argument of another kind. */
export function badValues(native: Native, handles: Handles): Bad[] {
  const anything: Kind[] = ['options']
  const bad = (name: string, value: unknown, ...fits: Kind[]): Bad => ({ name, value, fits })
  return [
    bad('undefined', undefined, 'number?', 'text?'),
    bad('null', null),
    bad('true', true, 'boolean'),
    ...[Number.NaN, -1, -0.5, 1.5, 0, 2 ** 31, 2 ** 32, 2 ** 53, 1e300, Number.POSITIVE_INFINITY].map(number =>
      bad(`the number ${number}`, number, 'number', 'number?'),
    ),
    bad('a bigint', 1n),
    ...['', 'a\0b', 'x'.repeat(100_000), '\ud800', '-1', '../../..', 'constructor'].map(text =>
      bad(`the text ${JSON.stringify(text.slice(0, 9))}`, text, 'text', 'text?'),
    ),
    bad('a symbol', Symbol('s')),
    bad('an object', {}, ...anything),
    bad('an object without prototype', Object.create(null), ...anything),
    bad('an array', [1, 2, 3], ...anything),
    bad('a frozen object', Object.freeze({}), ...anything),
    bad('a date', new Date(0), ...anything),
    bad('a number object', Object(1), ...anything),
    bad('a text object', Object('text'), ...anything),
    bad('a function', () => 1, 'function', ...anything),
    bad('a class', class {}, 'function', ...anything),
    bad(
      'a function that throws',
      () => {
        throw new Error('mine')
      },
      'function',
      ...anything,
    ),
    bad(
      'a proxy that throws',
      new Proxy(
        {},
        {
          get() {
            throw new Error('mine')
          },
        },
      ),
      ...anything,
    ),
    bad('a promise', Promise.resolve(), ...anything),
    bad('no bytes', new Uint8Array(0), 'bytes', ...anything),
    bad('three bytes', new Uint8Array(3), 'bytes', ...anything),
    bad('16 MiB', new Uint8Array(1 << 24), 'bytes', ...anything),
    bad('detached bytes', detached(), 'bytes', ...anything),
    bad('bytes out of bounds', outOfBounds(), 'bytes', ...anything),
    bad('shared bytes', new Uint8Array(new SharedArrayBuffer(4)), 'bytes', ...anything),
    bad('a Buffer', Buffer.from('abcd'), 'bytes', ...anything),
    bad('clamped bytes', new Uint8ClampedArray(4), ...anything),
    bad('signed bytes', new Int8Array(4), ...anything),
    bad('floats', new Float64Array(4), ...anything),
    bad('bigints', new BigUint64Array(4), ...anything),
    bad('a DataView', new DataView(new ArrayBuffer(4)), ...anything),
    bad('an ArrayBuffer', new ArrayBuffer(4), ...anything),
    bad('a SharedArrayBuffer', new SharedArrayBuffer(4), ...anything),
    bad('a map', handles.map, 'map', ...anything),
    bad('a ring as a map', handles.events, 'map', ...anything),
    bad('a program', handles.xdp, 'program', ...anything),
    bad('a link', handles.link, ...anything),
    bad('an open object', handles.object, ...anything),
    bad('a ring buffer', handles.ring, ...anything),
    bad('a netlink watch', handles.network, ...anything),
    bad('a closed map', handles.closedMap, ...anything),
    bad('a closed program', handles.closedProgram, ...anything),
    bad('a proxy of a map', new Proxy(handles.map, {}), ...anything),
    bad('an heir of a map', Object.create(handles.map), ...anything),
    bad('an object that poses as a map', Object.setPrototypeOf({}, Object.getPrototypeOf(handles.map)), ...anything),
    bad('the addon', native, ...anything),
    bad('the global object', globalThis, ...anything),
  ]
}
