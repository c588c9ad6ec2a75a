import { execFileSync } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { cleanupNftables } from '../../src/dataplane/nftables/cleanup.js'
import { NftablesDataplane } from '../../src/dataplane/nftables/nftables-dataplane.js'
import { type RunTool, runTool } from '../../src/dataplane/rules/run-tool.js'
import type { DesiredState } from '../../src/model/desired.js'
import { desired, EVERY_KIND, NODE, service, WEB } from '../unit/iptables-kit.js'
import { CANNOT_RUN, titled } from './test-lab.js'

/** Tables in a real kernel: a restart finds them as it wants them, a change writes what changed, nothing else is touched. */

const NETNS = `waggle-nftables-${process.pid}`
const inside: RunTool = (tool, args, input) => runTool('ip', ['netns', 'exec', NETNS, tool, ...args], input)

const ID = 'default/web:http/TCP/IPv4'

describe.skipIf(CANNOT_RUN)(titled('nftables'), () => {
  beforeEach(() => void execFileSync('ip', ['netns', 'add', NETNS]))
  afterEach(() => void execFileSync('ip', ['netns', 'del', NETNS]))

  let now = 0
  const start = async (run = inside) => {
    const dataplane = new NftablesDataplane({
      table: 'waggle',
      masqueradeAll: false,
      anyNodeAddress: true,
      logger: silentLogger,
      clock: { ...systemClock, monotonic: () => now },
      run,
    })
    expect(await dataplane.probe()).toEqual([])
    await dataplane.start()
    return dataplane
  }
  const list = () => inside('nft', ['list', 'ruleset'])
  const all = (state: DesiredState) => [state, undefined, true] as const

  test('frontends are elements that lead to chains', async () => {
    const dataplane = await start()
    const state = desired(EVERY_KIND)
    expect(await dataplane.apply(...all(state))).toMatchObject({ revision: state.revision, failed: [] })
    const text = await list()
    for (const part of [
      'table ip waggle {',
      'table ip6 waggle {',
      '10.101.57.97 . tcp . 80 : goto service-',
      'dnat ip to numgen random mod 3 map { 0 : 10.244.0.27 . 80, 1 : 10.244.0.28 . 80, 2 : 10.244.0.30 . 80 }',
      'tcp . 30080 : goto external-',
      '198.51.100.9 . tcp . 80 : goto firewall-',
      '10.96.0.8 . tcp . 80 : goto reject-chain',
      'ip saddr != { 192.168.0.0/16, 198.51.100.9, 203.0.113.0/24 } drop',
      'timeout 50s',
      '2001:db8:96::7 . udp . 53 : goto service-',
      'dnat to 10.244.0.29:53',
    ]) {
      expect(text).toContain(part)
    }
  })

  test('a second agent finds everything as it wants it and writes nothing', async () => {
    const state = desired(EVERY_KIND)
    await (await start()).apply(...all(state))
    const before = await list()
    expect((await (await start()).apply(...all(state))).writes).toBe(0)
    expect(await list()).toBe(before)
  })

  test('a change writes what changed, and what it left unused goes a second later', async () => {
    const dataplane = await start()
    await dataplane.apply(...all(desired(EVERY_KIND)))
    const state = desired([...EVERY_KIND, ...service('web', { ...WEB, endpoints: ['10.244.1.11', '10.244.2.12'] })])
    const { writes, failed } = await dataplane.apply(state, new Set([ID]), true)
    expect(failed).toEqual([])
    // The list of three rules, a chain, a set and a tuple of the new endpoint; a chain and a tuple of the old one.
    expect(writes).toBe(4 + 2 + 1 + 1 + 1 + 1)
    expect(await list()).toContain('affinity-')
    await dataplane.housekeep()
    expect((await list()).match(/10\.244\.2\.11\//g)?.length).toBeGreaterThan(0)
    now += 1500
    await dataplane.housekeep()
    const text = await list()
    expect(text).not.toContain('10.244.2.11/')
    expect(text).toContain('dnat to 10.244.2.12:80')
  })

  test('a Service that goes leaves nothing behind, and one that returns at once is not deleted', async () => {
    const dataplane = await start()
    const without = desired(EVERY_KIND.filter(each => !JSON.stringify(each).includes('"web')))
    await dataplane.apply(...all(without))
    const before = await list()
    await dataplane.apply(desired(EVERY_KIND), new Set([ID]), true)
    const full = await list()
    expect(full).not.toBe(before)
    await dataplane.apply(without, new Set([ID]), true)
    await dataplane.apply(desired(EVERY_KIND), new Set([ID]), true)
    now += 1500
    await dataplane.housekeep()
    expect(sorted(await list())).toEqual(sorted(full))
    await dataplane.apply(without, new Set([ID]), true)
    now += 1500
    await dataplane.housekeep()
    expect(sorted(await list())).toEqual(sorted(before))
  })

  test('what an earlier run left goes on until everything is known, then goes', async () => {
    await (await start()).apply(...all(desired(EVERY_KIND)))
    const dataplane = await start()
    const part = desired([NODE, ...service('web', WEB)])
    await dataplane.apply(part, undefined, false)
    expect(await list()).toContain('10.101.57.97 . tcp . 80 : goto service-')
    await dataplane.apply(...all(part))
    now += 1500
    await dataplane.housekeep()
    const text = await list()
    expect(text).not.toContain('nginx-service')
    expect(text).not.toContain('10.101.57.97')
  })

  test('tables of others stay byte for byte', async () => {
    const foreign =
      'table ip docker {\n\tchain nat {\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t}\n}\n'
    await inside('nft', ['-f', '-'], foreign)
    const dataplane = await start()
    await dataplane.apply(...all(desired(EVERY_KIND)))
    expect(await inside('nft', ['list', 'table', 'ip', 'docker'])).toBe(foreign)
    expect(await cleanupNftables('waggle', true, inside)).toEqual(['table ip waggle', 'table ip6 waggle'])
    await dataplane.cleanup()
    expect(await list()).toBe(foreign)
    expect(await cleanupNftables('waggle', false, inside)).toEqual([])
  })

  test('a flushed ruleset is written anew at the next periodic apply', async () => {
    const dataplane = await start()
    const state = desired(EVERY_KIND)
    await dataplane.apply(...all(state))
    const before = sorted(await list())
    for (const flush of ['flush ruleset', 'flush chain ip waggle services']) {
      await inside('nft', ['-f', '-'], flush)
      await dataplane.apply(...all(state))
      expect(sorted(await list())).toEqual(before)
    }
  })

  test('a table of another layout is replaced', async () => {
    const chain = 'add chain ip waggle nat-prerouting { type nat hook prerouting priority -101 ; }'
    await inside(
      'nft',
      ['-f', '-'],
      `add table ip waggle
${chain}
`,
    )
    const dataplane = await start()
    await dataplane.apply(...all(desired(EVERY_KIND)))
    expect(await list()).toMatch(/chain nat-prerouting \{\s+type nat hook prerouting priority dstnat;/)
  })

  test('one Service that the kernel refuses fails alone, and its old rules stay', async () => {
    await (await start()).apply(...all(desired(EVERY_KIND)))
    const bad = service('bad', { ip: '10.96.0.9', ports: [{ port: 80 }], endpoints: ['10.244.1.11'] })
    const more = service('more', { ip: '10.96.0.10', ports: [{ port: 81 }], endpoints: ['10.244.1.12'] })
    const dataplane = await start((tool, args, input) =>
      inside(tool, args, input?.replace(/\{ 10\.96\.0\.9 \. tcp/g, '{ 10.96.0.9 . nonsense')),
    )
    const { failed } = await dataplane.apply(...all(desired([...EVERY_KIND, ...bad, ...more])))
    expect(failed.map(each => each.id)).toEqual(['default/bad:/TCP/IPv4'])
    expect(failed[0]?.error?.message).toContain('nonsense')
    const text = await list()
    expect(text).toContain('10.96.0.10 . tcp . 81 : goto service-')
    expect(text).toContain('10.101.57.97 . tcp . 80 : goto service-')
  })

  test('an element that two Service ports ask for stays as long as one does', async () => {
    const dataplane = await start()
    const two = service('two', {
      ip: '10.96.0.20',
      ports: [
        { name: 'a', port: 80 },
        { name: 'b', port: 81 },
      ],
      endpoints: ['10.244.1.11'],
    })
    const one = service('two', { ip: '10.96.0.20', ports: [{ name: 'a', port: 80 }], endpoints: ['10.244.1.11'] })
    await dataplane.apply(...all(desired(two)))
    await dataplane.apply(desired(one), new Set(['default/two:b/TCP/IPv4']), true)
    const set = await inside('nft', ['list', 'set', 'ip', 'waggle', 'cluster-ips'])
    expect(set).toContain('10.96.0.20')
    expect(await list()).not.toContain('tcp . 81')
  })

  test('what a Service port gives another takes over', async () => {
    const dataplane = await start()
    const named = (name: string) =>
      service(name, { ip: '10.96.0.30', ports: [{ port: 80 }], endpoints: ['10.244.1.11'] })
    await dataplane.apply(...all(desired(named('old'))))
    const ids = new Set(['default/old:/TCP/IPv4', 'default/new:/TCP/IPv4'])
    expect((await dataplane.apply(desired(named('new')), ids, true)).failed).toEqual([])
    expect(await list()).toMatch(/10\.96\.0\.30 \. tcp \. 80 : goto service-[A-Z2-7]{8}-default\/new/)
  })
})

/** Lines without those that number a dynamic set's size, sorted: elements come in no order. */
function sorted(text: string): string[] {
  return text
    .split(/[\n,]/)
    .map(line => line.replace(/elements = \{|\}$/g, '').trim())
    .filter(Boolean)
    .sort()
}
