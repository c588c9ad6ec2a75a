import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { FlowDirection, FlowSent } from '../../src/ebpf/generated/layouts.js'
import { split } from './fragments.js'
import { type Chunk, ETH_LENGTH, otherProtocol, type PacketOptions, sctp } from './packet.js'
import { decode } from './packet-decode.js'
import { decodeIcmp, icmpError } from './packet-icmp.js'
import type { ServiceHandle } from './services.js'
import { missing, type Step, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const SECOND = 1_000_000_000n
const { SENT, ON, FIN, RST } = FlowSent

/** The address plan of tc-node.ts. */
const FAMILIES = [
  {
    family: 'IPv4',
    client: '203.0.113.7:40000',
    other: '203.0.113.8:40000',
    vip: '172.30.0.1',
    egress: '192.168.1.1',
    here: '10.0.1.5',
    there: '10.0.2.5',
    there2: '10.0.2.6',
    router: '10.9.9.9',
  },
  {
    family: 'IPv6',
    client: '[2001:db8:f::7]:40000',
    other: '[2001:db8:f::8]:40000',
    vip: '[2001:db8:30::1]',
    egress: '[2001:db8:c1::1]',
    here: '[2001:db8:a1::5]',
    there: '[2001:db8:a2::5]',
    there2: '[2001:db8:a2::6]',
    router: '2001:db8:99::9',
  },
] as const

/** A packet the other way. */
function answer({ packet }: Step, chunk: Chunk, options: PacketOptions = {}): Uint8Array {
  return sctp(packet.to, packet.from, chunk, options)
}

function bare(endpoint: string): string {
  return endpoint.replace(/:\d+$/, '').replace(/[[\]]/g, '')
}

describe.skipIf(lacking)('SCTP', () => {
  let node: TcNode

  beforeAll(() => {
    node = new TcNode()
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  describe.each(FAMILIES)('$family', ({ client, other, vip, egress, here, there, there2, router }) => {
    const frontend = `${vip}:7000`

    /** A Service whose port is that of its backends, or another one. */
    function add(port: number, where: 'here' | 'there' = 'there'): ServiceHandle {
      const backends =
        where === 'here'
          ? [{ at: `${here}:${port}`, local: true }]
          : [{ at: `${there}:${port}` }, { at: `${there2}:${port}` }]
      return node.services.add({ proto: 'SCTP', frontends: [{ at: frontend }], backends })
    }

    function checksumOf(frame: Uint8Array): number {
      return decode(frame).transportChecksum
    }

    describe.each(['here', 'there'] as const)('a backend %s', where => {
      const from = where === 'here' ? client : client.replace(/^.*:/, `${egress}:`)
      const back = (frame: Uint8Array) => (where === 'here' ? node.egress(frame) : node.ingress(frame, 'up1'))

      test('row 32: ports that need no change: addresses are translated, the checksum stays as it is', () => {
        add(7000, where)
        for (const checksum of [undefined, 'wrong', 'zero'] as const) {
          const sent = sctp(client, frontend, 'INIT', { ...(checksum && { checksum }) })
          const step = node.ingress(sent)
          expect(step.outcome).toBe(where === 'here' ? 'delivered' : 'forwarded')
          expect(step.packet).toMatchObject({
            from,
            flags: 'INIT',
            checksums: { transport: checksum ? 'wrong' : 'ok' },
          })
          expect(checksumOf(step.frame)).toBe(checksumOf(sent))
          expect(step.packet.untouched).toBe(decode(sent).untouched)
          const reply = answer(step, 'INIT ACK')
          const replied = back(reply)
          expect(replied.packet).toMatchObject({ from: frontend, to: client, checksums: { transport: 'ok' } })
          expect(checksumOf(replied.frame)).toBe(checksumOf(reply))
        }
      })

      test.each([0, 1, 4, 100, 255, 1000, 1300])(
        'row 33: a port that must change: the checksum follows it, %i bytes of data behind',
        size => {
          add(38412, where)
          const init = node.ingress(sctp(client, frontend, 'INIT'))
          expect(init.packet).toMatchObject({ from, checksums: { transport: 'ok' } })
          expect(init.packet.to).toMatch(/:38412$/)
          back(answer(init, 'INIT ACK'))
          const payload = Uint8Array.from({ length: size }, (_, i) => i * 7)
          const sent = sctp(client, frontend, 'DATA', { payload })
          const data = node.ingress(sent)
          expect(data.packet).toMatchObject({ from, to: init.packet.to, checksums: { transport: 'ok' } })
          expect(data.packet.untouched).toBe(decode(sent).untouched)
          const reply = back(answer(init, 'DATA', { payload }))
          expect(reply.packet).toMatchObject({ from: frontend, to: client, checksums: { transport: 'ok' } })
        },
      )

      test('row 33: a wrong checksum stays wrong, by as much', () => {
        add(38412, where)
        const right = node.ingress(sctp(client, frontend, 'INIT'))
        const wrong = node.ingress(sctp(client, frontend, 'INIT', { checksum: 'wrong' }))
        expect(wrong.packet.checksums.transport).toBe('wrong')
        expect((checksumOf(wrong.frame) ^ 1) >>> 0).toBe(checksumOf(right.frame))
      })

      test('row 33: a checksum field of zero is one like any other where it is not left to the device', () => {
        add(38412, where)
        const sent = (word: number) => {
          const payload = new Uint8Array(20)
          new DataView(payload.buffer).setUint32(16, word, true)
          return sctp(client, frontend, 'INIT', { payload })
        }
        // Four bytes at the end reach every checksum: found a bit at a time, since it is linear.
        const none = checksumOf(sent(0))
        const columns = Array.from({ length: 32 }, (_, bit) => checksumOf(sent((1 << bit) >>> 0)) ^ none)
        const zero = sent(solve(columns, none))
        expect(checksumOf(zero)).toBe(0)
        expect(decode(zero).checksums.transport).toBe('ok')
        expect(node.ingress(zero).packet.checksums.transport).toBe('ok')
      })

      test('rows 12 and 33: a packet in fragments whose ports stay arrives; one that needs others is dropped', () => {
        const payload = new Uint8Array(3000).fill(7)
        for (const port of [7000, 38412]) {
          node.services.clear()
          add(port, where)
          const init = node.ingress(sctp(client, frontend, 'INIT'))
          const parts = split(sctp(client, frontend, 'DATA', { payload }), 1200)
          const [first, ...rest] = parts.map(part => node.ingress(part))
          if (port === 7000) {
            expect([first, ...rest].map(step => step?.outcome)).toEqual(parts.map(() => init.outcome))
          } else expect(first).toMatchObject({ outcome: 'bad_fragment', verdict: 'drop' })
        }
      })
    })

    test('row 34: two clients with one port: one of them gets another, and its checksum with it', () => {
      node.services.add({ proto: 'SCTP', frontends: [{ at: frontend }], backends: [{ at: `${there}:7000` }] })
      const [a, b] = [client, other].map(each => node.ingress(sctp(each, frontend, 'INIT')))
      expect(a?.packet.from).toBe(`${egress}:40000`)
      expect(b?.packet.from).not.toBe(a?.packet.from)
      for (const [step, to] of [
        [a, client],
        [b, other],
      ] as const) {
        expect(step?.packet.checksums.transport).toBe('ok')
        const reply = node.ingress(answer(step as Step, 'INIT ACK'), 'up1')
        expect(reply.packet).toMatchObject({ from: frontend, to, checksums: { transport: 'ok' } })
      }
    })

    test('a privileged port is not kept: it is none that flows may have', () => {
      add(7000)
      const { packet } = node.ingress(sctp(client.replace(':40000', ':99'), frontend, 'INIT'))
      expect(Number(packet.from.replace(/^.*:/, ''))).toBeGreaterThan(1023)
      expect(packet.checksums.transport).toBe('ok')
    })

    test('an association: INIT to SHUTDOWN COMPLETE, then an INIT chooses again', () => {
      const service = add(7000)
      const init = sctp(client, frontend, 'INIT')
      const before = node.ingress(init)
      const states = () => node.services.flows().find(each => each.flow.direction === FlowDirection.FORWARD)?.flow
      const client2backend = (chunk: Chunk) => node.ingress(sctp(client, frontend, chunk))
      const backend2client = (chunk: Chunk) => node.ingress(answer(before, chunk), 'up1')
      expect(node.ingress(init).packet.to).toBe(before.packet.to)
      backend2client('INIT ACK')
      client2backend('COOKIE ECHO')
      expect(states()).toMatchObject({ sent: SENT | ON, heard: SENT })
      backend2client('COOKIE ACK')
      client2backend('DATA')
      node.services.setList(service, [service.backends[before.packet.to === `${there}:7000` ? 1 : 0] ?? 0])
      expect(node.ingress(init).packet.to).toBe(before.packet.to) // a restart of the association
      client2backend('SHUTDOWN')
      expect(client2backend('SACK').packet.to).toBe(before.packet.to)
      backend2client('SHUTDOWN ACK')
      client2backend('SHUTDOWN COMPLETE')
      expect(states()).toMatchObject({ sent: SENT | ON | FIN | RST, heard: SENT | FIN })
      expect(node.ingress(init).packet.to).not.toBe(before.packet.to)
    })

    test.each(['ABORT', 'SHUTDOWN COMPLETE'] as const)('after %s an INIT chooses again', chunk => {
      const service = add(7000)
      const init = sctp(client, frontend, 'INIT')
      const before = node.ingress(init)
      node.ingress(answer(before, 'INIT ACK'), 'up1')
      node.services.setList(service, [service.backends[before.packet.to === `${there}:7000` ? 1 : 0] ?? 0])
      node.ingress(answer(before, chunk), 'up1')
      expect(node.ingress(init).packet.to).not.toBe(before.packet.to)
    })

    test('row 42: an INIT leaves a removed backend, the rest of an association stays', () => {
      const service = add(7000)
      const init = sctp(client, frontend, 'INIT')
      const before = node.ingress(init)
      node.ingress(answer(before, 'INIT ACK'), 'up1')
      node.services.removeBackend(service, service.backends[before.packet.to === `${there}:7000` ? 0 : 1] ?? 0)
      expect(node.ingress(sctp(client, frontend, 'DATA')).packet.to).toBe(before.packet.to)
      expect(node.ingress(init).packet.to).not.toBe(before.packet.to)
    })

    test('row 6: the middle of an association that no flow knows is left to the stack', () => {
      add(7000)
      for (const chunk of ['DATA', 'COOKIE ECHO', 'INIT ACK', 'ABORT', 'SHUTDOWN'] as const) {
        const frame = sctp(client, frontend, chunk)
        expect(node.ingress(frame)).toMatchObject({ outcome: 'unknown_flow', verdict: 'next', frame })
      }
      expect(node.services.flows()).toEqual([])
    })

    test('an idle association ends as a TCP connection does', () => {
      add(7000)
      node.ingress(sctp(client, frontend, 'INIT'))
      node.services.ageFlows(230n * SECOND)
      const [flow] = node.services.flows()
      node.ingress(sctp(client, frontend, 'INIT'))
      expect(node.services.flows()[0]?.flow.place).toBe(flow?.flow.place)
      node.services.ageFlows(250n * SECOND)
      node.ingress(sctp(client, frontend, 'INIT'))
      expect(node.services.flows()).toHaveLength(2)
      expect(node.services.flows()[0]?.flow.place).not.toBe(flow?.flow.place)
    })

    test.each([7000, 38412])('rows 19 and 20: errors about it reach whom they are for, port %i', port => {
      add(port)
      const init = sctp(client, frontend, 'INIT')
      const there = node.ingress(init)
      for (const bytes of [8, 20, undefined]) {
        const error = icmpError(
          'port unreachable',
          router,
          bare(there.packet.from),
          there.frame,
          bytes ? { bytes } : {},
        )
        const step = node.ingress(error, 'up1')
        expect(step).toMatchObject({ outcome: 'icmp_translated', verdict: 'redirect' })
        const icmp = decodeIcmp(step.frame)
        expect(icmp).toMatchObject({ from: bare(frontend), to: bare(client), checksum: 'ok' })
        const header = icmp.body.length - (bytes ?? 32)
        expect(icmp.body.subarray(header, header + 8)).toEqual(init.subarray(-32, -24))
      }
    })

    test('row 40: no endpoint, no such port: port unreachable, which quotes the packet', () => {
      node.services.add({ proto: 'SCTP', frontends: [{ at: frontend }], backends: [] })
      for (const to of [frontend, `${vip}:7001`]) {
        const sent = sctp(client, to, 'INIT')
        const step = node.ingress(sent)
        expect(step).toMatchObject({ outcome: to === frontend ? 'no_backend' : 'no_port', verdict: 'redirect' })
        const icmp = decodeIcmp(step.frame)
        expect(icmp).toMatchObject({ kind: 'port unreachable', from: bare(vip), to: bare(client), checksum: 'ok' })
        expect(Buffer.from(icmp.body)).toEqual(Buffer.from(sent.subarray(ETH_LENGTH)))
      }
    })

    test("row 11: cut short it is dropped when a Service's", () => {
      add(7000)
      const [src, dst] = [client, frontend]
      for (const size of [0, 3, 4, 12, 15]) {
        const frame = otherProtocol(src, dst, 132, { payload: sctp(src, dst, 'INIT').slice(-32).slice(0, size) })
        expect(node.ingress(frame)).toMatchObject({ outcome: 'malformed', verdict: 'drop' })
      }
    })

    test('a UDP Service on the same port is another one', () => {
      node.services.add({ proto: 'UDP', frontends: [{ at: frontend }], backends: [{ at: `${there}:7000` }] })
      expect(node.ingress(sctp(client, frontend, 'INIT')).outcome).toBe('no_port')
      add(7000)
      expect(node.ingress(sctp(client, frontend, 'INIT')).outcome).toBe('forwarded')
    })
  })
})

/** The bits for which the sum of their columns is `wanted`: Gauss over GF(2). */
function solve(columns: readonly number[], wanted: number): number {
  const rows = columns.map((value, bit) => ({ value: value >>> 0, bits: (1 << bit) >>> 0 }))
  let rest = { value: wanted >>> 0, bits: 0 }
  for (let pivot = 31; pivot >= 0; pivot--) {
    const has = (value: number) => ((value >>> pivot) & 1) === 1
    const at = rows.findIndex(({ value }) => has(value))
    const [row] = at < 0 ? [] : rows.splice(at, 1)
    if (!row) continue
    const without = (each: { value: number; bits: number }) =>
      has(each.value) ? { value: (each.value ^ row.value) >>> 0, bits: (each.bits ^ row.bits) >>> 0 } : each
    rows.forEach((each, i) => {
      rows[i] = without(each)
    })
    rest = without(rest)
  }
  return rest.bits
}
