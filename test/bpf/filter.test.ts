import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { frontendKey } from '../../src/dataplane/ebpf/encode.js'
import { Filter, filterBitOfFrontend } from '../../src/dataplane/ebpf/filter.js'
import { MappedArray } from '../../src/dataplane/ebpf/mapped-array.js'
import { maps } from '../../src/ebpf/generated/layouts.js'
import type { BpfMap } from '../../src/ebpf/native.js'
import type { Address } from '../../src/model/address.js'
import { FakeClock } from '../unit/sync-fake-clock.js'
import { createMaps, startProcess } from './maps-rig.js'
import { tcp, udp } from './packet.js'
import { FLOW_TABLES, missing, type Step, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const PLAN = {
  IPv4: { client: '203.0.113.7', vip: '172.30.0.1', here: '10.0.1.5', there: '10.0.2.5' },
  IPv6: { client: '[2001:db8:f::7]', vip: '[2001:db8:30::1]', here: '[2001:db8:a1::5]', there: '[2001:db8:a2::5]' },
} as const
type Family = keyof typeof PLAN
const CASES = (['IPv4', 'IPv6'] as const).flatMap(family => (['TCP', 'UDP'] as const).map(proto => ({ family, proto })))

const { offsets } = maps.filter.value
const PART = offsets.flows - offsets.agent

/** The filter's map in parts; `flows` is the half that is current at first. */
function partsOf(map: BpfMap) {
  const memory = map.mmap()
  return {
    memory: new MappedArray(memory, map.info.valueSize, 1),
    agent: new BigUint64Array(memory, offsets.agent, PART / 8),
    flows: new BigUint64Array(memory, offsets.flows, PART / 8),
    all: new BigUint64Array(memory, 0, offsets.current / 8),
  }
}

function bitsOf(words: BigUint64Array): number[] {
  const bits: number[] = []
  words.forEach((word, i) => {
    for (let bit = 0; word >> BigInt(bit) !== 0n; bit++) if ((word >> BigInt(bit)) & 1n) bits.push(i * 64 + bit)
  })
  return bits
}

describe.skipIf(lacking).each(FLOW_TABLES)('the filter of the packet programs, flows in the %s table', flowTable => {
  let node: TcNode
  let parts: ReturnType<typeof partsOf>
  let filter: Filter

  const map = (name: string) => node.map(name) as BpfMap
  beforeAll(() => {
    node = new TcNode({ snatPorts: [2000, 2001], flowTable })
    parts = partsOf(map(maps.filter.name))
    filter = new Filter({
      filter: parts.memory,
      handles: {
        frontends4: map(maps.frontends4.name),
        frontends6: map(maps.frontends6.name),
        ...(flowTable === 'hash' ? { flows: map(maps.flows.name) } : {}),
      },
      flows: node.flows(),
    })
  })
  afterAll(() => node.close())
  beforeEach(() => {
    node.services.clear()
    parts.all.fill(0n)
  })

  const packet = (proto: 'TCP' | 'UDP', from: string, to: string, flags = 'S') =>
    proto === 'TCP' ? tcp(from, to, flags) : udp(from, to)

  /** A flow of each kind, and what its packets are in both directions. */
  function openFlows(family: Family, proto: 'TCP' | 'UDP') {
    const { client, vip, here, there } = PLAN[family]
    node.services.add({ proto, frontends: [{ at: `${vip}:80` }], backends: [{ at: `${here}:8080`, local: true }] })
    node.services.add({ proto, frontends: [{ at: `${vip}:81` }], backends: [{ at: `${there}:8080` }] })
    const toHere = node.ingress(packet(proto, `${client}:40000`, `${vip}:80`))
    const toThere = node.ingress(packet(proto, `${client}:40000`, `${vip}:81`))
    const { from: source } = toThere.packet
    // The node itself dials from the port that the flow has, and is moved to the other one.
    const own = node.egress(packet(proto, source, `${there}:8080`), 'up1')
    const moved = own.packet.from
    expect([toHere.outcome, toThere.outcome, own.outcome]).toEqual(['delivered', 'forwarded', 'port_moved'])
    const steps: (() => Step)[] = [
      () => node.ingress(packet(proto, `${client}:40000`, `${vip}:80`, 'A')),
      () => node.egress(packet(proto, `${here}:8080`, `${client}:40000`, 'A')),
      () => node.ingress(packet(proto, `${client}:40000`, `${vip}:81`, 'A')),
      () => node.ingress(packet(proto, `${there}:8080`, source, 'A'), 'up1'),
      () => node.egress(packet(proto, source, `${there}:8080`, 'A'), 'up1'),
      () => node.ingress(packet(proto, `${there}:8080`, moved, 'A'), 'up1'),
    ]
    return () => steps.map(step => step().outcome)
  }
  const ALL_KNOWN = ['delivered', 'replied', 'forwarded', 'replied', 'port_moved', 'replied']

  test.each(CASES)('$family $proto: programs and control plane mean the same bits', ({ family, proto }) => {
    openFlows(family, proto)
    const frontends = bitsOf(parts.agent)
    const byPrograms = bitsOf(parts.flows)
    filter.prepare()
    filter.renew()
    const byAgent = bitsOf(parts.agent).filter(bit => !frontends.includes(bit))
    // The client's side of a flow is a frontend, which has its bit already.
    expect(byPrograms.filter(bit => !frontends.includes(bit))).toEqual(byAgent)
    expect(byAgent).toHaveLength(3)
  })

  test.each(CASES)('$family $proto: a flow outlives its frontend and all renewals', ({ family, proto }) => {
    const send = openFlows(family, proto)
    expect(send()).toEqual(ALL_KNOWN)
    for (const name of [maps.frontends4.name, maps.frontends6.name]) map(name).deleteBatch(map(name).entries().keys)
    for (let times = 0; times < 3; times++) {
      filter.prepare()
      expect(send()).toEqual(ALL_KNOWN)
      filter.renew()
      expect(send()).toEqual(ALL_KNOWN)
    }
    // Nothing but the flows is left.
    expect(bitsOf(parts.agent)).toHaveLength(5)
  })

  test.each(CASES)('$family $proto: a flow that opens between the two steps is not lost', ({ family, proto }) => {
    filter.prepare()
    const send = openFlows(family, proto)
    const frontends = parts.agent.slice()
    filter.renew()
    parts.agent.set(frontends)
    expect(send()).toEqual(ALL_KNOWN)
  })

  test.each(CASES)(
    '$family $proto: what has no bit is passed, unless nothing can be relied on',
    ({ family, proto }) => {
      const { client, vip, there } = PLAN[family]
      node.services.add({ proto, frontends: [{ at: `${vip}:81` }], backends: [{ at: `${there}:8080` }] })
      const current = parts.memory.loadWord(0, offsets.current)
      const dial = () => node.ingress(packet(proto, `${client}:40000`, `${vip}:81`)).outcome
      const bits = parts.agent.slice()
      parts.agent.fill(0n)
      expect(dial()).toBe('not_service')
      parts.memory.storeWord(0, offsets.current, 0n)
      expect(dial()).toBe('forwarded')
      parts.memory.storeWord(0, offsets.current, current)
      parts.agent.set(bits)
      expect(dial()).toBe('forwarded')
      expect(node.ingress(packet(proto, `${client}:40000`, `${vip}:99`)).outcome).toBe('no_port')
    },
  )
})

describe.skipIf(lacking)('the control plane and its filter', () => {
  const key = (i: number) => frontendKey(`10.96.${i >> 8}.${i & 255}` as Address, 80, 6)

  function rig() {
    const kernel = createMaps()
    const { agent } = partsOf(kernel.handles.filter)
    const has = (bytes: Uint8Array) => bitsOf(agent).includes(filterBitOfFrontend(bytes))
    return { kernel, filter: new Filter(kernel), has }
  }

  test('a frontend has its bits before it is in the map', () => {
    const { kernel, has } = rig()
    const written: boolean[] = []
    const { frontends4 } = kernel.handles
    const watched = new Proxy(frontends4, {
      get(target, name) {
        const member = Reflect.get(target, name, target)
        if (name === 'update') {
          return (bytes: Uint8Array, value: Uint8Array) => {
            written.push(has(bytes))
            target.update(bytes, value)
          }
        }
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
    const handles = { ...kernel.handles, frontends4: watched }
    const { applier } = startProcess(Object.create(kernel, { handles: { value: handles } }), new FakeClock())
    const frontends = [{ kind: 'ClusterIP', address: '10.96.0.1' as Address, port: 80 }] as const
    const port = { id: 'default/web:/TCP/IPv4', namespace: 'default', name: 'web', portName: '', frontends }
    const rest = { protocol: 'TCP', family: 'IPv4', scheduler: 'random', affinitySeconds: 0, backends: [] } as const
    const policies = { internalLocal: false, externalLocal: false }
    const services = new Map([[port.id, { ...port, ...rest, ...policies }]])
    expect(applier.apply({ revision: 1, services }, undefined, true).failed).toEqual([])
    // The port, and the address whatever the port.
    expect(written).toEqual([true, true])
    kernel.close()
  })

  test('a renewal is wanted at first, and when many bits are set in vain; then those go', () => {
    const { kernel, filter, has } = rig()
    expect(filter.wantsRenewal).toBe(true)
    filter.prepare()
    expect(filter.wantsRenewal).toBe(false)
    filter.renew()
    expect(filter.wantsRenewal).toBe(false)
    kernel.handles.frontends4.update(key(0), new Uint8Array(8))
    for (let i = 0; i < 20_000; i++) filter.add(key(i))
    expect(filter.wantsRenewal).toBe(false)
    for (let i = 20_000; i < 40_000; i++) filter.add(key(i))
    expect(filter.wantsRenewal).toBe(true)
    expect(has(key(1))).toBe(true)
    filter.prepare()
    filter.renew()
    expect([has(key(0)), has(key(1)), filter.wantsRenewal]).toEqual([true, false, false])
    kernel.close()
  })

  test.each([
    ['IPv4', (i: number) => `10.96.${i >> 8}.${i & 255}`],
    ['IPv6', (i: number) => `2001:db8::${i.toString(16)}`],
  ])('%s addresses of one network, and ports of one address, are spread', (_family, address) => {
    const bits = (each: (i: number) => Uint8Array) =>
      new Set(Array.from({ length: 65_536 }, (_, i) => filterBitOfFrontend(each(i)))).size
    // Chance would leave 63,500 of them.
    expect(bits(i => frontendKey(address(i) as Address, 80, 6))).toBeGreaterThan(55_000)
    expect(bits(i => frontendKey(address(1) as Address, i, 6))).toBeGreaterThan(55_000)
  })
})
