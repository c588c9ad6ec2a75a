import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, describe, expect, test } from 'vitest'
import { toBytes, u32 } from '../../src/ebpf/codec.js'
import { tcp, udp } from './packet.js'
import { missing, TcNode, type TcNodeOptions } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const FAMILIES = {
  IPv4: { client: '203.0.113.7', vip: '172.30.0.1', there: '10.0.2.5', egress: '192.168.1.1' },
  IPv6: { client: '[2001:db8:f::7]', vip: '[2001:db8:30::1]', there: '[2001:db8:a2::5]', egress: '[2001:db8:c1::1]' },
} as const

/** Opens a socket in the node's namespace and keeps it until its standard input ends. */
const HOLD = {
  'UDP socket connected to the backend': 'u.bind(port,address,()=>u.connect(8080,peer,ready))',
  'UDP socket bound to the port': 'u.bind(port,address,ready)',
  'UDP socket connected elsewhere': 'u.bind(port,address,()=>u.connect(9999,peer,ready))',
  'TCP socket that connects to the backend':
    'net.connect({port:8080,host:peer,localPort:port,localAddress:address}).on("error",()=>{});setTimeout(ready,200)',
  'TCP listener': 'net.createServer().listen(port,address,ready)',
} as const

describe.skipIf(lacking)('source ports', () => {
  let node: TcNode | undefined
  const held: ChildProcess[] = []

  afterEach(async () => {
    for (const child of held.splice(0)) {
      const gone = once(child, 'exit')
      child.stdin?.end()
      await gone
    }
    node?.close()
    node = undefined
  })

  function start(options: TcNodeOptions): TcNode {
    node = new TcNode(options)
    for (const { vip, there } of Object.values(FAMILIES)) {
      for (const proto of ['TCP', 'UDP'] as const) {
        node.services.add({ proto, frontends: [{ at: `${vip}:80` }], backends: [{ at: `${there}:8080` }] })
      }
    }
    return node
  }

  const bare = (address: string) => address.replace(/[[\]]/g, '')

  async function hold(what: keyof typeof HOLD, port: number, address: string, peer: string): Promise<void> {
    if (!node) throw new Error('no node')
    const code =
      `const port=${port},address='${bare(address)}',peer='${bare(peer)}',net=require('net');` +
      `const u=require('dgram').createSocket('udp${bare(address).includes(':') ? 6 : 4}');` +
      `const ready=()=>console.log('ready');process.stdin.resume().on('end',()=>process.exit());${HOLD[what]}`
    const child = spawn('nsenter', [`--net=${node.netns}`, process.execPath, '-e', code], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    held.push(child)
    if (!child.stdout) throw new Error('no standard output')
    await Promise.race([
      once(child.stdout, 'data'),
      once(child, 'exit').then(() => Promise.reject(new Error(`${what}: ended early`))),
    ])
  }

  const portOf = (endpoint: string) => Number(endpoint.slice(endpoint.lastIndexOf(':') + 1))

  describe.each(['IPv4', 'IPv6'] as const)('%s', family => {
    const { client, vip, there, egress } = FAMILIES[family]
    const open = (proto: 'TCP' | 'UDP', port: number) => {
      if (!node) throw new Error('no node')
      const [from, to] = [`${client}:${port}`, `${vip}:80`]
      return node.ingress(proto === 'TCP' ? tcp(from, to, 'S') : udp(from, to))
    }

    test.each(['TCP', 'UDP'] as const)('row 35: %s ports all differ, until none is left', proto => {
      start({ snatPorts: [2000, 2003] })
      const ports = [40000, 40001, 40002, 40003].map(port => portOf(open(proto, port).packet.from))
      expect(ports.sort()).toEqual([2000, 2001, 2002, 2003])
      const before = node?.flowStats()
      expect(before).toMatchObject({ snatFlows: 4 })
      expect(open(proto, 41000)).toMatchObject({ outcome: 'snat_exhausted', verdict: 'drop' })
      expect(node?.services.flows()).toHaveLength(8)
      expect(node?.flowStats()).toMatchObject({ snatFlows: 5, snatTries: (before?.snatTries ?? 0) + 512 })
    })

    test('row 35: a flood to a backend without a free port pays for eight tries a SYN and a few more a second', () => {
      const rate = 1000
      const at = start({ snatPorts: [2000, 2003], constants: { cfg_snat_tries_rate: toBytes(u32, rate) } })
      for (let port = 40000; port < 40004; port++) expect(open('TCP', port).outcome).toBe('forwarded')
      const before = at.flowStats().snatTries
      const began = performance.now()
      const flood = Array.from({ length: 500 }, (_, i) => open('TCP', 41000 + i))
      const seconds = (performance.now() - began) / 1000
      expect(new Set(flood.map(step => step.verdict))).toEqual(new Set(['drop']))
      const limited = flood.filter(step => step.outcome === 'snat_limited').length
      expect(limited).toBeGreaterThan(400)
      const tries = at.flowStats().snatTries - before
      expect(tries).toBeGreaterThanOrEqual(8 * flood.length)
      // What was saved up, and what a round may overdraw, on each CPU; a tick of the clock.
      expect(tries).toBeLessThan(8 * flood.length + at.cpus * (rate * (0.1 + seconds + 0.01) + 32))
      // Who wants another backend, or protocol, is not held up.
      expect(open('UDP', 41000).outcome).toBe('forwarded')
    })

    test('the last range is used when the others have no port left, and no sooner', () => {
      start({ snatPorts: [2000, 2003], snatPortsLast: [3000, 3001] })
      const ports = Array.from({ length: 6 }, (_, i) => portOf(open('UDP', 40000 + i).packet.from))
      // A round of 32 tries fails to find the last of four ports once in 10,000 times.
      expect(ports.slice(0, 3).filter(port => port >= 3000)).toEqual([])
      expect(ports.sort()).toEqual([2000, 2001, 2002, 2003, 3000, 3001])
      expect(open('UDP', 41000).outcome).toBe('snat_exhausted')
    })

    test('rows 4 and 45: a client that dials again from the same port gets the same one: its old connection may be in TIME_WAIT there', () => {
      start({})
      const [from, to] = [`${client}:40000`, `${vip}:80`]
      const first = open('TCP', 40000).packet.from
      for (let port = 40001; port < 40200; port++) expect(open('TCP', port).packet.from).not.toBe(first)
      for (let again = 0; again < 5; again++) {
        node?.ingress(tcp(from, to, 'FA'))
        expect(open('TCP', 40000).packet.from).toBe(first)
      }
    })

    test('TCP and UDP have each port for themselves', () => {
      start({ snatPorts: [2000, 2000] })
      expect(open('TCP', 40000).packet.from).toBe(`${egress}:2000`)
      expect(open('UDP', 40000).packet.from).toBe(`${egress}:2000`)
    })

    test('a frontend on our address keeps its port', () => {
      start({ snatPorts: [2000, 2001] })
      node?.services.add({ proto: 'TCP', frontends: [{ at: `${egress}:2000` }], backends: [] })
      expect(open('TCP', 40000).packet.from).toBe(`${egress}:2001`)
      expect(open('TCP', 40001).outcome).toBe('snat_exhausted')
    })

    test.each([
      { what: 'UDP socket connected to the backend', proto: 'UDP', taken: true },
      { what: 'UDP socket bound to the port', proto: 'UDP', taken: true },
      { what: 'UDP socket connected elsewhere', proto: 'UDP', taken: false },
      { what: 'TCP socket that connects to the backend', proto: 'TCP', taken: true },
      { what: 'TCP listener', proto: 'TCP', taken: false },
    ] as const)('$what: taken $taken', async ({ what, proto, taken }) => {
      start({ snatPorts: [2000, 2000] })
      await hold(what, 2000, egress, there)
      expect(open(proto, 40000).outcome).toBe(taken ? 'snat_exhausted' : 'forwarded')
    })
  })

  test('the default ranges leave node ports and ephemeral ports alone', () => {
    start({ flows: 2048 })
    const ports = Array.from({ length: 400 }, (_, i) => {
      const step = node?.ingress(udp(`203.0.113.7:${10000 + i}`, '172.30.0.1:80'))
      return portOf(step?.packet.from ?? '')
    })
    expect(ports.filter(port => port < 1024 || (port > 29999 && port < 61000))).toEqual([])
    expect(ports.some(port => port <= 29999) && ports.some(port => port >= 61000)).toBe(true)
    expect(new Set(ports).size).toBe(400)
  })
})
