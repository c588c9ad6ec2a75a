import { describe, expect, test } from 'vitest'
import type { Address } from '../../src/model/address.js'
import type { Cidr } from '../../src/model/cidr.js'
import { CLIENT, FACTS, MemoryNode, packet, tcp, udp, VIP } from './memory-kit.js'

/** Rules of docs/packet-path.md, asked of the reference; test/bpf/differential.test.ts asks the kernel. */

const HERE = '10.0.1.5:8080'
const THERE = '10.0.2.5:8080'
const outcomes = (answers: readonly { outcome: string }[]) => answers.map(each => each.outcome)

describe('a new flow', () => {
  test('to a backend here keeps the client, and its reply is translated on its way out', () => {
    const node = new MemoryNode()
    node.apply({ backends: [`${HERE} here`] })
    const there = node.send(tcp(CLIENT, VIP, 'S'))
    expect(there).toMatchObject({ outcome: 'delivered', verdict: 'next', to: `${CLIENT} > ${HERE}` })
    const answer = tcp(HERE, CLIENT, 'SA')
    expect(node.where(answer, 'ingress')).toEqual([{ outcome: 'not_service', verdict: 'next' }])
    expect(node.send(answer, 'egress')).toMatchObject({ outcome: 'replied', verdict: 'next', to: `${VIP} > ${CLIENT}` })
  })

  test('to a backend elsewhere is sent on with an address of the way and a free port', () => {
    const node = new MemoryNode()
    node.apply({ backends: [THERE] })
    const there = node.send(tcp(CLIENT, VIP, 'S'), 'ingress', { sport: 2345 })
    expect(there).toMatchObject({ outcome: 'forwarded', verdict: 'redirect', to: `192.168.1.1:2345 > ${THERE}` })
    const back = node.send(tcp(THERE, '192.168.1.1:2345', 'SA'), 'ingress', { device: 'up1' })
    expect(back).toMatchObject({ outcome: 'replied', verdict: 'redirect', to: `${VIP} > ${CLIENT}` })
    const [other] = node.where(tcp('203.0.113.8:40000', VIP, 'S'))
    const becomes = other?.becomes
    if (becomes?.kind !== 'translated') throw new Error('not translated')
    expect([2345, 2346, 30000].map(port => becomes.sport?.has(port))).toEqual([false, true, false])
  })

  test('may get any backend of the list, and keeps the one it got', () => {
    const node = new MemoryNode()
    node.apply({ backends: ['10.0.1.5:80 here', '10.0.1.6:80 here', '10.0.1.7:80 here draining'] })
    expect(node.where(tcp(CLIENT, VIP, 'S'))).toHaveLength(2)
    const { to } = node.send(tcp(CLIENT, VIP, 'S'))
    expect(node.where(tcp(CLIENT, VIP, 'A'))).toHaveLength(1)
    expect(node.send(tcp(CLIENT, VIP, 'A')).to).toBe(to)
  })

  test.each([
    { from: '203.0.113.7:1', to: '172.30.0.9:80', flags: 'S', outcome: 'not_service', verdict: 'next' },
    { from: '203.0.113.7:1', to: '172.30.0.1:81', flags: 'S', outcome: 'no_port', verdict: 'redirect' },
    { from: '203.0.113.7:1', to: '192.168.0.1:81', flags: 'S', outcome: 'host_port', verdict: 'next' },
    { from: '203.0.113.7:1', to: '172.30.0.1:80', flags: 'A', outcome: 'unknown_flow', verdict: 'next' },
    { from: '203.0.113.7:1', to: '172.30.0.1:81', flags: 'A', outcome: 'not_service', verdict: 'next' },
    { from: '127.0.0.1:1', to: '172.30.0.1:80', flags: 'S', outcome: 'martian', verdict: 'drop' },
    { from: '192.168.0.1:1', to: '172.30.0.1:80', flags: 'S', outcome: 'martian', verdict: 'drop' },
    { from: '172.30.0.1:80', to: '192.168.0.1:80', flags: 'S', outcome: 'martian', verdict: 'drop' },
    { from: '203.0.113.7:1', to: '10.9.9.9:80', flags: 'S', outcome: 'source_denied', verdict: 'drop' },
    { from: '198.51.100.7:1', to: '10.9.9.9:80', flags: 'S', outcome: 'delivered', verdict: 'next' },
  ])('$from > $to $flags: $outcome', ({ from, to, flags, outcome, verdict }) => {
    const node = new MemoryNode()
    node.apply({
      frontends: [`ClusterIP ${VIP}`, 'ExternalIP 192.168.0.1:80', 'LoadBalancer 10.9.9.9:80'],
      backends: [`${HERE} here`],
      sourceRanges: { ranges: ['198.51.100.0/24' as Cidr], node: false, pods: false },
    })
    expect(node.where(tcp(from, to, flags))).toMatchObject([{ outcome, verdict }])
  })

  test.each([
    { backend: THERE, rest: { ttl: 1 }, outcome: 'ttl_exceeded', verdict: 'redirect' },
    { backend: THERE, rest: { size: 1401 }, outcome: 'too_big', verdict: 'redirect' },
    { backend: '10.0.9.1:80', rest: {}, outcome: 'no_route', verdict: 'drop' },
    { backend: '10.0.3.1:80', rest: {}, outcome: 'no_source_address', verdict: 'drop' },
  ])('to $backend with $rest: $outcome', ({ backend, rest, outcome, verdict }) => {
    const node = new MemoryNode()
    node.apply({ backends: [backend] })
    expect(node.where(tcp(CLIENT, VIP, 'S', rest))).toMatchObject([{ outcome, verdict }])
  })

  test('a pod that is its own backend is sent back with an address of the node', () => {
    const node = new MemoryNode()
    node.apply({ backends: [`${HERE} here`] })
    expect(outcomes(node.where(tcp('10.0.1.5:40000', VIP, 'S')))).toEqual(['forwarded'])
  })

  test('without backends: refused, unless a policy alone is why', () => {
    const node = new MemoryNode()
    node.apply({ backends: [] }, { frontends: ['NodePort 192.168.0.1:30080'], backends: [THERE], externalLocal: true })
    expect(node.where(tcp(CLIENT, VIP, 'S'))).toMatchObject([{ outcome: 'no_backend', becomes: { kind: 'reset' } }])
    const nodePort = '192.168.0.1:30080'
    expect(node.where(tcp(CLIENT, nodePort, 'S'))).toEqual([{ outcome: 'no_local_backend', verdict: 'drop' }])
    // The external policy binds clients outside the cluster alone.
    expect(outcomes(node.where(tcp('10.0.4.4:1', nodePort, 'S')))).toEqual(['forwarded'])
  })
})

