import type { Native } from '../../src/ebpf/native.js'
import { AttachType, MapType } from './kernel-enums.js'
import type { Handles, Kind } from './misuse-values.js'

/** A function of the addon with arguments that it takes, and what each of them has to be. */
export interface Call {
  readonly name: string
  readonly receiver: object
  readonly method: string
  readonly args: readonly unknown[]
  readonly kinds: readonly Kind[]
}

/** Every function but those without arguments; `places` are where pins and mounts may go. */
export function everyCall(native: Native, handles: Handles, cgroup: string, places: string): Call[] {
  const { unloaded, object, map, percpu, events, tc, xdp, sock, link } = handles
  const key = new Uint8Array(4)
  const value = new Uint8Array(8)
  const call =
    (className: string, receiver: object) =>
    (method: string, ...args: [unknown, Kind][]): Call => ({
      name: `${className}.${method}`,
      receiver,
      method,
      args: args.map(([arg]) => arg),
      kinds: args.map(([, kind]) => kind),
    })
  const onNative = call('native', native)
  const onMap = call('map', map)
  const onPercpu = call('percpu', percpu)
  const onUnloaded = call('unloaded', unloaded)
  const onObject = call('object', object)
  const device: [unknown, Kind][] = [
    [1, 'number'],
    ['ingress', 'text'],
  ]
  const filter: [unknown, Kind][] = [...device, [1, 'number'], [1, 'number']]
  return [
    onNative('openObject', ['/etc/passwd', 'text']),
    onNative('openMap', [`${places}/absent`, 'text']),
    onNative('openProgram', [`${places}/absent`, 'text']),
    onNative('openLink', [`${places}/absent`, 'text']),
    onNative('attachCgroup', [sock, 'program'], [cgroup, 'text'], [AttachType.connect4, 'number']),
    onNative('attachTcx', [tc, 'program'], ...device, ['before', 'text']),
    onNative('attachXdp', [xdp, 'program'], [1, 'number'], [2, 'number']),
    onNative('attachClsact', [tc, 'program'], ...filter),
    onNative('detachClsact', ...filter, ['answer', 'text']),
    onNative('queryClsact', ...filter),
    onNative('queryCgroup', [cgroup, 'text'], [AttachType.connect4, 'number']),
    onNative('queryTcx', ...device),
    onNative('queryDevice', [1, 'number']),
    onNative('openRingBuffer', [events, 'map'], [() => {}, 'function']),
    onNative('openNetlinkWatch', [() => {}, 'function']),
    onNative('readBtf', ['/etc/passwd', 'text']),
    onNative('inNetns', ['/proc/self/ns/net', 'text'], [() => 1, 'function']),
    onNative('netnsInode', ['/proc/self/ns/net', 'text?']),
    onNative('ifNameToIndex', ['lo', 'text']),
    onNative('mountBpffs', [places, 'text']),
    onNative('createMap', [
      { type: MapType.hash, name: 'waggle_misuse', keySize: 4, valueSize: 4, maxEntries: 1 },
      'options',
    ]),
    onMap('lookup', [key, 'bytes']),
    onMap('update', [key, 'bytes'], [value, 'bytes'], [0, 'number?']),
    onMap('delete', [key, 'bytes']),
    onMap('updateBatch', [key, 'bytes'], [value, 'bytes']),
    onMap('deleteBatch', [key, 'bytes']),
    onMap('pin', [`${places}/no/such`, 'text']),
    onPercpu('lookup', [key, 'bytes']),
    onPercpu('update', [key, 'bytes'], [new Uint8Array(percpu.userValueSize), 'bytes'], [0, 'number?']),
    onPercpu('updateBatch', [key, 'bytes'], [new Uint8Array(percpu.userValueSize), 'bytes']),
    call('program', tc)('testRun', [{ data: new Uint8Array(64) }, 'options']),
    call('program', tc)('pin', [`${places}/no/such`, 'text']),
    call('link', link)('update', [sock, 'program']),
    call('link', link)('pin', [`${places}/no/such`, 'text']),
    onUnloaded('setMaxEntries', ['words', 'text'], [64, 'number']),
    onUnloaded('reuseMap', ['words', 'text'], [map, 'map']),
    onUnloaded('setConstant', ['cfg_answer', 'text'], [key, 'bytes']),
    onUnloaded('setAutoload', ['answer', 'text'], [true, 'boolean']),
    onObject('map', ['words', 'text']),
    onObject('program', ['answer', 'text']),
  ]
}

/** Options of which one is bad: these are read property by property. */
export const optionCalls: readonly {
  readonly method: 'createMap' | 'testRun'
  readonly good: Readonly<Record<string, unknown>>
  readonly kinds: Readonly<Record<string, Kind>>
}[] = [
  {
    method: 'createMap',
    good: { type: MapType.hash, name: 'waggle_misuse', keySize: 4, valueSize: 4, maxEntries: 1, flags: 0 },
    kinds: {
      type: 'number',
      name: 'text',
      keySize: 'number',
      valueSize: 'number',
      maxEntries: 'number',
      flags: 'number?',
    },
  },
  {
    method: 'testRun',
    good: { data: new Uint8Array(64), ctxIn: new Uint8Array(192), repeat: 1, flags: 0 },
    kinds: { data: 'bytes', ctxIn: 'bytes', repeat: 'number?', flags: 'number?' },
  },
]
