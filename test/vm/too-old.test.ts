import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { silentLogger } from '../../src/base/log.js'
import { loadObjects } from '../../src/dataplane/ebpf/loader.js'
import { Pins } from '../../src/dataplane/ebpf/pins.js'
import { loadNative } from '../../src/ebpf/load-native.js'

/** For a kernel that is too old (Linux 5.10): what an operator reads, and that nothing is left. */

const OBJECTS = join(import.meta.dirname, '../../build/bpf')
const LIMITS = { services: 64, frontends: 64, backends: 64, slots: 1024, flows: 1024, sourceRanges: 64 }

test('loading says which feature is missing and which kernel brought it', () => {
  const native = loadNative()
  mkdirSync('/run/waggle-old')
  native.mountBpffs('/run/waggle-old')
  const pins = new Pins('/run/waggle-old/waggle')
  let message = ''
  try {
    loadObjects(native, OBJECTS, pins, LIMITS, {}, silentLogger, 'hash')
  } catch (error) {
    message = String(error)
  }
  console.log(message)
  expect(message).toMatch(
    /KERNEL_TOO_OLD: load sock\.bpf\.o: Linux 5\.10\S* has not got atomic operations that return a value/,
  )
  expect(message).toMatch(/Linux 5\.12 brought it, and all that waggle needs is in 6\.1/)
  expect(pins.list('programs')).toEqual([])
  expect(pins.list('maps')).toEqual([])
})

test('the packet layer wants atomic operations that return a value', () => {
  const object = loadNative().openObject(join(OBJECTS, 'tc.bpf.o'))
  let log = ''
  try {
    object.load()
  } catch (error) {
    log = (error as { log: string }).log
  } finally {
    object.close()
  }
  expect(log).toContain('BPF_STX uses reserved fields')
})

test('counting what processes send works', () => {
  const object = loadNative().openObject(join(OBJECTS, 'sockegress.bpf.o'))
  object.load()
  expect(object.programNames()).toEqual(['sock_egress'])
  object.close()
})
