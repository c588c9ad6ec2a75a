import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fromBytes, toBytes } from '../../src/ebpf/codec.js'
import { Hook, maps, Outcome, outcomeStats } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { TestServices } from './services.js'
import { missing } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/**
 * What real clients hear of errors. The router's way to the backends takes 1,300 bytes,
 * but the backends do not know: segments of 1,500 arrive there only by path MTU discovery.
 *
 *   client 203.0.113.7 ── up0 node up1 ── router ── there 10.0.2.5
 *                             pod0 ──────────── ── here 10.0.1.5
 */
const PREFIX = `waggle-tcr-${process.pid}`
const NAMES = ['client', 'node', 'router', 'here', 'there'] as const
type Name = (typeof NAMES)[number]
const LINKS: { a: Name; dev: string; b: Name; peer: string; net4: string; net6: string; far: number; mtu: number }[] = [
  { a: 'node', dev: 'up0', b: 'client', peer: 'eth0', net4: '203.0.113', net6: '2001:db8:f', far: 7, mtu: 1500 },
  { a: 'node', dev: 'up1', b: 'router', peer: 'eth1', net4: '192.168.1', net6: '2001:db8:c1', far: 2, mtu: 1500 },
  { a: 'node', dev: 'pod0', b: 'router', peer: 'eth2', net4: '192.168.2', net6: '2001:db8:c2', far: 2, mtu: 1500 },
  { a: 'router', dev: 'there', b: 'there', peer: 'eth0', net4: '10.0.2', net6: '2001:db8:a2', far: 5, mtu: 1300 },
  { a: 'router', dev: 'here', b: 'here', peer: 'eth0', net4: '10.0.1', net6: '2001:db8:a1', far: 5, mtu: 1300 },
]
const FAMILIES = {
  IPv4: { frontend: '203.0.113.1', here: '10.0.1.5', there: '10.0.2.5', narrow: '10.0.2.6' },
  IPv6: { frontend: '2001:db8:f::1', here: '2001:db8:a1::5', there: '2001:db8:a2::5', narrow: '2001:db8:a2::6' },
} as const

/** Says how many bytes came, in a connection or in a datagram. */
const SERVER = `
// A socket for each address: an answer must come from the one that was asked.
for (const { address, family, internal } of Object.values(require('os').networkInterfaces()).flat()) {
  if (internal || address.startsWith('fe80')) continue
  const u = require('dgram').createSocket(family === 'IPv6' ? 'udp6' : 'udp4')
  u.on('message', (m, from) => u.send(String(m.length), from.port, from.address)).bind(5353, address)
}
require('net').createServer({ allowHalfOpen: true }, s => {
  let n = 0
  s.on('data', d => { n += d.length }).on('end', () => s.end(String(n)))
}).listen(8080, '::', () => console.log('ready'))
process.stdin.resume().on('end', () => process.exit())`

/** Prints what came of it, and the milliseconds it took. */
const CLIENT = `
const [proto, address, port, bytes] = process.argv.slice(1)
const began = Date.now()
const finish = text => { console.log(text, Date.now() - began); process.exit() }
setTimeout(() => finish('timeout'), 10000)
if (proto === 'TCP') {
  let got = ''
  const s = require('net').connect({ host: address, port: Number(port), allowHalfOpen: true }, () => s.end(Buffer.alloc(Number(bytes))))
  s.on('data', d => { got += d }).on('end', () => finish(got)).on('error', e => finish(e.code))
} else {
  const u = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
  u.on('message', m => finish(String(m))).on('error', e => finish(e.code))
  u.connect(Number(port), address, () => u.send('x'))
}`