describe('affinity', () => {
  const service = { affinitySeconds: 60, backends: ['10.0.1.5:80 here', '10.0.1.6:80 here', '10.0.9.1:80'] }

  test('binds a client until it has been silent for the timeout', () => {
    const node = new MemoryNode()
    node.apply(service)
    const { to } = node.send(tcp(CLIENT, VIP, 'S'))
    node.now += 50
    expect(node.where(tcp('203.0.113.7:2', VIP, 'S'))).toHaveLength(1)
    expect(node.send(tcp('203.0.113.7:2', VIP, 'S')).to?.split('> ')[1]).toBe(to?.split('> ')[1])
    node.now += 62
    expect(node.where(tcp('203.0.113.7:3', VIP, 'S'))).toHaveLength(3)
  })

  test('a packet that got no further shows which backends it can have been', () => {
    const node = new MemoryNode()
    node.apply(service)
    const unreachable = node.where(tcp(CLIENT, VIP, 'S')).find(each => each.outcome === 'no_route')
    unreachable?.take?.(tcp(CLIENT, VIP, 'S').tuple)
    expect(outcomes(node.where(tcp(CLIENT, VIP, 'S')))).toEqual(['no_route'])
  })

  test('ends with its backend', () => {
    const node = new MemoryNode()
    node.apply(service)
    const { to } = node.send(tcp(CLIENT, VIP, 'S'))
    const others = service.backends.filter(each => !to?.endsWith(each.split(' ')[0] ?? ''))
    node.apply({ ...service, backends: others })
    expect(node.where(tcp('203.0.113.7:2', VIP, 'S'))).toHaveLength(2)
  })
})

