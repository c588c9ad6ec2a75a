/**
 * Calls the addon in every wrong way and prints one line of JSON: how many calls, and which
 * of them were answered wrongly. That the process lives to print it is the point; run by
 * misuse.test.ts and, under AddressSanitizer, by asan.test.ts.
 * Arguments: OBJECT CGROUP FOLDER SEED.
 */
import { mkdirSync } from 'node:fs'
import fc from 'fast-check'
import { loadNative } from '../../src/ebpf/load-native.js'
import { everyCall, optionCalls } from './misuse-calls.js'
import { badValues, closeHandles, type Handles, type Kind, makeHandles } from './misuse-values.js'

const [objectPath, cgroup, folder, seed] = process.argv.slice(2) as [string, string, string, string]
const native = loadNative()
const collect = (globalThis as { gc?: () => void }).gc ?? (() => {})
const wrong: string[] = []
let calls = 0

type AnyFunction = (...args: unknown[]) => unknown
const method = (receiver: object, name: string) => (receiver as Record<string, AnyFunction>)[name] as AnyFunction

function methodNames(handle: object): string[] {
  return Object.getOwnPropertyNames(Object.getPrototypeOf(handle)).filter(name => name !== 'constructor')
}

/** Calls; an error must be one that the addon makes, or what our own values throw. */
function attempt(what: string, call: () => unknown): unknown {
  calls++
  try {
    const result = call()
    if (typeof (result as { close?: unknown })?.close === 'function') (result as { close(): void }).close()
    return undefined
  } catch (error) {
    const { code, errno, syscall, object, log, message } = error as Record<string, unknown>
    const ours = typeof code === 'string' && [syscall, object, log].every(text => typeof text === 'string')
    // The engine's own words for receivers and constructors that are none.
    const known = /^(mine|Illegal invocation|Invalid argument|Class constructor.*)$/.test(String(message))
    if (!(error instanceof Error) || (!known && !(ours && Number.isInteger(errno) && (errno as number) >= 0)))
      wrong.push(`${what}: threw ${String(error)}`)
    return error
  }
}

/** Calls with one argument that is not of its kind, which must be said before anything happens. */
function refused(what: string, call: () => unknown): void {
  const error = attempt(what, call) as { code?: string; errno?: number; message?: string } | undefined
  if (error === undefined) wrong.push(`${what}: was taken`)
  else if (!['ERR_INVALID_ARG_TYPE', 'ERR_CLOSED'].includes(error.code ?? '') || error.errno !== 0)
    wrong.push(`${what}: ${error.message}`)
}

function oneArgumentBad(handles: Handles): void {
  for (const { name, receiver, method: methodName, args, kinds } of everyCall(native, handles, cgroup, folder)) {
    const fn = method(receiver, methodName)
    kinds.forEach((kind, position) => {
      for (const bad of badValues(native, handles)) {
        const given = args.with(position, bad.value)
        const what = `${name} with ${bad.name} for ${kind} ${position + 1}`
        const call = () => fn.apply(receiver, given)
        if (bad.fits.includes(kind)) attempt(what, call)
        else refused(what, call)
      }
    })
    attempt(`${name} without arguments`, () => fn.apply(receiver, []))
    attempt(`${name} with many arguments`, () => fn.apply(receiver, [...args, ...new Array(100).fill(fn)]))
    attempt(`new ${name}`, () => Reflect.construct(fn, [...args]))
    attempt(`new ${name} as a map`, () => Reflect.construct(fn, [...args], handles.map.constructor as never))
  }
}

function oneOptionBad(handles: Handles): void {
  for (const { method: name, good, kinds } of optionCalls) {
    const receiver = name === 'createMap' ? native : handles.tc
    for (const [property, kind] of Object.entries(kinds) as [string, Kind][]) {
      for (const bad of badValues(native, handles)) {
        const what = `${name} with ${bad.name} as ${property}`
        const call = () => method(receiver, name).call(receiver, { ...good, [property]: bad.value })
        const optional = name === 'testRun' && bad.value === undefined
        if (bad.fits.includes(kind) || optional) attempt(what, call)
        else refused(what, call)
      }
      const options = Object.defineProperty({ ...good }, property, {
        get() {
          throw new Error('mine')
        },
      })
      attempt(`${name} with a ${property} that throws`, () => method(receiver, name).call(receiver, options))
    }
  }
}

