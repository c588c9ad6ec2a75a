import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { fragmentOf, reassemble, split } from './fragments.js'
import { ETH_LENGTH, tcp, udp } from './packet.js'
import { decode } from './packet-decode.js'
import { missing, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const PLAN = {
  IPv4: { client: '203.0.113.7', node: '192.168.0.1', vip: '172.30.0.1', here: '10.0.1.5', there: '10.0.2.5' },
  IPv6: {
    client: '[2001:db8:f::7]',
    node: '[2001:db8:c0::1]',
    vip: '[2001:db8:30::1]',
    here: '[2001:db8:a1::5]',
    there: '[2001:db8:a2::5]',
  },
} as const

/** 8 kB: six fragments. */
const PAYLOAD = Uint8Array.from({ length: 8000 }, (_, i) => (i * 7) & 0xff)
const SIZE = 1480

describe.skipIf(lacking)('fragments', () => {
  let node: TcNode

  beforeAll(() => {
    node = new TcNode()
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  describe.each(['IPv4', 'IPv6'] as const)('%s', family => {
    const at = PLAN[family]
    const client = `${at.client}:40000`
    const vip = `${at.vip}:53`
    const datagram = udp(client, vip, { payload: PAYLOAD })

    const serve = (backend: string, local: boolean, frontend = vip, ownAddress = false) =>
      node.services.add({ proto: 'UDP', frontends: [{ at: frontend, ownAddress }], backends: [{ at: backend, local }] })

    test.each([
      { where: 'here', local: true, backend: `${at.here}:5353` },
      { where: 'on another node', local: false, backend: `${at.there}:5353` },
    ])('row 12: 8 kB in 6 fragments to a backend $where, and as much back', ({ local, backend }) => {
      serve(backend, local)
      const sent = split(datagram, SIZE)
      expect(sent).toHaveLength(6)
      const steps = sent.map(frame => node.ingress(frame))
      for (const step of steps) expect(step.outcome).toBe(local ? 'delivered' : 'forwarded')
      const there = decode(reassemble(steps.map(step => step.frame)))
      expect(there).toMatchObject({ to: backend, checksums: { transport: 'ok' }, ttl: local ? 64 : 63 })
      if (local) expect(there.from).toBe(client)
      expect(there.untouched.slice(-PAYLOAD.length * 2)).toBe(Buffer.from(PAYLOAD).toString('hex'))

      const answer = split(udp(there.to, there.from, { payload: PAYLOAD }), SIZE, 0x77)
      const back = answer.map(frame => (local ? node.egress(frame) : node.ingress(frame, 'up1')))
      for (const step of back) expect(step.outcome).toBe('replied')
      expect(decode(reassemble(back.map(step => step.frame)))).toMatchObject({
        from: vip,
        to: client,
        checksums: { transport: 'ok' },
      })
      expect(node.services.flows()).toHaveLength(2)
    })

    test('row 13: duplicates and later ones in any order behind the first', () => {
      serve(`${at.here}:5353`, true)
      const [first, ...later] = split(datagram, SIZE)
      if (!first) throw new Error('no fragments')
      const steps = [first, first, ...later.toReversed(), ...later].map(frame => node.ingress(frame))
      for (const step of steps) expect(step.outcome).toBe('delivered')
      const once = [steps[0], ...steps.slice(2, 7)].map(step => step?.frame ?? new Uint8Array())
      expect(decode(reassemble(once)).to).toBe(`${at.here}:5353`)
    })

    test('row 13: one that overlaps the first is dropped, whatever it holds', () => {
      serve(`${at.here}:5353`, true)
      const [first] = split(datagram, SIZE)
      node.ingress(first ?? datagram)
      for (const offset of [8, SIZE - 8]) {
        const overlap = fragmentOf(datagram, new Uint8Array(64), offset, true)
        expect(node.ingress(overlap)).toMatchObject({ outcome: 'bad_fragment', verdict: 'drop' })
      }
      expect(node.ingress(fragmentOf(datagram, new Uint8Array(64), SIZE, true)).outcome).toBe('delivered')
    })

    test('row 13: without its first, a later one waits where the address is a Service alone', () => {
      serve(`${at.here}:5353`, true)
      const [, later] = split(datagram, SIZE, 0x4141)
      const { outcome, verdict } = node.ingress(later ?? datagram)
      expect({ outcome, verdict }).toEqual({ outcome: 'fragment_held', verdict: 'drop' })
    })

    test('row 13: an own address may be meant for the host: a copy waits, the packet goes on', () => {
      const frontend = `${at.node}:30053`
      serve(`${at.here}:5353`, true, frontend, true)
      const [first, later] = split(udp(client, frontend, { payload: PAYLOAD }), SIZE, 0x4242)
      if (!first || !later) throw new Error('no fragments')
      expect(node.ingress(later)).toMatchObject({ outcome: 'fragment_held', verdict: 'next', frame: later })
      expect(node.ingress(first)).toMatchObject({ outcome: 'fragment_released', verdict: 'drop' })
      expect(node.ingress(first).outcome).toBe('delivered')
    })

    test("row 13: the host's own fragments are left alone, and none is copied", () => {
      const [first, ...later] = split(udp(client, `${at.node}:2049`, { payload: PAYLOAD }), SIZE, 0x4343)
      if (!first) throw new Error('no fragments')
      expect(node.ingress(first)).toMatchObject({ verdict: 'next', frame: first })
      for (const frame of later) {
        expect(node.ingress(frame)).toMatchObject({ outcome: 'fragment', verdict: 'next', frame })
      }
    })

    test('row 13: ids of two clients, and of two protocols, do not meet', () => {
      serve(`${at.here}:5353`, true)
      node.ingress(split(datagram, SIZE)[0] ?? datagram)
      const other = udp(client.replace('7:', '8:').replace('7]', '8]'), vip, { payload: PAYLOAD })
      expect(node.ingress(split(other, SIZE)[1] ?? other).outcome).toBe('fragment_held')
    })

    test('row 13: 10,000 ids at once do not hurt those that come after', () => {
      serve(`${at.here}:5353`, true)
      const small = udp(client, vip, { payload: PAYLOAD.subarray(0, 64) })
      for (let id = 1; id <= 10_000; id++) {
        node.measure('waggle_ingress', fragmentOf(small, small.subarray(-72), 0, true, id), 1)
      }
      const steps = split(datagram, SIZE, 0x7777).map(frame => node.ingress(frame))
      for (const step of steps) expect(step.outcome).toBe('delivered')
    }, 60_000)

    test('row 13: a datagram whose flow ended in the middle is not split between two backends', () => {
      serve(`${at.here}:5353`, true)
      const [first, later] = split(datagram, SIZE, 0x4444)
      if (!first || !later) throw new Error('no fragments')
      node.ingress(first)
      node.services.forgetFlows()
      expect(node.ingress(later)).toMatchObject({ outcome: 'fragment', verdict: 'drop' })
    })

    test('row 13: the rest of a datagram does not follow its flow to another backend', () => {
      const service = node.services.add({
        proto: 'UDP',
        frontends: [{ at: vip }],
        backends: [`${at.here}:5353`, `${at.here}:5454`].map(backend => ({ at: backend, local: true })),
      })
      const [first, later] = split(datagram, SIZE, 0x4545)
      if (!first || !later) throw new Error('no fragments')
      const before = decode(node.ingress(udp(client, vip)).frame).to
      expect(node.ingress(first).outcome).toBe('delivered')
      node.services.removeBackend(service, service.backends[before.endsWith('5353') ? 0 : 1] ?? 0)
      expect(decode(node.ingress(udp(client, vip)).frame).to).not.toBe(before)
      expect(node.ingress(later)).toMatchObject({ outcome: 'fragment', verdict: 'drop' })
      // Of a datagram that it got whole it also gets the rest.
      const [firstAgain, laterAgain] = split(datagram, SIZE, 0x4646)
      expect(node.ingress(firstAgain ?? datagram).outcome).toBe('delivered')
      expect(node.ingress(laterAgain ?? datagram).outcome).toBe('delivered')
    })

    test('row 14: a first fragment without its whole TCP header is dropped for a frontend, else left alone', () => {
      node.services.add({ proto: 'TCP', frontends: [{ at: vip }], backends: [{ at: `${at.here}:80`, local: true }] })
      const cut = (to: string) => {
        const whole = tcp(client, to, 'S', { payload: PAYLOAD.subarray(0, 100) })
        return split(whole, 8)[0] ?? whole
      }
      expect(node.ingress(cut(vip))).toMatchObject({ outcome: 'bad_fragment', verdict: 'drop' })
      expect(node.services.flows()).toEqual([])
      const elsewhere = cut(`${at.client.replace('7', '9')}:80`)
      expect(node.ingress(elsewhere)).toMatchObject({ outcome: 'not_service', verdict: 'next', frame: elsewhere })
      node.ingress(tcp(client, vip, 'S'))
      expect(node.ingress(cut(vip))).toMatchObject({ outcome: 'bad_fragment', verdict: 'drop' })
    })

    test('row 14: one of 24 bytes has it all and goes on', () => {
      node.services.add({ proto: 'TCP', frontends: [{ at: vip }], backends: [{ at: `${at.here}:80`, local: true }] })
      const whole = tcp(client, vip, 'S', { payload: PAYLOAD.subarray(0, 100) })
      const steps = split(whole, 24, 0x5555).map(frame => node.ingress(frame))
      expect(decode(reassemble(steps.map(step => step.frame)))).toMatchObject({
        to: `${at.here}:80`,
        checksums: { transport: 'ok' },
      })
    })
  })

  test('row 13: IPv6 takes the protocol from the first fragment alone (RFC 8200 4.5)', () => {
    const { client, vip, here } = PLAN.IPv6
    node.services.add({ proto: 'UDP', frontends: [{ at: `${vip}:53` }], backends: [{ at: `${here}:53`, local: true }] })
    const [first, later] = split(udp(`${client}:40000`, `${vip}:53`, { payload: PAYLOAD }), SIZE, 0x6666)
    if (!first || !later) throw new Error('no fragments')
    later[ETH_LENGTH + 40] = 59
    node.ingress(first)
    expect(node.ingress(later).outcome).toBe('delivered')
  })
})
