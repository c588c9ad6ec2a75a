import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { extension, fragmentOf } from './fragments.js'
import { ETH_LENGTH, type PacketOptions, tcp, udp } from './packet.js'
import { decode } from './packet-decode.js'
import { missing, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const V4 = { client: '203.0.113.7:40000', vip: '172.30.0.1:80', here: '10.0.1.5:8080' } as const
const V6 = { client: '[2001:db8:f::7]:40000', vip: '[2001:db8:30::1]:80', here: '[2001:db8:a1::5]:8080' } as const

/** Numbers of IPv6 headers (RFC 8200 4, RFC 4302). */
const HOP = 0
const TCP = 6
const UDP = 17
const ROUTING = 43
const FRAGMENT = 44
const AH = 51
const DESTINATION = 60

/** An IPv6 frame with a chain of extension headers before its transport header. */
function chained(headers: readonly number[], proto: 'TCP' | 'UDP', to: string, edit?: (bytes: Uint8Array[]) => void) {
  const last = proto === 'TCP' ? TCP : UDP
  const parts = headers.map((header, i) => {
    const bytes = extension(headers[i + 1] ?? last, { ah: header === AH, size: header === AH ? 24 : 8 })
    // No segments left; an atomic fragment.
    if (header === ROUTING || header === FRAGMENT) bytes.fill(0, 2)
    if (header === FRAGMENT) bytes.fill(0, 1)
    return bytes
  })
  edit?.(parts)
  const options = { nextHeader: headers[0] ?? last, extension: Uint8Array.from(parts.flatMap(part => [...part])) }
  return proto === 'TCP' ? tcp(V6.client, to, 'S', options) : udp(V6.client, to, options)
}

/** Takes the extension headers out, so that the rest can be decoded. */
function unchained(frame: Uint8Array, length: number, proto: number): Uint8Array {
  const copy = Uint8Array.from([...frame.subarray(0, ETH_LENGTH + 40), ...frame.subarray(ETH_LENGTH + 40 + length)])
  const view = new DataView(copy.buffer)
  view.setUint16(ETH_LENGTH + 4, view.getUint16(ETH_LENGTH + 4) - length)
  copy[ETH_LENGTH + 6] = proto
  return copy
}

describe.skipIf(lacking)('what may stand in a packet', () => {
  let node: TcNode

  beforeAll(() => {
    node = new TcNode()
  })
  afterAll(() => node.close())
  beforeEach(() => {
    node.services.clear()
    for (const { vip, here } of [V4, V6]) {
      for (const proto of ['TCP', 'UDP'] as const) {
        node.services.add({ proto, frontends: [{ at: vip }], backends: [{ at: here, local: true }] })
      }
    }
  })

  const chains: readonly (readonly number[])[] = [
    [HOP],
    [ROUTING],
    [DESTINATION],
    [AH],
    [FRAGMENT],
    [HOP, DESTINATION],
    [HOP, ROUTING, FRAGMENT, DESTINATION],
    [HOP, DESTINATION, ROUTING, FRAGMENT, AH, DESTINATION, DESTINATION, DESTINATION],
  ]
  const protocols = ['TCP', 'UDP'] as const

  describe.each(protocols)('row 15: %s behind IPv6 extension headers', proto => {
    test.each(chains.map(chain => ({ chain })))('$chain', ({ chain }) => {
      const sent = chained(chain, proto, V6.vip)
      const length = chain.reduce((sum, header) => sum + (header === AH ? 24 : 8), 0)
      const step = node.ingress(sent)
      expect(step.outcome).toBe('delivered')
      const number = proto === 'TCP' ? TCP : UDP
      const packet = decode(unchained(step.frame, length, number))
      expect(packet).toMatchObject({ from: V6.client, to: V6.here, checksums: { transport: 'ok' } })
      expect(packet.untouched).toBe(decode(unchained(sent, length, number)).untouched)
      // Traffic class and flow label are part of it (row 16), the extension headers are not.
      expect(step.frame.subarray(ETH_LENGTH + 40, ETH_LENGTH + 40 + length)).toEqual(
        sent.subarray(ETH_LENGTH + 40, ETH_LENGTH + 40 + length),
      )
    })
  })

  test.each([
    { name: 'nine of them', headers: Array.from({ length: 9 }, () => DESTINATION), outcome: 'extension_headers' },
    { name: 'a fragment of a fragment', headers: [FRAGMENT, FRAGMENT], outcome: 'bad_fragment' },
  ])('row 15: $name: dropped for a Service, else left alone', ({ headers, outcome }) => {
    expect(node.ingress(chained(headers, 'UDP', V6.vip))).toMatchObject({ outcome, verdict: 'drop' })
    const frame = chained(headers, 'UDP', '[2001:db8:30::99]:80')
    expect(node.ingress(frame)).toMatchObject({ outcome, verdict: 'next', frame })
    expect(node.services.flows()).toEqual([])
  })

  test('row 15: a header that ends behind the packet', () => {
    const cut = (to: string) => chained([DESTINATION], 'UDP', to, ([header]) => header?.fill(200, 1, 2))
    expect(node.ingress(cut(V6.vip))).toMatchObject({ outcome: 'malformed', verdict: 'drop' })
    expect(node.ingress(cut('[2001:db8:30::99]:80'))).toMatchObject({ outcome: 'malformed', verdict: 'next' })
  })

  test('row 11: whatever is wrong with a frame for another machine, it is left alone', () => {
    const dstMac = '02:00:00:00:00:77'
    const short = tcp(V4.client, V4.vip, 'S', { dstMac })
    short[ETH_LENGTH + 20 + 12] = 0x10 // a header of 4 bytes
    expect(node.ingress(short)).toMatchObject({ outcome: 'malformed', verdict: 'next', frame: short })
    const routed = tcp(V4.client, V4.vip, 'S', { dstMac, ipOptions: Uint8Array.of(131, 3, 4, 1) })
    expect(node.ingress(routed)).toMatchObject({ outcome: 'not_handled', verdict: 'next', frame: routed })
    const nine = chained(
      Array.from({ length: 9 }, () => DESTINATION),
      'UDP',
      V6.vip,
    )
    nine.set([2, 0, 0, 0, 0, 0x77])
    expect(node.ingress(nine)).toMatchObject({ outcome: 'extension_headers', verdict: 'next', frame: nine })
  })

  describe.each([V4, V6])('row 11: lengths in transport headers that cannot be: $vip', ({ client, vip }) => {
    const elsewhere = vip.replace('0.1', '0.99').replace('::1', '::99')
    const l4 = ETH_LENGTH + (vip === V4.vip ? 20 : 40)
    const payload = new Uint8Array(16)
    const patched = (frame: Uint8Array, at: number, ...bytes: readonly number[]) => {
      frame.set(bytes, l4 + at)
      return frame
    }

    test.each([
      {
        name: 'TCP options behind the end',
        make: (to: string) => patched(tcp(client, to, 'S', { payload }), 12, 0xf0),
      },
      { name: 'UDP behind the end', make: (to: string) => patched(udp(client, to, { payload }), 4, 0, 25) },
      { name: 'UDP of 7 bytes', make: (to: string) => patched(udp(client, to, { payload }), 4, 0, 7) },
    ])('$name: dropped for a Service, else left alone', ({ make }) => {
      expect(node.ingress(make(vip))).toMatchObject({ outcome: 'malformed', verdict: 'drop' })
      expect(node.services.flows()).toEqual([])
      const frame = make(elsewhere)
      expect(node.ingress(frame)).toMatchObject({ outcome: 'not_service', verdict: 'next', frame })
    })

    test('UDP that ends before the packet is served', () => {
      expect(node.ingress(patched(udp(client, vip, { payload }), 4, 0, 8)).outcome).toBe('delivered')
    })

    test('row 14: a first fragment that has the fixed TCP header but not all options', () => {
      const whole = patched(tcp(client, vip, 'S', { payload: new Uint8Array(60) }), 12, 0xf0)
      const cut = fragmentOf(whole, whole.subarray(l4, l4 + 32), 0, true)
      expect(node.ingress(cut)).toMatchObject({ outcome: 'bad_fragment', verdict: 'drop' })
    })
  })

  test('row 15: what leads to neither TCP nor UDP is left alone', () => {
    const frame = chained([DESTINATION], 'UDP', V6.vip, ([header]) => header?.fill(58, 0, 1))
    expect(node.ingress(frame)).toMatchObject({ outcome: 'not_handled', verdict: 'next', frame })
  })

  test('row 15: a first fragment whose ports stand behind destination options', () => {
    const whole = chained([DESTINATION], 'UDP', V6.vip)
    const first = fragmentOf(whole, whole.subarray(ETH_LENGTH + 40), 0, true, 0x8888)
    expect(node.ingress(first).outcome).toBe('delivered')
    expect(node.ingress(fragmentOf(whole, new Uint8Array(64), 16, false, 0x8888)).outcome).toBe('delivered')
  })

  const route = (type: number) => Uint8Array.of(1, type, 7, 4, 192, 168, 9, 9)
  test.each([
    { name: 'record route', options: Uint8Array.of(7, 7, 4, 0, 0, 0, 0, 0) },
    { name: 'timestamp', options: Uint8Array.of(68, 8, 5, 0, 131, 131, 137, 137) },
    { name: 'security', options: Uint8Array.from([130, 11, ...new Array<number>(9).fill(0), 0]) },
    { name: 'router alert between no-operations', options: Uint8Array.of(1, 1, 148, 4, 0, 0, 1, 0) },
    { name: '40 bytes of no-operation', options: new Uint8Array(40).fill(1) },
  ])('row 10: IPv4 with $name is translated at the right offset', ({ options }) => {
    const sent = tcp(V4.client, V4.vip, 'S', { ipOptions: options })
    const step = node.ingress(sent)
    expect(step.outcome).toBe('delivered')
    expect(step.packet).toMatchObject({ to: V4.here, ipOptions: options, checksums: { ip: 'ok', transport: 'ok' } })
    expect(step.packet.untouched).toBe(decode(sent).untouched)
  })

  test.each([
    { name: 'loose', type: 131 },
    { name: 'strict', type: 137 },
  ])('row 10: IPv4 $name source route: dropped for a Service, else left alone', ({ type }) => {
    const options: PacketOptions = { ipOptions: route(type) }
    expect(node.ingress(tcp(V4.client, V4.vip, 'S', options))).toMatchObject({
      outcome: 'source_route',
      verdict: 'drop',
    })
    expect(node.services.flows()).toEqual([])
    const frame = tcp(V4.client, '172.30.0.99:80', 'S', options)
    expect(node.ingress(frame)).toMatchObject({ outcome: 'not_service', verdict: 'next', frame })
  })

  test('row 10: a source route does not get past on a known flow, nor back', () => {
    node.ingress(tcp(V4.client, V4.vip, 'S'))
    const options: PacketOptions = { ipOptions: route(131) }
    expect(node.ingress(tcp(V4.client, V4.vip, 'A', options)).outcome).toBe('source_route')
    expect(node.egress(tcp(V4.here, V4.client, 'SA', options))).toMatchObject({
      outcome: 'source_route',
      verdict: 'drop',
    })
  })

  test('row 15: IPv6 routing header with segments left: dropped for a Service', () => {
    const routed = (to: string) => chained([ROUTING], 'TCP', to, ([header]) => header?.fill(1, 3, 4))
    expect(node.ingress(routed(V6.vip))).toMatchObject({ outcome: 'source_route', verdict: 'drop' })
    expect(node.ingress(routed('[2001:db8:30::99]:80'))).toMatchObject({ outcome: 'not_service', verdict: 'next' })
  })

  test.each([
    { name: 'a length of 1', options: Uint8Array.of(7, 1, 0, 0) },
    { name: 'a length behind the header', options: Uint8Array.of(7, 9, 4, 0) },
    { name: 'no length', options: Uint8Array.of(1, 1, 1, 7) },
  ])('row 11: IPv4 option with $name', ({ options }) => {
    const frame = tcp(V4.client, V4.vip, 'S', { ipOptions: options })
    expect(node.ingress(frame)).toMatchObject({ outcome: 'malformed', verdict: 'drop' })
    expect(node.services.flows()).toEqual([])
  })

  test('row 23: UDP without checksum passes over IPv4 and is dropped over IPv6', () => {
    const four = node.ingress(udp(V4.client, V4.vip, { checksum: 'zero' }))
    expect(four.packet).toMatchObject({ to: V4.here, checksums: { transport: 'none' } })
    const six = node.ingress(udp(V6.client, V6.vip, { checksum: 'zero' }))
    expect({ outcome: six.outcome, verdict: six.verdict }).toEqual({ outcome: 'malformed', verdict: 'drop' })
    const others = udp(V6.client, '[2001:db8:30::99]:80', { checksum: 'zero' })
    expect(node.ingress(others)).toMatchObject({ verdict: 'next', frame: others })
  })

  describe('rows 37 and 38: sources that cannot be a client', () => {
    test.each([
      ['0.0.0.0', '0.1.2.3', '127.0.0.1', '127.9.9.9', '224.0.0.1', '239.1.1.1', '240.0.0.1', '255.255.255.255'],
      ['[::]', '[::1]', '[ff02::1]', '[ff0e::9]'],
    ])('%s …', (...sources) => {
      for (const source of sources) {
        const { vip } = source.startsWith('[') ? V6 : V4
        for (const frame of [tcp(`${source}:40000`, vip, 'S'), udp(`${source}:40000`, vip)]) {
          expect(node.ingress(frame)).toMatchObject({ outcome: 'martian', verdict: 'drop' })
        }
        const others = udp(`${source}:40000`, vip.replace('::1]', '::99]').replace('0.1:', '0.99:'))
        expect(node.ingress(others)).toMatchObject({ outcome: 'not_service', verdict: 'next', frame: others })
      }
      expect(node.services.flows()).toEqual([])
    })

    test.each([
      { family: 'IPv4', own: '192.168.0.1', ...V4 },
      { family: 'IPv6', own: '[2001:db8:c0::1]', ...V6 },
    ])("$family: a frontend, the dialled address, and the device's own address as source", ({ own, vip }) => {
      const address = vip.replace(/:80$/, '')
      for (const source of [vip, `${address}:40000`, `${own}:40000`]) {
        expect(node.ingress(udp(source, vip))).toMatchObject({ outcome: 'martian', verdict: 'drop' })
      }
      expect(node.services.flows()).toEqual([])
    })

    test.each([
      { family: 'IPv4', ...V4 },
      { family: 'IPv6', ...V6 },
    ])('$family: addresses next to them are clients', ({ family, vip }) => {
      const sources =
        family === 'IPv4' ? ['1.0.0.1', '126.255.255.255', '128.0.0.1', '223.255.255.255'] : ['[::2]', '[fe00::1]']
      for (const source of sources) expect(node.ingress(udp(`${source}:40000`, vip)).outcome).toBe('delivered')
    })
  })
})