describe('the life of a flow', () => {
  const state = (node: MemoryNode) => node.dataplane.flows(node.now)[0]?.state

  test('TCP: confirmed once the client goes on after a reply, closed by FIN of both', () => {
    const node = new MemoryNode()
    node.apply({ backends: [`${HERE} here`] })
    node.send(tcp(CLIENT, VIP, 'S'))
    node.send(tcp(HERE, CLIENT, 'SA'), 'egress')
    expect(state(node)).toBe('opening')
    node.send(tcp(CLIENT, VIP, 'A'))
    expect(state(node)).toBe('established')
    node.send(tcp(CLIENT, VIP, 'FA'))
    expect(state(node)).toBe('half-closed')
    node.send(tcp(HERE, CLIENT, 'FA'), 'egress')
    expect(state(node)).toBe('closed')
  })

  test('a reset that nobody obeyed is taken back', () => {
    const node = new MemoryNode()
    node.apply({ backends: [`${HERE} here`] })
    node.send(tcp(CLIENT, VIP, 'S'))
    node.send(tcp(HERE, CLIENT, 'RA'), 'egress')
    expect(state(node)).toBe('closed')
    node.send(tcp(HERE, CLIENT, 'SA'), 'egress')
    expect(state(node)).toBe('opening')
  })

  test('before the backend has answered, the reset of the client and a bare ACK of the backend count nothing', () => {
    const node = new MemoryNode()
    node.apply({ backends: [`${HERE} here`] })
    node.send(tcp(CLIENT, VIP, 'S'))
    node.send(tcp(HERE, CLIENT, 'A'), 'egress')
    node.send(tcp(CLIENT, VIP, 'R'))
    expect(state(node)).toBe('opening')
  })

  test('a removed backend: TCP goes on until a SYN, a datagram chooses again', () => {
    const node = new MemoryNode()
    node.apply({ backends: [`${HERE} here`] }, { protocol: 'UDP', backends: [`${HERE} here`] })
    node.send(tcp(CLIENT, VIP, 'S'))
    node.send(udp(CLIENT, VIP))
    const other = '10.0.1.6:8080'
    node.apply({ backends: [`${other} here`] }, { protocol: 'UDP', backends: [`${other} here`] })
    expect(node.send(tcp(CLIENT, VIP, 'A')).to).toBe(`${CLIENT} > ${HERE}`)
    expect(node.send(udp(CLIENT, VIP)).to).toBe(`${CLIENT} > ${other}`)
    expect(node.send(tcp(CLIENT, VIP, 'S')).to).toBe(`${CLIENT} > ${other}`)
  })

  test('after its timeout it may be there or not, and after a sweep it is not', () => {
    const node = new MemoryNode()
    node.apply({ backends: [`${HERE} here`] })
    node.send(tcp(CLIENT, VIP, 'S'))
    node.now += 245
    expect(outcomes(node.where(tcp(CLIENT, VIP, 'A')))).toEqual(['delivered', 'unknown_flow'])
    node.dataplane.sweep(node.now)
    expect(outcomes(node.where(tcp(CLIENT, VIP, 'A')))).toEqual(['unknown_flow'])
  })

  test('in a crowded table unconfirmed flows may go for others, confirmed ones do not', () => {
    const node = new MemoryNode({ flows: 8 })
    node.apply({ backends: [`${HERE} here`] })
    for (const client of [CLIENT, '203.0.113.8:1']) node.send(tcp(client, VIP, 'S'))
    expect(outcomes(node.where(tcp(CLIENT, VIP, 'A')))).toEqual(['delivered', 'unknown_flow'])
    node.send(tcp(HERE, CLIENT, 'SA'), 'egress')
    node.send(tcp(CLIENT, VIP, 'A'))
    expect(outcomes(node.where(tcp(CLIENT, VIP, 'A')))).toEqual(['delivered'])
  })
})

describe('fragments', () => {
  const dns = { protocol: 'UDP' as const, backends: [`${HERE} here`] }
  const first = { fragment: { id: 7, offset: 0, size: 1480 } }
  const later = { fragment: { id: 7, offset: 1480, size: 100 } }
  const unread = (to: string) => udp(CLIENT.replace(/:.*/, ':0'), to.replace(/:.*/, ':0'), later)

  test('later ones follow their first; one that overlaps it is dropped', () => {
    const node = new MemoryNode()
    node.apply(dns)
    node.send(udp(CLIENT, VIP, first))
    expect(node.where(unread(VIP))).toMatchObject([{ outcome: 'delivered', verdict: 'next' }])
    const overlap = { ...unread(VIP), fragment: { id: 7, offset: 8, size: 100 } }
    expect(node.where(overlap)).toEqual([{ outcome: 'bad_fragment', verdict: 'drop' }])
  })

  test('one that comes early waits, and its first one goes round with it', () => {
    const node = new MemoryNode()
    node.apply(dns)
    expect(node.send(unread(VIP))).toMatchObject({ outcome: 'fragment_held', verdict: 'drop' })
    const released = node.send(udp(CLIENT, VIP, first))
    expect(released).toMatchObject({ outcome: 'fragment_released', verdict: 'drop', becomes: { kind: 'again' } })
    expect(node.send(udp(CLIENT, VIP, first)).outcome).toBe('delivered')
  })

  test('the rest of a datagram does not follow its flow to another backend', () => {
    const node = new MemoryNode()
    node.apply(dns)
    node.send(udp(CLIENT, VIP, first))
    node.apply({ ...dns, backends: ['10.0.1.6:8080 here'] })
    expect(node.where(unread(VIP))).toMatchObject([{ outcome: 'fragment', verdict: 'drop' }])
    expect(node.send(udp(CLIENT, VIP)).outcome).toBe('delivered')
    expect(node.where(unread(VIP))).toMatchObject([{ outcome: 'fragment', verdict: 'drop' }])
  })

  test('to nobody known they are left alone', () => {
    const node = new MemoryNode()
    node.apply(dns)
    expect(node.where(unread('172.30.0.9:0'))).toEqual([{ outcome: 'fragment', verdict: 'next' }])
  })
})

