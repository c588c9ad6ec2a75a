import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { addon, describeKernel, Rig, thrown } from './rig.js'

describeKernel('network namespaces', () => {
  const rig = new Rig()
  const home = () => addon().netnsInode()

  test('fn runs there, its result comes back, and so does the thread', () => {
    const path = rig.netns()
    const before = home()
    expect(before).toBe(BigInt(statSync('/proc/thread-self/ns/net').ino))
    expect(addon().ifNameToIndex('v0')).toBe(0)
    const there = addon().inNetns(path, () => ({
      inode: addon().netnsInode(),
      v0: addon().ifNameToIndex('v0'),
      names: Object.keys(networkInterfaces()),
    }))
    expect(there).toEqual({ inode: addon().netnsInode(path), v0: expect.any(Number), names: [] })
    expect(there.v0).toBeGreaterThan(0)
    expect(there.inode).not.toBe(before)
    expect(home()).toBe(before)
  })

  test('a cookie is of one namespace: another one has another, asking again gives the same', () => {
    const path = rig.netns()
    const here = addon().netnsCookie()
    if (here === undefined) return // Linux below 5.14 has none to give
    expect(here).toBeGreaterThan(0n)
    const there = addon().inNetns(path, () => addon().netnsCookie())
    expect(there).not.toBe(here)
    expect(addon().inNetns(path, () => addon().netnsCookie())).toBe(there)
    expect(addon().netnsCookie()).toBe(here)
  })

  test('what fn throws is thrown, after the way back', () => {
    const path = rig.netns()
    const before = home()
    for (const value of [new Error('mine'), 'a string', undefined, null, { code: 7 }]) {
      let caught: unknown = 'nothing'
      try {
        addon().inNetns(path, () => {
          throw value
        })
      } catch (error) {
        caught = error
      }
      expect(caught).toBe(value)
      expect(home()).toBe(before)
    }
  })

  test('namespaces within namespaces', () => {
    const outer = rig.netns()
    const inner = rig.netns()
    const before = home()
    const inodes = addon().inNetns(outer, () => {
      const first = home()
      const second = addon().inNetns(inner, home)
      return [first, second, home()]
    })
    expect(inodes).toEqual([addon().netnsInode(outer), addon().netnsInode(inner), addon().netnsInode(outer)])
    expect(home()).toBe(before)
  })

  test('a child that fn starts lives there', () => {
    const path = rig.netns()
    const names = addon().inNetns(path, () => execFileSync('ls', ['/proc/self/net/dev_snmp6'], { encoding: 'utf8' }))
    expect(names.split('\n')).toContain('v0')
  })

  test('an asynchronous fn is refused, since it would go on elsewhere', () => {
    const path = rig.netns()
    const before = home()
    expect(thrown(() => addon().inNetns(path, async () => 1))).toMatchObject({
      name: 'TypeError',
      code: 'ERR_INVALID_ARG_TYPE',
    })
    expect(home()).toBe(before)
  })

  test.each([
    { name: 'absent', path: '/run/netns/absent', code: 'ENOENT' },
    { name: 'a file', path: '/etc/passwd', code: 'EINVAL' },
    { name: 'another kind of namespace', path: '/proc/self/ns/mnt', code: 'EINVAL' },
    { name: 'a directory', path: '/tmp', code: 'EINVAL' },
  ])('a path that is no network namespace: $name', ({ path, code }) => {
    expect(thrown(() => addon().inNetns(path, () => expect.unreachable()))).toMatchObject({ code, object: path })
    expect(thrown(() => addon().netnsInode(path))).toMatchObject({ code, object: path })
  })

  test('a pipe does not hold us up', () => {
    const path = join(rig.dir, 'pipe')
    execFileSync('mkfifo', [path])
    expect(thrown(() => addon().netnsInode(path)).code).toBe('EINVAL')
    expect(thrown(() => addon().openObject(path)).code).toBe('EINVAL')
    expect(thrown(() => addon().readBtf(path)).code).toBe('EINVAL')
  })

  test('devices by name', () => {
    expect(addon().ifNameToIndex('lo')).toBe(1)
    expect(addon().ifNameToIndex('absent')).toBe(0)
    expect(addon().ifNameToIndex('a-name-longer-than-a-device-may-have')).toBe(0)
  })
})