const enter = (name: Name) => `--net=/run/netns/${PREFIX}-${name}`
const at = (address: string, port: number) => (address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`)

function ip(name: Name, ...commands: string[]): void {
  execFileSync('ip', ['-n', `${PREFIX}-${name}`, '-batch', '-'], { input: commands.join('\n') })
}

function connectNamespaces(): void {
  for (const name of NAMES) execFileSync('ip', ['netns', 'add', `${PREFIX}-${name}`])
  for (const { a, dev, b, peer, net4, net6, far, mtu } of LINKS) {
    ip(a, `link add ${dev} type veth peer name ${peer} netns ${PREFIX}-${b}`)
    ip(
      a,
      `addr add ${net4}.1/24 dev ${dev}`,
      `addr add ${net6}::1/64 dev ${dev} nodad`,
      `link set ${dev} mtu ${mtu} up`,
    )
    ip(b, 'link set lo up', `addr add ${net4}.${far}/24 dev ${peer}`, `addr add ${net6}::${far}/64 dev ${peer} nodad`)
    ip(b, `link set ${peer} up`)
    if (b !== 'router') ip(b, `route add default via ${net4}.1`, `route add default via ${net6}::1`)
  }
  ip('node', 'route add 10.0.2.0/24 via 192.168.1.2', 'route add 2001:db8:a2::/64 via 2001:db8:c1::2')
  ip(
    'node',
    'route add 10.0.2.6 via 192.168.1.2 mtu lock 1280',
    'route add 2001:db8:a2::6 via 2001:db8:c1::2 mtu lock 1280',
  )
  ip('there', 'addr add 10.0.2.6/24 dev eth0', 'addr add 2001:db8:a2::6/64 dev eth0 nodad')
  ip('node', 'route add 10.0.1.0/24 via 192.168.2.2', 'route add 2001:db8:a1::/64 via 2001:db8:c2::2')
  ip('router', 'route add default via 192.168.2.1', 'route add default via 2001:db8:c2::1')
  for (const name of ['node', 'router'] as const) {
    const sysctls = ['net.ipv4.conf.all.forwarding=1', 'net.ipv6.conf.all.forwarding=1']
    execFileSync('nsenter', [enter(name), 'sysctl', '-q', '-w', ...sysctls, 'net.ipv4.conf.all.rp_filter=0'])
  }
}

/** Forgets what the client learnt of the frontends' paths. */
function forgetPaths(): void {
  for (const version of ['-4', '-6']) {
    execFileSync('ip', [version, '-n', `${PREFIX}-client`, 'route', 'flush', 'cache'])
  }
}

async function call(proto: 'TCP' | 'UDP', address: string, port: number, bytes: number) {
  const words = [enter('client'), process.execPath, '-e', CLIENT, proto, address, String(port), String(bytes)]
  const child = spawn('nsenter', words, { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', chunk => {
    text += chunk
  })
  await once(child, 'close')
  const [result, ms] = text.trim().split(' ')
  return { result, ms: Number(ms) }
}

describe.skipIf(lacking)('what clients hear of errors', () => {
  const native = loadNative()
  const object = native.openObject(join(import.meta.dirname, '../../build/bpf/tc.bpf.o'))
  const servers: ChildProcess[] = []
  const dir = mkdtempSync(join(tmpdir(), 'waggle-tcr-'))
  const offload = join(dir, 'tc-offload')
  const pathMtu = join(dir, 'tc-path-mtu')

  /** Packets of all CPUs that left a program that way. */
  function counted(hook: number, outcome: number): number {
    const key = toBytes(maps.outcomes.key, hook * Outcome.COUNT + outcome)
    const bytes = object.map(maps.outcomes.name).lookup(key) ?? new Uint8Array()
    let sum = 0n
    for (let at = 0; at < bytes.length; at += outcomeStats.size) sum += fromBytes(outcomeStats, bytes, at).packets
    return Number(sum)
  }

  beforeAll(async () => {
    connectNamespaces()
    // The node's devices finish no checksum themselves, so that the client verifies what we made.
    execFileSync('gcc', ['-O1', '-o', offload, join(import.meta.dirname, 'tc-offload.c')])
    execFileSync(offload, [`/run/netns/${PREFIX}-node`, 'off', 'up0', 'up1', 'pod0'])
    execFileSync('gcc', ['-O1', '-o', pathMtu, join(import.meta.dirname, 'tc-path-mtu.c')])
    object.load()
    const services = new TestServices(object)
    native.inNetns(`/run/netns/${PREFIX}-node`, () => {
      for (const { a, dev, net4, net6 } of LINKS) {
        if (a !== 'node' || dev === 'pod0') continue
        const ifindex = native.ifNameToIndex(dev)
        services.setDevice(ifindex, `${net4}.1`, `${net6}::1`)
        native.attachClsact(object.program('waggle_ingress'), ifindex, 'ingress', 1, 1)
        native.attachClsact(object.program('waggle_egress'), ifindex, 'egress', 1, 1)
      }
    })
    for (const { frontend, here, there, narrow } of Object.values(FAMILIES)) {
      for (const proto of ['TCP', 'UDP'] as const) {
        const add = (port: number, ...backends: { at: string; local?: boolean }[]) =>
          services.add({ proto, frontends: [{ at: at(frontend, port), ownAddress: true }], backends })
        add(30080, { at: at(here, 8080), local: true })
        add(30081, { at: at(there, 8080) })
        add(30082)
        add(30083, { at: at(narrow, 8080) })
        add(30084, { at: at(here, 5353), local: true })
        add(30085, { at: at(there, 5353) })
        add(30086, { at: at(narrow, 5353) })
      }
    }
    for (const name of ['here', 'there'] as const) {
      const child = spawn('nsenter', [enter(name), process.execPath, '-e', SERVER], {
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      servers.push(child)
      if (child.stdout) await once(child.stdout, 'data')
    }
  })

  afterAll(async () => {
    object.close()
    rmSync(dir, { recursive: true })
    for (const child of servers) {
      const gone = once(child, 'exit')
      child.stdin?.end()
      await gone
    }
    const left = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' }).split(/\s/)
    for (const name of NAMES.map(each => `${PREFIX}-${each}`)) {
      if (left.includes(name)) execFileSync('ip', ['netns', 'del', name])
    }
  })

  describe.each(Object.entries(FAMILIES))('%s', (_, { frontend }) => {
    test.each([
      {
        where: 'here, behind a router with a smaller MTU,',
        port: 30080,
        told: [Hook.TC_EGRESS, Outcome.ICMP_TRANSLATED],
      },
      {
        where: 'on another node, behind such a router,',
        port: 30081,
        told: [Hook.TC_INGRESS, Outcome.ICMP_TRANSLATED],
      },
      {
        where: 'by a route of this node with a smaller MTU',
        port: 30083,
        told: [Hook.TC_INGRESS, Outcome.TOO_BIG],
      },
    ] as const)('rows 17 and 28: a backend $where gets 1 MB', async ({ port, told }) => {
      forgetPaths()
      const [hook, outcome] = told
      const before = counted(hook, outcome)
      expect((await call('TCP', frontend, port, 1 << 20)).result).toBe(String(1 << 20))
      expect(counted(hook, outcome)).toBeGreaterThan(before)
    })

    test.each([
      { where: 'here, behind a router with a smaller MTU,', port: 30084, mtu: 1300 },
      { where: 'on another node, behind such a router,', port: 30085, mtu: 1300 },
      { where: 'by a route of this node with a smaller MTU', port: 30086, mtu: 1280 },
    ])(
      'rows 17 and 28: UDP that may not be fragmented, to a backend $where: EMSGSIZE, and what fits is answered',
      ({ port, mtu }) => {
        forgetPaths()
        const words = [enter('client'), pathMtu, frontend, String(port), '1400']
        const said = execFileSync('nsenter', words, { encoding: 'utf8' })
        expect(said).toBe(`EMSGSIZE ${mtu} ${mtu - (frontend.includes(':') ? 48 : 28)}\n`)
      },
    )

    test.each(['TCP', 'UDP'] as const)('row 40: a Service without backends refuses %s at once', async proto => {
      const { result, ms } = await call(proto, frontend, 30082, 1)
      expect(result).toBe('ECONNREFUSED')
      expect(ms).toBeLessThan(2000)
    })

    test.each([30080, 30081])('row 19: nobody listens at the backend: refused at once (port %i)', async port => {
      expect((await call('UDP', frontend, port, 1)).result).toBe('ECONNREFUSED')
    })
  })
})