describe('ICMP', () => {
  const error = (from: string, to: string, quote: ReturnType<typeof tcp>) =>
    packet(`${from}:0`, `${to}:0`, 'UDP', { icmp: { kind: 'error', quote: quote.tuple } })

  test('an error about a flow goes its way and quotes what was sent', () => {
    const node = new MemoryNode()
    node.apply({ backends: [THERE] })
    node.send(tcp(CLIENT, VIP, 'S'), 'ingress', { sport: 2000 })
    const [answer] = node.where(error('10.0.2.5', '192.168.1.1', tcp('192.168.1.1:2000', THERE, '')), 'ingress', 'up1')
    expect(answer).toMatchObject({ outcome: 'icmp_translated', verdict: 'redirect' })
    expect(answer?.becomes).toEqual({
      kind: 'error',
      src: '172.30.0.1',
      dst: '203.0.113.7',
      quote: tcp(CLIENT, VIP, '').tuple,
      routed: true,
    })
  })

  test("a router's own address stays where the source of the flow does", () => {
    const node = new MemoryNode()
    node.apply({ backends: [`${HERE} here`] })
    node.send(tcp(CLIENT, VIP, 'S'))
    const [answer] = node.where(error('198.51.100.9', '172.30.0.1', tcp(VIP, CLIENT, '')))
    expect(answer?.becomes).toMatchObject({ kind: 'error', src: '198.51.100.9', dst: '10.0.1.5' })
  })

  test.each([
    { to: '172.30.0.1', answerPing: false, outcome: 'ping_ignored' },
    { to: '172.30.0.1', answerPing: true, outcome: 'ping_answered' },
    { to: '192.168.0.1', answerPing: true, outcome: 'not_handled' },
    { to: '172.30.0.9', answerPing: true, outcome: 'not_handled' },
  ])('ping of $to with answerPing $answerPing: $outcome', ({ to, answerPing, outcome }) => {
    const node = new MemoryNode({ answerPing })
    node.apply({ frontends: [`ClusterIP ${VIP}`, 'ExternalIP 192.168.0.1:80'], backends: [THERE] })
    const ping = packet('203.0.113.7:0', `${to}:0`, 'UDP', { icmp: { kind: 'echo request' } })
    expect(outcomes(node.where(ping))).toEqual([outcome])
  })
})

describe('what is broken', () => {
  test.each([
    { to: VIP, rest: { left: 'malformed', defect: 'malformed' }, verdict: 'drop' },
    { to: '172.30.0.9:80', rest: { left: 'malformed', defect: 'malformed' }, verdict: 'next' },
    { to: '192.168.0.1:0', rest: { left: 'malformed', defect: 'malformed' }, verdict: 'next' },
    { to: '192.168.0.1:80', rest: { defect: 'source_route' }, verdict: 'drop' },
    { to: VIP, rest: { left: 'malformed' }, verdict: 'next' },
    { to: VIP, rest: { left: 'malformed', defect: 'malformed', forHost: false }, verdict: 'next' },
  ] as const)('to $to with $rest: $verdict', ({ to, rest, verdict }) => {
    const node = new MemoryNode()
    node.apply({ frontends: [`ClusterIP ${VIP}`, 'ExternalIP 192.168.0.1:80'], backends: [THERE] })
    expect(node.where(tcp(CLIENT, to, 'S', rest))).toMatchObject([{ verdict }])
  })
})

test('as a dataplane it removes what is not desired only when told to prune', async () => {
  const node = new MemoryNode()
  node.apply({ backends: [`${HERE} here`] })
  const { dataplane } = node
  const nothing = { revision: 2, services: new Map() }
  expect(await dataplane.probe()).toEqual([])
  await dataplane.apply(nothing, undefined, false)
  expect(outcomes(node.where(tcp(CLIENT, VIP, 'S')))).toEqual(['delivered'])
  await dataplane.apply(nothing, undefined, true)
  expect(outcomes(node.where(tcp(CLIENT, VIP, 'S')))).toEqual(['not_service'])
  expect(FACTS.routes.find('10.0.2.77' as Address)).toEqual({ device: 'up1' })
})
