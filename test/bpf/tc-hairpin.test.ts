import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { tcp, udp } from './packet.js'
import { missing, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/** Row 36 of the packet table: a pod on this node that is chosen as its own backend. */
const FAMILIES = [
  {
    family: 'IPv4',
    vip: '172.30.0.1:80',
    pod: '10.0.1.5',
    other: '10.0.1.6',
    node: '192.168.0.1',
  },
  {
    family: 'IPv6',
    vip: '[2001:db8:30::1]:80',
    pod: '[2001:db8:a1::5]',
    other: '[2001:db8:a1::6]',
    node: '[2001:db8:c0::1]',
  },
] as const

describe.skipIf(lacking)('hairpin', () => {
  let node: TcNode
  beforeAll(() => {
    node = new TcNode()
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  const CASES = FAMILIES.flatMap(at => (['TCP', 'UDP'] as const).map(proto => ({ ...at, proto })))

  test.each(CASES)('row 36: $family $proto: a pod that reaches itself sees the node, and gets its answer', at => {
    const { proto, pod, vip } = at
    node.services.add({ proto, frontends: [{ at: vip }], backends: [{ at: `${pod}:8080`, local: true }] })
    const first = proto === 'TCP' ? tcp(`${pod}:40000`, vip, 'S') : udp(`${pod}:40000`, vip)
    const there = node.ingress(first)
    expect(there).toMatchObject({ outcome: 'forwarded', verdict: 'redirect' })
    expect(there.packet).toMatchObject({ to: `${pod}:8080`, ttl: 63 })
    expect(there.packet.from.startsWith(`${at.node}:`)).toBe(true)
    const { from } = there.packet
    const reply = proto === 'TCP' ? tcp(`${pod}:8080`, from, 'SA') : udp(`${pod}:8080`, from)
    const back = node.ingress(reply)
    expect(back).toMatchObject({ outcome: 'replied', verdict: 'redirect' })
    expect(back.packet).toMatchObject({ from: vip, to: `${pod}:40000` })
    expect(back.packet.checksums.transport).toBe('ok')
  })

  test.each(CASES)('$family $proto: another pod of this node keeps its address', at => {
    const { proto, pod, other, vip } = at
    node.services.add({ proto, frontends: [{ at: vip }], backends: [{ at: `${pod}:8080`, local: true }] })
    const first = proto === 'TCP' ? tcp(`${other}:40000`, vip, 'S') : udp(`${other}:40000`, vip)
    const there = node.ingress(first)
    expect(there).toMatchObject({ outcome: 'delivered', verdict: 'next' })
    expect(there.packet).toMatchObject({ from: `${other}:40000`, to: `${pod}:8080` })
  })
})
