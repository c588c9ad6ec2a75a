import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { type LogFields, silentLogger } from '../../src/base/log.js'
import { sweepFlows } from '../../src/dataplane/ebpf/flow-expiry.js'
import { LoadError, loadObjects } from '../../src/dataplane/ebpf/loader.js'
import { Pins } from '../../src/dataplane/ebpf/pins.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { Native } from '../../src/ebpf/native.js'
import { describeSockets } from './sock-rig.js'

/** A signal that waits makes the kernel end the verifier with EAGAIN and a repeated test run with EINTR. */

const OBJECTS = join(import.meta.dirname, '../../build/bpf')
const LIMITS = { services: 64, frontends: 64, backends: 64, slots: 1024, flows: 1024, sourceRanges: 64 }

/** A signal each millisecond, while a program is verified for a hundred: more would leave this process no time. */
const STORM = "console.log('on'); setInterval(() => process.kill(Number(process.argv[1]), 'SIGUSR2'), 1)"

describeSockets('signals while the kernel is busy for us', () => {
  const native = loadNative()
  const bpffs = `/run/waggle-signals-${process.pid}`
  let storm: ChildProcess | undefined
  let received = 0
  const count = () => received++

  afterEach(async () => {
    if (storm) {
      const gone = once(storm, 'exit')
      storm.kill()
      await gone
      storm = undefined
    }
    process.off('SIGUSR2', count)
    try {
      execFileSync('umount', [bpffs], { stdio: 'ignore' })
      rmdirSync(bpffs)
    } catch {
      // This test had no use for it.
    }
  })

  async function startStorm(): Promise<void> {
    received = 0
    process.on('SIGUSR2', count)
    storm = spawn(process.execPath, ['-e', STORM, String(process.pid)], { stdio: ['ignore', 'pipe', 'inherit'] })
    if (storm.stdout) await once(storm.stdout, 'data')
  }

  function load(through: Native, lines: [string, LogFields | undefined][] = []) {
    mkdirSync(bpffs)
    native.mountBpffs(bpffs)
    const warn = (message: string, fields?: LogFields) => void lines.push([message, fields])
    return loadObjects(through, OBJECTS, new Pins(join(bpffs, 'waggle')), LIMITS, {}, { ...silentLogger, warn }, 'hash')
  }

  function close({ maps, programs }: ReturnType<typeof loadObjects>): void {
    for (const handle of [...Object.values(maps), ...programs.values()]) handle.close()
  }

  test('programs load', async () => {
    await startStorm()
    const loaded = load(native)
    expect([...loaded.programs.keys()]).toEqual(
      expect.arrayContaining(['sock_connect4', 'waggle_ingress', 'waggle_xdp']),
    )
    close(loaded)
    await expect.poll(() => received).toBeGreaterThan(0)
  })

  /** The addon, of whose loads the first `times` are interrupted. */
  function interrupted(times: number): Native {
    let loads = 0
    return Object.create(native, {
      openObject: {
        value: (path: string) => {
          const object = native.openObject(path)
          if (loads++ >= times) return object
          return new Proxy(object, {
            get(target, name) {
              if (name === 'load') throw Object.assign(new Error('bpf_object__load'), { code: 'EAGAIN' })
              const member = Reflect.get(target, name, target)
              return typeof member === 'function' ? member.bind(target) : member
            },
          })
        },
      },
    }) as Native
  }

  test('a load that is interrupted all the same is tried again, and told of', () => {
    const lines: [string, LogFields | undefined][] = []
    close(load(interrupted(2), lines))
    expect(lines).toEqual([
      ['loading was interrupted and is tried again', { file: 'sock.bpf.o', attempt: 1 }],
      ['loading was interrupted and is tried again', { file: 'sock.bpf.o', attempt: 2 }],
    ])
  })

  test('not for ever', () => {
    expect(() => load(interrupted(Number.POSITIVE_INFINITY))).toThrow(
      expect.objectContaining({ code: 'LOAD_FAILED', constructor: LoadError }),
    )
  })

  test('a sweep of all flows goes on another time', async () => {
    const object = native.openObject(join(OBJECTS, 'flows.bpf.o'))
    object.load()
    const program = object.program('flow_sweep')
    try {
      expect(sweepFlows(program, 64, 1)).toBe(true)
      await startStorm()
      // Seconds of work.
      expect(sweepFlows(program, 2 ** 28, 1)).toBe(false)
    } finally {
      program.close()
      object.close()
    }
  })
})