/** Methods on receivers of another kind, and constructors, which nobody may call. */
function wrongReceiver(handles: Handles): void {
  const classes = [handles.map, handles.tc, handles.link, handles.object, handles.ring]
  for (const handle of classes) {
    const prototype = Object.getPrototypeOf(handle)
    const own = handle.constructor as new () => object
    for (const name of methodNames(handle)) {
      for (const bad of badValues(native, handles)) {
        if (
          bad.value instanceof own &&
          !['a proxy of a map', 'an heir of a map', 'an object that poses as a map'].includes(bad.name)
        )
          continue
        const what = `${own.name}.${name} on ${bad.name}`
        if (
          !(
            attempt(what, () =>
              method(prototype, name).call(bad.value, new Uint8Array(4), new Uint8Array(8)),
            ) instanceof TypeError
          )
        )
          wrong.push(`${what}: was taken`)
      }
    }
    const made: [string, () => unknown][] = [
      [`new ${own.name}`, () => new own()],
      [`new ${own.name} with a map`, () => Reflect.construct(own, [handles.map])],
      [`an heir of ${own.name}`, () => new (class extends own {})()],
      [`${own.name} for another class`, () => Reflect.construct(own, [], Object)],
      [`${own.name}()`, () => (own as unknown as AnyFunction)()],
    ]
    for (const [what, call] of made) if (!(attempt(what, call) instanceof TypeError)) wrong.push(`${what}: was taken`)
  }
  const { get } = Object.getOwnPropertyDescriptor(handles.link, 'info') as { get: AnyFunction }
  for (const bad of badValues(native, handles))
    if (bad.value !== handles.link) refused(`info of ${bad.name}`, () => get.call(bad.value))
  const turned = handles.map
  const prototype = Object.getPrototypeOf(turned)
  Object.setPrototypeOf(turned, Object.getPrototypeOf(handles.tc))
  attempt('a map that turned into a program', () =>
    method(turned, 'testRun').call(turned, { data: new Uint8Array(64) }),
  )
  Object.setPrototypeOf(turned, prototype)
}

/** Arguments that change, or close, what a call is about while it reads them. */
function changingArguments(handles: Handles): void {
  const data = new Uint8Array(64)
  attempt('data that is detached by the next option', () =>
    handles.tc.testRun({
      data,
      get ctxIn(): Uint8Array {
        structuredClone(data.buffer, { transfer: [data.buffer] })
        return new Uint8Array(192)
      },
    }),
  )
  for (let i = 0; i < 3; i++) {
    const map = native.createMap({ type: 1, name: 'waggle_misuse', keySize: 4, valueSize: 4, maxEntries: 1 })
    attempt('a map closed within a namespace', () =>
      native.inNetns('/proc/self/ns/net', () => {
        map.close()
        return map.entries()
      }),
    )
  }
  const depth = (left: number): number =>
    left === 0 ? 0 : native.inNetns('/proc/self/ns/net', () => depth(left - 1) + 1)
  attempt('namespaces a hundred deep', () => depth(100))
  const endless = (): unknown => native.inNetns('/proc/self/ns/net', endless)
  calls++
  try {
    endless()
    wrong.push('endless recursion ended')
  } catch (error) {
    // Out of stack or out of descriptors.
    if (!(error instanceof Error)) wrong.push(`endless recursion threw ${String(error)}`)
  }
}

/** Random calls on whatever earlier ones have given, closed or not. */
function monkey(runs: number): void {
  const step = fc.tuple(fc.nat(), fc.nat(), fc.array(fc.nat(), { maxLength: 4 }))
  const property = fc.property(fc.array(step, { maxLength: 40 }), steps => {
    const handles = makeHandles(native, objectPath, cgroup)
    const targets: object[] = [native, ...Object.values(handles)]
    const good = everyCall(native, handles, cgroup, folder).flatMap(call => call.args)
    const values = [...badValues(native, handles).map(bad => bad.value), ...good, ...good, ...good]
    for (const [which, what, picks] of steps) {
      const target = targets[which % targets.length] as object
      // Not mountBpffs: it would hide the cgroup under a file system of ours.
      const onNative = Object.keys(native).filter(name => name !== 'mountBpffs')
      const names = target === native ? onNative : methodNames(target)
      const name = names[what % names.length] as string
      calls++
      try {
        const member = method(target, name)
        const result =
          typeof member === 'function'
            ? member.apply(
                target,
                picks.map(pick => values[pick % values.length]),
              )
            : undefined
        if (typeof result === 'object' && result !== null && 'close' in result) {
          targets.push(result)
          values.push(result)
          if ('unref' in result) (result as { unref(): void }).unref()
        }
      } catch (error) {
        if (!(error instanceof Error)) throw error
      }
    }
    for (const target of targets) if ('close' in target) (target as { close(): void }).close()
    collect()
  })
  fc.assert(property, { seed: Number(seed), numRuns: runs })
}

mkdirSync(folder, { recursive: true })
process.chdir(folder)
process.on('uncaughtException', error => wrong.push(`uncaught: ${error.stack}`))
try {
  const handles = makeHandles(native, objectPath, cgroup)
  oneArgumentBad(handles)
  oneOptionBad(handles)
  wrongReceiver(handles)
  changingArguments(handles)
  closeHandles(handles)
  monkey(60)
} catch (error) {
  const { stack, cause } = error as Error
  wrong.push(`stopped: ${stack} ${cause instanceof Error ? JSON.stringify({ ...cause, stack: cause.stack }) : cause}`)
}
collect()
console.log(JSON.stringify({ calls, wrong: wrong.slice(0, 50) }))
