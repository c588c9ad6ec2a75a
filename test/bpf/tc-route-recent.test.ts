import { execFileSync } from 'node:child_process'
import { basename } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { fromBytes, toBytes } from '../../src/ebpf/codec.js'
import { maps, type Route } from '../../src/ebpf/generated/layouts.js'
import type { BpfMap } from '../../src/ebpf/native.js'
import { type PacketOptions, tcp, udp } from './packet.js'
import { missing, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const PLAN = {
  IPv4: { client: '203.0.113.7', vip: '172.30.0.1', there: '10.0.2.5', net: '10.0.2.0/24', via: '192.168.1.2' },
  IPv6: {
    client: '[2001:db8:f::7]',
    vip: '[2001:db8:30::1]',
    there: '[2001:db8:a2::5]',
    net: '2001:db8:a2::/64',
    via: '2001:db8:c1::2',
  },
} as const
const CASES = (['IPv4', 'IPv6'] as const).flatMap(family =>
  (['TCP', 'UDP'] as const).map(proto => ({ family, proto, plan: PLAN[family] })),
)
const FOREVER = 1n << 62n

describe.skipIf(lacking)('the route of a known flow is remembered for a moment', () => {
  let node: TcNode
  beforeEach(() => {
    node = new TcNode()
  })
  afterEach(() => node.close())

  const ip = (...command: string[]) => execFileSync('ip', ['-n', basename(node.netns), ...command])
  const packet = (proto: 'TCP' | 'UDP', from: string, to: string, flags: string, options: PacketOptions = {}) =>
    proto === 'TCP' ? tcp(from, to, flags, options) : udp(from, to, options)

  /** A flow to a backend elsewhere whose neighbour is known; sends another of its packets. */
  function flow(proto: 'TCP' | 'UDP', { client, vip, there, via }: (typeof PLAN)['IPv4' | 'IPv6']) {
    ip('neigh', 'replace', via, 'lladdr', '02:00:00:00:00:02', 'dev', 'up1')
    node.services.add({ proto, frontends: [{ at: `${vip}:80` }], backends: [{ at: `${there}:8080` }] })
    const send = (flags = 'A', size = 0) =>
      node.ingress(packet(proto, `${client}:40000`, `${vip}:80`, flags, { payload: new Uint8Array(size) })).outcome
    expect(send('S')).toBe('forwarded')
    return send
  }

  /** Changes what is remembered of each route, and has all CPUs remember it; how many there are. */
  function remembered(change: Partial<Route> = {}): number {
    const map = node.map(maps.routes.name) as BpfMap
    const { size } = maps.routes.value
    let count = 0
    for (let place = 0; place < map.info.maxEntries; place++) {
      const key = toBytes(maps.routes.key, place)
      const bytes = map.lookup(key) as Uint8Array
      const cpus = Array.from({ length: bytes.length / size }, (_, cpu) =>
        fromBytes(maps.routes.value, bytes, cpu * size),
      )
      const route = cpus.reduce((newest, each) => (each.untilNs > newest.untilNs ? each : newest))
      if (route.untilNs === 0n) continue
      count++
      const changed = toBytes(maps.routes.value, { ...route, ...change })
      cpus.forEach((_, cpu) => {
        bytes.set(changed, cpu * size)
      })
      map.update(key, bytes)
    }
    return count
  }

  test.each(CASES)('$family $proto: used while it lasts, and no longer', async ({ proto, plan }) => {
    const send = flow(proto, plan)
    expect(remembered()).toBe(0)
    expect(send()).toBe('forwarded')
    expect(remembered({ untilNs: FOREVER })).toBe(1)
    ip('route', 'replace', 'unreachable', plan.net)
    expect(send()).toBe('forwarded')
    expect(remembered({ untilNs: 1n })).toBe(1)
    expect(send()).toBe('no_route')
    ip('route', 'replace', plan.net, 'via', plan.via)
    expect(send()).toBe('forwarded')
    ip('route', 'replace', 'unreachable', plan.net)
    await expect.poll(() => send(), { timeout: 2000 }).toBe('no_route')
  })

  test.each(CASES)('$family $proto: a larger packet than it takes is refused all the same', ({ proto, plan }) => {
    ip('link', 'set', 'up1', 'mtu', '1400')
    const send = flow(proto, plan)
    expect(send()).toBe('forwarded')
    expect(remembered({ untilNs: FOREVER })).toBe(1)
    expect(send('A', 1300)).toBe('forwarded')
    expect(send('A', 1400)).toBe('too_big')
    expect(send()).toBe('forwarded')
  })

  test.each(CASES)('$family $proto: not where the neighbour is not known', ({ proto, plan }) => {
    const send = flow(proto, plan)
    ip('neigh', 'del', plan.via, 'dev', 'up1')
    expect(send()).toBe('forwarded')
    expect(remembered()).toBe(0)
  })
})
