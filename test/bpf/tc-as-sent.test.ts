import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ETH_LENGTH, type PacketOptions, tcp, udp } from './packet.js'
import { decode } from './packet-decode.js'
import { missing, type Step, TcNode } from './tc-node.js'

/** What arrives as it was sent: data in a SYN, marks of the IP header, and all that is nobody's Service. */

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const PLAN = {
  IPv4: { client: '203.0.113.7', vip: '172.30.0.1', node: '192.168.0.1', here: '10.0.1.5', there: '10.0.2.5' },
  IPv6: {
    client: '[2001:db8:f::7]',
    vip: '[2001:db8:30::1]',
    node: '[2001:db8:c0::1]',
    here: '[2001:db8:a1::5]',
    there: '[2001:db8:a2::5]',
  },
} as const
const PLACES = (['IPv4', 'IPv6'] as const).flatMap(family =>
  (['here', 'there'] as const).map(place => ({ family, place, at: PLAN[family] })),
)

/** TCP fast open (RFC 7413) with a cookie of eight bytes, and what fills its words. */
const FAST_OPEN = Uint8Array.of(34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1)

describe.skipIf(lacking)('as it was sent', () => {
  let node: TcNode

  beforeAll(() => {
    node = new TcNode()
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  function serve(family: 'IPv4' | 'IPv6', place: 'here' | 'there', proto: 'TCP' | 'UDP' = 'TCP') {
    const at = PLAN[family]
    const backends = [5, 6].map(n => ({
      at: `${at[place].replace(/5(?=\]?$)/, String(n))}:8080`,
      local: place === 'here',
    }))
    return node.services.add({ proto, frontends: [{ at: `${at.vip}:80` }], backends })
  }

  const reply = (step: Step, flags: string, options: PacketOptions = {}) =>
    tcp(step.packet.to, step.packet.from, flags, options)

  describe.each(PLACES)('$family, backend $place', ({ family, place, at }) => {
    test.each([0, 1, 536, 1400])('row 3: a SYN with %i bytes and the fast open option', length => {
      serve(family, place)
      const payload = Uint8Array.from({ length }, (_, i) => (i * 7) & 0xff)
      const sent = tcp(`${at.client}:40000`, `${at.vip}:80`, 'S', { tcpOptions: FAST_OPEN, payload })
      const first = node.ingress(sent)
      expect(first.outcome).toBe(place === 'here' ? 'delivered' : 'forwarded')
      expect(first.packet.checksums.transport).toBe('ok')
      expect(first.packet.untouched).toBe(decode(sent).untouched)
      // Sent again, and what follows it: all to the one backend.
      const rest = tcp(`${at.client}:40000`, `${at.vip}:80`, 'PA', { payload })
      for (const step of [node.ingress(sent), node.ingress(rest)]) expect(step.packet.to).toBe(first.packet.to)
    })

    test('row 16: traffic class, a congestion mark and the flow label stay, both ways', () => {
      serve(family, place)
      const mark = (frame: Uint8Array) => {
        if (family === 'IPv4') {
          // The sum of the header, told of the change of its first word.
          const view = new DataView(frame.buffer, frame.byteOffset + ETH_LENGTH)
          view.setUint8(1, 0xbb)
          const sum = (view.getUint16(10) ^ 0xffff) + 0xbb
          view.setUint16(10, ~((sum & 0xffff) + (sum >> 16)))
        } else frame.set([0x6b, 0xb9, 0xab, 0xcd], ETH_LENGTH)
        return frame
      }
      const there = node.ingress(mark(tcp(`${at.client}:40000`, `${at.vip}:80`, 'S')))
      const answer = mark(reply(there, 'SA'))
      const back = place === 'here' ? node.egress(answer) : node.ingress(answer, 'up1')
      expect(back.outcome).toBe('replied')
      for (const step of [there, back]) {
        const [first = 0, second = 0, third, fourth] = step.frame.subarray(ETH_LENGTH)
        if (family === 'IPv4') expect([second, step.packet.checksums.ip]).toEqual([0xbb, 'ok'])
        else expect([first, second, third, fourth]).toEqual([0x6b, 0xb9, 0xab, 0xcd])
      }
    })

    test('row 42: a backend that left the list keeps its connections, and gets no new one', () => {
      const service = serve(family, place)
      const say = (port: number, flags: string) => node.ingress(tcp(`${at.client}:${port}`, `${at.vip}:80`, flags))
      const open = say(40000, 'S')
      const answer = reply(open, 'SA')
      if (place === 'here') node.egress(answer)
      else node.ingress(answer, 'up1')
      const left = open.packet.to.endsWith('5:8080') || open.packet.to.endsWith('5]:8080') ? 0 : 1
      node.services.setList(
        service,
        service.backends.filter((_, i) => i !== left),
      )
      for (const flags of ['A', 'PA', 'FA']) expect(say(40000, flags).packet.to).toBe(open.packet.to)
      for (let port = 41000; port < 41020; port++) expect(say(port, 'S').packet.to).not.toBe(open.packet.to)
    })
  })

  const raw = (mac: string, type: number, body: Uint8Array) => {
    const frame = new Uint8Array(Math.max(60, ETH_LENGTH + body.length))
    frame.set(mac.split(':').map(byte => Number.parseInt(byte, 16)))
    frame.set([0x02, 0, 0, 0, 0, 0x99, type >> 8, type & 0xff], 6)
    frame.set(body, ETH_LENGTH)
    return frame
  }
  const cast = (frame: Uint8Array, mac: string) =>
    raw(mac, (frame[12] ?? 0) * 256 + (frame[13] ?? 0), frame.subarray(14))
  const arp = Uint8Array.of(
    0,
    1,
    8,
    0,
    6,
    4,
    0,
    1,
    2,
    0,
    0,
    0,
    0,
    0x99,
    203,
    0,
    113,
    7,
    0,
    0,
    0,
    0,
    0,
    0,
    172,
    30,
    0,
    1,
  )

  const NOBODYS: { name: string; frame: Uint8Array }[] = [
    { name: 'ARP for a Service address', frame: raw('ff:ff:ff:ff:ff:ff', 0x0806, arp) },
    { name: 'LLDP', frame: raw('01:80:c2:00:00:0e', 0x88cc, Uint8Array.of(2, 7, 4, 2, 0, 0, 0, 0, 0x99)) },
    { name: 'a frame of no type but a length', frame: raw('01:80:c2:00:00:00', 38, new Uint8Array(38).fill(0x42)) },
    { name: 'IPv4 multicast', frame: cast(udp('203.0.113.7:5353', '224.0.0.251:5353'), '01:00:5e:00:00:fb') },
    { name: 'IPv4 multicast to our MAC address', frame: udp('203.0.113.7:5353', '224.0.0.251:5353') },
    { name: 'IPv4 broadcast', frame: cast(udp('0.0.0.0:68', '255.255.255.255:67'), 'ff:ff:ff:ff:ff:ff') },
    { name: "IPv4 broadcast of the node's network", frame: udp('192.168.0.9:137', '192.168.0.255:137') },
    { name: 'IPv4 link-local', frame: udp('169.254.1.2:4000', '169.254.1.1:53') },
    { name: 'IPv6 multicast', frame: cast(udp('[fe80::9]:5353', '[ff02::fb]:5353'), '33:33:00:00:00:fb') },
    { name: 'IPv6 multicast to our MAC address', frame: udp('[2001:db8:f::7]:5353', '[ff02::fb]:5353') },
    { name: 'IPv6 link-local', frame: tcp('[fe80::9]:4000', '[fe80::1]:179', 'S') },
  ]

  test.each(NOBODYS)('row 31: $name: untouched in both directions', ({ frame }) => {
    serve('IPv4', 'here', 'UDP')
    serve('IPv6', 'here', 'UDP')
    expect(node.ingress(frame)).toMatchObject({ verdict: 'next', frame })
    expect(node.egress(frame)).toMatchObject({ verdict: 'next', frame })
    expect(node.services.flows()).toEqual([])
  })

  test.each(['IPv4', 'IPv6'] as const)('row 11: %s packets cut anywhere make no flow, and no other packet', family => {
    serve(family, 'there')
    serve(family, 'there', 'UDP')
    const { client, vip } = PLAN[family]
    for (const whole of [tcp(`${client}:40000`, `${vip}:80`, 'S'), udp(`${client}:40000`, `${vip}:80`)]) {
      // The kernel runs no program on less than an IP header.
      for (let length = ETH_LENGTH + (family === 'IPv4' ? 20 : 40); length < whole.length; length++) {
        const frame = whole.slice(0, length)
        // The header says more than there is: whoever reads on would read what is not there.
        const { outcome, verdict } = node.ingress(frame)
        expect({ length, outcome, verdict }).toEqual({ length, outcome: 'malformed', verdict: 'next' })
      }
    }
    expect(node.services.flows()).toEqual([])
  })
})
