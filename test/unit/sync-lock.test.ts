import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, linkSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { DaemonError } from '../../src/daemon/errors.js'
import { Lock, lockKey } from '../../src/daemon/lock.js'

let dir: string
const locks: Lock[] = []
let child: ChildProcess | undefined

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'waggle-lock-'))
})
afterEach(() => {
  for (const lock of locks.splice(0)) lock.release()
  child?.kill('SIGKILL')
  child = undefined
  rmSync(dir, { recursive: true, force: true })
})

async function acquire(key = 'key', version = 'v1'): Promise<Lock> {
  const lock = await Lock.acquire(join(dir, 'run'), key, '/sys/fs/bpf/waggle', version)
  locks.push(lock)
  return lock
}

test('the second is refused and told who holds it; after a release it may', async () => {
  const first = await acquire()
  await expect(acquire('key', 'v2')).rejects.toThrow(
    `LOCKED: another waggle (pid ${process.pid}, version v1) runs with the pin directory /sys/fs/bpf/waggle; stop it`,
  )
  expect(first.isHeld()).toBe(true)
  first.release()
  await acquire('key', 'v2')
  expect(readdirSync(join(dir, 'run'))).toEqual(['key.lock'])
})

test('another pin directory is another lock', async () => {
  await acquire('one')
  await acquire('two')
})

test('of many at once exactly one gets it, also over a dead one', async () => {
  const dead = createServer()
  await new Promise<void>(resolve => dead.listen(join(dir, 'dead'), resolve))
  linkSync(join(dir, 'dead'), join(dir, 'key.lock'))
  await new Promise(resolve => dead.close(resolve))
  const tries = await Promise.allSettled(
    Array.from({ length: 8 }, () => Lock.acquire(dir, 'key', '/p', 'v').then(lock => locks.push(lock))),
  )
  const refused = tries.filter(result => result.status === 'rejected').map(result => result.reason)
  expect(refused).toHaveLength(7)
  expect(refused.every(error => error instanceof DaemonError && error.code === 'LOCKED')).toBe(true)
  expect(locks[0]?.isHeld()).toBe(true)
})

test('a process that is killed leaves no lock behind', async () => {
  const path = join(dir, 'key.lock')
  const script = `require('net').createServer(s => s.end('{"pid":1,"version":"old"}')).listen(${JSON.stringify(path)}, () => console.log('up'))`
  child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise(resolve => child?.stdout?.once('data', resolve))
  await expect(Lock.acquire(dir, 'key', '/p', 'v')).rejects.toThrow('another waggle (pid 1, version old)')
  const exited = new Promise(resolve => child?.once('exit', resolve))
  child.kill('SIGKILL')
  await exited
  expect(existsSync(path)).toBe(true)
  locks.push(await Lock.acquire(dir, 'key', '/p', 'v'))
})

test('an owner that does not say who it is holds the lock all the same', async () => {
  const mute = createServer(() => {})
  await new Promise<void>(resolve => mute.listen(join(dir, 'key.lock'), resolve))
  await expect(Lock.acquire(dir, 'key', '/p', 'v')).rejects.toThrow('another waggle (one that does not answer)')
  await new Promise(resolve => mute.close(resolve))
})

test('the owner notices when its lock is removed or replaced', async () => {
  const lock = await acquire()
  const path = join(dir, 'run', 'key.lock')
  renameSync(path, `${path}.moved`)
  expect(lock.isHeld()).toBe(false)
  writeFileSync(path, '')
  expect(lock.isHeld()).toBe(false)
  lock.release()
  expect(existsSync(path)).toBe(true)
})

test('a run directory that cannot be made is named with its remedy', async () => {
  writeFileSync(join(dir, 'file'), '')
  await expect(Lock.acquire(join(dir, 'file'), 'key', '/p', 'v')).rejects.toThrow(
    /^RUN_DIR: make the lock .*--run-dir$/,
  )
})

test('the key names a directory, however its path is written', () => {
  expect(lockKey('/proc/', '/proc/waggle/')).toBe(lockKey('/proc', '/proc//waggle'))
  expect(lockKey('/proc', '/proc/waggle')).not.toBe(lockKey('/proc', '/proc/other'))
  expect(lockKey('/proc', '/proc/waggle')).not.toBe(lockKey('/dev', '/dev/waggle'))
})
