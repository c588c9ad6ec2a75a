import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import { split } from './fragments.js'
import { tcp, udp } from './packet.js'
import { missing, missingProgram, TcNode } from './tc-node.js'

const lacking = missing() ?? missingProgram('nft', 'address translation in a namespace')
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/** `old` is the backend that the kernel translates to, `backend` the one that a new flow gets. */
const FAMILIES = {
  IPv4: {
    client: '203.0.113.7',
    vip: '172.30.0.1',
    plain: '172.30.0.2',
    old: '10.0.2.5',
    backend: '10.0.2.6',
    pod: '10.0.1.5',
    node: '192.168.0.1',
  },
  IPv6: {
    client: '2001:db8:f::7',
    vip: '2001:db8:30::1',
    plain: '2001:db8:30::2',
    old: '2001:db8:a2::5',
    backend: '2001:db8:a2::6',
    pod: '2001:db8:a1::5',
    node: '2001:db8:c0::1',
  },
} as const
type Family = keyof typeof FAMILIES
const FAMILY_NAMES = Object.keys(FAMILIES) as Family[]

const at = (address: string, port: number) => (address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`)

/** A connection to the frontend through the kernel's NAT; each line of input ends it further. */
const CONNECT = `
const [client, vip, old] = process.argv.slice(1)
const net = require('net')
let far
const server = net.createServer({ allowHalfOpen: true }, socket => { far = socket; console.log('open') }).listen(8080, old, () => {
  const near = net.connect({ host: vip, port: 80, localAddress: client, localPort: 40000, allowHalfOpen: true })
  near.resume().on('end', () => near.end())
  require('readline').createInterface({ input: process.stdin }).once('line', () => {
    far.resume().end().on('close', () => { console.log('closed'); process.exit() })
  })
})`

describe.skipIf(lacking)("flows that the kernel's NAT translates", () => {
  let node: TcNode | undefined

  afterEach(() => {
    node?.close()
    node = undefined
  })

  function start(adopt = 1): TcNode {
    node = new TcNode({ constants: { cfg_adopt_conntrack: Uint8Array.of(adopt) } })
    for (const { vip, plain, backend, node: own } of Object.values(FAMILIES)) {
      for (const proto of ['TCP', 'UDP'] as const) {
        const backends = [{ at: at(backend, 8080) }]
        for (const address of [vip, plain]) node.services.add({ proto, frontends: [{ at: at(address, 80) }], backends })
        node.services.add({ proto, frontends: [{ at: at(own, 40000), ownAddress: true }], backends })
      }
    }
    const rules = (rule: (family: (typeof FAMILIES)[Family], ip: string) => string) =>
      FAMILY_NAMES.map(name => rule(FAMILIES[name], name === 'IPv4' ? 'ip' : 'ip6')).join('; ')
    within(
      node,
      ['nft', '-f', '-'],
      `table inet t {
        chain o {
          type nat hook output priority -100
          ${rules(({ vip, old }, ip) => `${ip} daddr ${vip} meta l4proto { tcp, udp } th dport 80 dnat ${ip} to ${at(old, 8080)}`)}
        }
        chain p {
          type nat hook postrouting priority 100
          ${rules(({ pod, node: own }, ip) => `${ip} saddr ${pod} snat ${ip} to ${own}`)}
        }
      }`,
    )
    return node
  }

  function within(of: TcNode, command: readonly string[], input = ''): void {
    execFileSync('nsenter', [`--net=${of.netns}`, ...command], { input })
  }

  /** For as long as `body` runs the node has these addresses: what leaves from them is tracked as the client's. */
  async function having(of: TcNode, addresses: readonly string[], body: () => unknown): Promise<void> {
    const each = (verb: string) =>
      addresses.forEach(address => {
        within(of, ['ip', 'addr', verb, `${address}/${address.includes(':') ? 128 : 32}`, 'dev', 'lo'])
      })
    each('add')
    await body()
    each('del')
  }

  /** A datagram from port 40000 of an address to port 80 of each other one. */
  async function datagrams(of: TcNode, from: string, ...to: readonly string[]): Promise<void> {
    const code =
      `const u=require('dgram').createSocket('udp${from.includes(':') ? 6 : 4}');let left=${to.length};` +
      `u.bind(40000,'${from}',()=>${JSON.stringify(to)}.map(to=>u.send('x',80,to,()=>--left||u.close())))`
    await having(of, [from], () => within(of, [process.execPath, '-e', code]))
  }

  describe.each(FAMILY_NAMES)('%s', family => {
    const { client, vip, plain, old, backend, pod, node: own } = FAMILIES[family]
    const [from, other, frontend] = [at(client, 40000), at(client, 40001), at(vip, 80)]

    test('a datagram of one is left to the kernel; from another port, or tracked and not translated, it opens a flow', async () => {
      const node = start()
      await datagrams(node, client, vip, plain)
      const frame = udp(from, frontend)
      expect(node.ingress(frame)).toMatchObject({ outcome: 'kernel_flow', verdict: 'next', frame })
      expect(node.services.flows()).toEqual([])
      expect(node.ingress(udp(other, frontend)).packet.to).toBe(at(backend, 8080))
      expect(node.ingress(udp(from, at(plain, 80))).packet.to).toBe(at(backend, 8080))
    })

    test('so is a reply to a masqueraded one whose port is a node port', async () => {
      const node = start()
      await datagrams(node, pod, client)
      const frame = udp(at(client, 80), at(own, 40000))
      expect(node.ingress(frame)).toMatchObject({ outcome: 'kernel_flow', verdict: 'next', frame })
      expect(node.ingress(udp(at(client, 81), at(own, 40000))).outcome).toBe('forwarded')
    })

    test('not where that is off', async () => {
      const node = start(0)
      await datagrams(node, client, vip)
      expect(node.ingress(udp(from, frontend)).outcome).toBe('forwarded')
    })

    test('all fragments of a datagram, in order or not', async () => {
      const node = start()
      await datagrams(node, client, vip)
      const parts = (id: number) => split(udp(from, frontend, { payload: new Uint8Array(64) }), 40, id)
      const [first, last] = parts(1) as [Uint8Array, Uint8Array]
      expect(node.ingress(first)).toMatchObject({ outcome: 'kernel_flow', verdict: 'next', frame: first })
      expect(node.ingress(last)).toMatchObject({ outcome: 'fragment', verdict: 'next', frame: last })
      const [late, early] = parts(2) as [Uint8Array, Uint8Array]
      expect(node.ingress(early).outcome).toBe('fragment_held')
      expect(node.ingress(late).outcome).toBe('fragment_released')
      expect(node.ingress(late)).toMatchObject({ outcome: 'kernel_flow', verdict: 'next' })
      expect(node.ingress(early)).toMatchObject({ outcome: 'fragment', verdict: 'next' })
    })

    test('a SYN is left to the kernel while its connection is open, and opens a flow when it has ended', async () => {
      const node = start()
      const syn = tcp(from, frontend, 'S')
      await having(node, [client, old], async () => {
        const child = spawn('nsenter', [`--net=${node.netns}`, process.execPath, '-e', CONNECT, client, vip, old], {
          stdio: ['pipe', 'pipe', 'inherit'],
        })
        try {
          expect(String(await once(child.stdout, 'data'))).toBe('open\n')
          expect(node.ingress(syn)).toMatchObject({ outcome: 'kernel_flow', verdict: 'next', frame: syn })
          expect(node.ingress(tcp(from, frontend, 'A')).outcome).toBe('unknown_flow')
          child.stdin.write('close\n')
          expect(String(await once(child.stdout, 'data'))).toBe('closed\n')
        } finally {
          child.kill()
        }
      })
      expect(node.ingress(syn).packet.to).toBe(at(backend, 8080))
    })
  })
})
