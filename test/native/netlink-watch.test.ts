import { execFileSync } from 'node:child_process'
import { readdirSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeEach, expect, test } from 'vitest'
import type { Watch } from '../../src/ebpf/native.js'
import { addon, describeKernel, Rig, thrown } from './rig.js'

/** Long enough for what was said to be heard on a busy machine, too. */
const QUIET_MS = 200

describeKernel('a netlink watch', () => {
  const rig = new Rig()
  let path = ''
  let calls = 0

  beforeEach(() => {
    path = rig.netns()
    calls = 0
  })

  const ip = (...words: string[]) => execFileSync('ip', ['-n', basename(path), ...words])
  const batch = (lines: string[]) => execFileSync('ip', ['-n', basename(path), '-b', '-'], { input: lines.join('\n') })
  const open = (onChange = () => {}): Watch =>
    addon().inNetns(path, () =>
      addon().openNetlinkWatch(() => {
        calls++
        onChange()
      }),
    )

  /** Whether `change` is heard; all that it causes is, before this returns. */
  async function heard(change: () => void): Promise<boolean> {
    const before = calls
    change()
    for (let i = 0; i < 500 && calls === before; i++) await sleep(10)
    await sleep(QUIET_MS)
    return calls > before
  }

  /** Whether it stays unheard. */
  async function unheard(change: () => void): Promise<boolean> {
    const before = calls
    change()
    await sleep(QUIET_MS)
    return calls === before
  }

  test('hears of devices, addresses and default routes of both families', async () => {
    const watch = open()
    for (const words of [
      'link add d0 type veth peer name p0',
      'link set d0 up',
      'link set d0 name d1',
      'addr add 10.0.0.1/24 dev d1',
      'addr add 2001:db8::1/64 dev d1 nodad',
      'route add default via 10.0.0.2',
      'route del default',
      '-6 route add default via 2001:db8::2',
      '-6 route del default',
      'addr del 10.0.0.1/24 dev d1',
      'link set d1 down',
      'link del d1',
    ]) {
      expect([words, await heard(() => ip(...words.split(' ')))]).toEqual([words, true])
    }
    watch.close()
  })

  test('other routes wake nobody', async () => {
    ip('link', 'set', 'lo', 'up')
    ip('link', 'set', 'v0', 'up')
    await sleep(QUIET_MS)
    const watch = open()
    const routes = Array.from({ length: 250 }, (_, i) => `route add 10.9.${i}.0/24 dev lo`)
    expect(await unheard(() => batch(routes))).toBe(true)
    expect(await unheard(() => ip('-6', 'route', 'add', '2001:db8:9::/48', 'dev', 'lo'))).toBe(true)
    expect(await unheard(() => ip('route', 'del', '10.9.1.0/24'))).toBe(true)
    expect(await heard(() => ip('route', 'add', 'default', 'dev', 'lo'))).toBe(true)
    watch.close()
  })

  test('hears of its own namespace alone', async () => {
    const watch = open()
    const other = basename(rig.netns())
    expect(await unheard(() => execFileSync('ip', ['-n', other, 'link', 'set', 'v0', 'up']))).toBe(true)
    watch.close()
  })

  test('what comes while nobody listens is few calls, and a buffer that overflows is a change, too', async () => {
    const watch = open()
    const pairs = Array.from({ length: 150 }, (_, i) => i)
    // This blocks the event loop: far more is said than the socket holds.
    const storm = () => batch(pairs.map(i => `link add d${i} type veth peer name p${i}`))
    expect(await heard(storm)).toBe(true)
    expect(calls).toBeLessThan(10)
    expect(await heard(() => ip('link', 'del', 'd7'))).toBe(true)
    watch.close()
  })

  test('closed within its own callback, nothing more is heard', async () => {
    const watch: Watch = open(() => {
      watch.close()
      watch.close()
    })
    expect(await heard(() => ip('link', 'set', 'lo', 'up'))).toBe(true)
    expect(calls).toBe(1)
    expect(await unheard(() => ip('link', 'set', 'v0', 'up'))).toBe(true)
  })

  test('closed at once, it never calls; its descriptor is given back', async () => {
    const before = sockets()
    const watch = open(() => expect.unreachable())
    expect(sockets()).toBe(before + 1)
    ip('link', 'set', 'lo', 'up')
    watch.close()
    watch.close()
    expect(sockets()).toBe(before)
    expect(thrown(() => watch.ref())).toMatchObject({ code: 'ERR_CLOSED', object: 'rtnetlink' })
    expect(thrown(() => watch.unref())).toMatchObject({ code: 'ERR_CLOSED' })
    await sleep(QUIET_MS)
    expect(calls).toBe(0)
  })
})

/** Sockets of this process that node has no handle of: others come and go with children's pipes. */
function sockets(): number {
  return readdirSync('/proc/self/fd').filter(fd => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:')
    } catch {
      return false
    }
  }).length
}
