import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { release, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fromBytes, toBytes } from '../../src/ebpf/codec.js'
import { Hook, maps, Outcome, outcomeNames, outcomeStats } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfLink, BpfObject } from '../../src/ebpf/native.js'
import { TestServices } from './services.js'
import { missing } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/**
 * Real sockets through real devices, in segments of up to 64 KiB whose checksums are left
 * to the device. A veth never finishes them, so their arithmetic only shows when the
 * node's devices are told to:
 *
 *   client 203.0.113.7 ── up0 node up1 ── pod on another node 10.0.2.5
 *                              pod0 ── pod here 10.0.1.5
 */
const NAMES = ['client', 'node', 'here', 'there'] as const
const LINKS = [
  {
    dev: 'up0',
    peer: 'client',
    near: ['203.0.113.1/24', '2001:db8:f::1/64'],
    far: ['203.0.113.7/24', '2001:db8:f::7/64'],
  },
  { dev: 'up1', peer: 'there', near: ['10.0.2.1/24', '2001:db8:a2::1/64'], far: ['10.0.2.5/24', '2001:db8:a2::5/64'] },
  { dev: 'pod0', peer: 'here', near: ['10.0.1.1/24', '2001:db8:a1::1/64'], far: ['10.0.1.5/24', '2001:db8:a1::5/64'] },
] as const
const UPLINKS = LINKS.filter(({ dev }) => dev !== 'pod0')

const FAMILIES = {
  IPv4: { frontend: '203.0.113.1', client: '203.0.113.7', egress: '10.0.2.1', here: '10.0.1.5', there: '10.0.2.5' },
  IPv6: {
    frontend: '2001:db8:f::1',
    client: '2001:db8:f::7',
    egress: '2001:db8:a2::1',
    here: '2001:db8:a1::5',
    there: '2001:db8:a2::5',
  },
} as const

/** Echoes TCP, and answers a datagram with the sender's address and the datagram. */
const SERVER = `
const net = require('net'), dgram = require('dgram')
net.createServer({ allowHalfOpen: true }, s => s.pipe(s)).listen(8080, '::', () => {
  const u = dgram.createSocket('udp6', (m, r) => u.send(Buffer.concat([Buffer.from(r.address + ' '), m]), r.port, r.address))
  u.bind(8080, '::', () => console.log('ready'))
})
process.stdin.resume().on('end', () => process.exit())`

/** Prints what came back: for TCP how many of the sent bytes, for UDP the answer. */
const CLIENT = `
const [proto, address, port, bytes] = process.argv.slice(1)
const sent = require('crypto').randomBytes(Number(bytes))
const finish = text => { console.log(text); process.exit() }
setTimeout(() => finish('timeout'), 20000)
if (proto === 'TCP') {
  const got = []
  const s = require('net').connect({ host: address, port: Number(port), allowHalfOpen: true }, () => s.end(sent))
  s.on('data', d => got.push(d)).on('end', () => finish(sent.equals(Buffer.concat(got)) ? 'equal' : 'different'))
  s.on('error', e => finish(e.code))
} else {
  const u = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
  u.on('message', (m, r) => {
    const at = m.indexOf(32)
    finish([m.subarray(0, at), r.address, m.subarray(at + 1).equals(sent) ? 'equal' : 'different'].join(' '))
  })
  u.on('error', e => finish(e.code)).connect(Number(port), address, () => u.send(sent))
}`

class World {
  readonly #prefix = `waggle-tcs-${process.pid}`
  readonly #dir = mkdtempSync(join(tmpdir(), 'waggle-tcs-'))
  readonly #native = loadNative()
  readonly #links: BpfLink[] = []
  readonly #servers: ChildProcess[] = []
  #object: BpfObject | undefined

  async start(): Promise<void> {
    execFileSync('gcc', ['-O1', '-o', this.#offload, join(import.meta.dirname, 'tc-offload.c')])
    for (const name of NAMES) execFileSync('ip', ['netns', 'add', this.#name(name)])
    const sysctls = ['net.ipv4.conf.all.forwarding=1', 'net.ipv6.conf.all.forwarding=1']
    execFileSync('nsenter', [...this.#enter('node'), 'sysctl', '-q', '-w', ...sysctls])
    for (const { dev, peer, near, far } of LINKS) {
      const ns = this.#name(peer)
      this.#ip('node', [
        `link add ${dev} type veth peer name eth0 netns ${ns}`,
        `link set ${dev} up`,
        ...near.map(addr => `addr add ${addr} dev ${dev} ${addr.includes(':') ? 'nodad' : ''}`),
      ])
      this.#ip(peer, [
        'link set lo up',
        'link set eth0 up',
        ...far.map(addr => `addr add ${addr} dev eth0 ${addr.includes(':') ? 'nodad' : ''}`),
        ...near.map(addr => `route add default via ${addr.replace(/\/.*/, '')}`),
      ])
    }
    // IPv6 then travels in packets above 64 KiB, with a hop-by-hop header that says how large (BIG TCP).
    for (const { dev, peer } of LINKS) {
      this.#ip('node', [`link set ${dev} gso_max_size 190000 gro_max_size 190000`])
      this.#ip(peer, ['link set eth0 gso_max_size 190000 gro_max_size 190000'])
    }
    for (const name of ['here', 'there', 'node'] as const) {
      const child = spawn('nsenter', [...this.#enter(name), process.execPath, '-e', SERVER], {
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      this.#servers.push(child)
      if (child.stdout) await once(child.stdout, 'data')
    }
  }

  /** Whether the node's devices leave checksums unfinished. */
  setOffload(state: 'on' | 'off'): void {
    const devices = LINKS.map(({ dev }) => dev)
    execFileSync(this.#offload, [`/run/netns/${this.#name('node')}`, state, ...devices])
  }

  get #offload(): string {
    return join(this.#dir, 'tc-offload')
  }

  /** Fresh maps and programs on both uplinks. */
  attach(how: 'tcx' | 'clsact'): void {
    const native = this.#native
    const object = native.openObject(join(import.meta.dirname, '../../build/bpf/tc.bpf.o'))
    this.#object = object
    object.load()
    const services = new TestServices(object)
    native.inNetns(`/run/netns/${this.#name('node')}`, () => {
      for (const { dev, near } of UPLINKS) {
        const ifindex = native.ifNameToIndex(dev)
        const [addr4 = '', addr6 = ''] = near.map(addr => addr.replace(/\/.*/, ''))
        services.setDevice(ifindex, addr4, addr6)
        for (const direction of ['ingress', 'egress'] as const) {
          const program = object.program(`waggle_${direction}`)
          if (how === 'tcx') this.#links.push(native.attachTcx(program, ifindex, direction, 'before'))
          else native.attachClsact(program, ifindex, direction, 1, 1)
        }
      }
    })
    for (const { frontend, here, there } of Object.values(FAMILIES)) {
      const at = (address: string, port: number) =>
        address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
      const backends = [
        { port: 30080, at: at(here, 8080), local: true },
        { port: 30081, at: at(there, 8080), local: false },
        // A pod in the host's network.
        { port: 30082, at: at(frontend, 8080), local: true },
      ]
      for (const proto of ['TCP', 'UDP'] as const) {
        for (const { port, ...backend } of backends) {
          services.add({ proto, frontends: [{ at: at(frontend, port), ownAddress: true }], backends: [backend] })
        }
      }
    }
  }

  detach(): void {
    for (const link of this.#links.splice(0)) link.close()
    for (const { dev } of UPLINKS) {
      // Takes the filters along; there is none after tcx.
      const tc = [...this.#enter('node'), 'tc', 'qdisc', 'show', 'dev', dev, 'clsact']
      if (execFileSync('nsenter', tc, { encoding: 'utf8' }).includes('clsact')) {
        execFileSync('nsenter', [...this.#enter('node'), 'tc', 'qdisc', 'del', 'dev', dev, 'clsact'])
      }
    }
    this.#object?.close()
    this.#object = undefined
  }

  async stop(): Promise<void> {
    this.detach()
    for (const child of this.#servers) {
      const gone = once(child, 'exit')
      child.stdin?.end()
      await gone
    }
    rmSync(this.#dir, { recursive: true })
    const left = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' }).split(/\s/)
    for (const name of NAMES.map(each => this.#name(each))) {
      if (left.includes(name)) execFileSync('ip', ['netns', 'del', name])
    }
  }

  async call(proto: 'TCP' | 'UDP', address: string, port: number, bytes: number): Promise<string> {
    const words = [
      ...this.#enter('client'),
      process.execPath,
      '-e',
      CLIENT,
      proto,
      address,
      String(port),
      String(bytes),
    ]
    const child = spawn('nsenter', words, { stdio: ['ignore', 'pipe', 'inherit'] })
    let text = ''
    child.stdout.on('data', chunk => {
      text += chunk
    })
    await once(child, 'close')
    return text.trim()
  }

  counted(hook: number, outcome: number): number {
    const map = this.#object?.map(maps.outcomes.name)
    const bytes = map?.lookup(toBytes(maps.outcomes.key, hook * Outcome.COUNT + outcome)) ?? new Uint8Array()
    let sum = 0n
    for (let at = 0; at < bytes.length; at += outcomeStats.size) sum += fromBytes(outcomeStats, bytes, at).packets
    return Number(sum)
  }

  /** Packets that some namespace refused for their checksum or header, since it was made. */
  checksumErrors(): number {
    const wanted = /^(Ip6?|Tcp|Udp6?)(InCsumErrors|InHdrErrors|InErrors|InErrs)$/
    return NAMES.map(name => this.#statistics(name))
      .flatMap(statistics => [...statistics])
      .filter(([counter]) => wanted.test(counter))
      .reduce((sum, [, value]) => sum + value, 0)
  }

  #statistics(name: (typeof NAMES)[number]): Map<string, number> {
    const read = (file: string) =>
      this.#native.inNetns(`/run/netns/${this.#name(name)}`, () =>
        readFileSync(`/proc/thread-self/net/${file}`, 'utf8'),
      )
    const rows = read('snmp').trim().split('\n')
    const counters = new Map<string, number>()
    for (let i = 0; i + 1 < rows.length; i += 2) {
      const [layer = '', ...names] = (rows[i] ?? '').split(' ')
      const values = (rows[i + 1] ?? '').split(' ').slice(1)
      for (const [n, counter] of names.entries()) counters.set(layer.replace(':', '') + counter, Number(values[n]))
    }
    for (const row of read('snmp6').trim().split('\n')) {
      const [counter = '', value] = row.split(/\s+/)
      counters.set(counter, Number(value))
    }
    return counters
  }

  #name(name: (typeof NAMES)[number]): string {
    return `${this.#prefix}-${name}`
  }

  #enter(name: (typeof NAMES)[number]): string[] {
    return [`--net=/run/netns/${this.#name(name)}`]
  }

  #ip(name: (typeof NAMES)[number], commands: readonly string[]): void {
    execFileSync('ip', ['-n', this.#name(name), '-batch', '-'], { input: commands.join('\n') })
  }
}

describe.skipIf(lacking)('real sockets', () => {
  const world = new World()

  beforeAll(() => world.start())
  afterAll(() => world.stop())

  const modes = (['tcx', 'clsact'] as const).flatMap(how => (['on', 'off'] as const).map(offload => ({ how, offload })))

  describe.each(modes)('$how offload=$offload', ({ how, offload }) => {
    // An older kernel has no tcx; clsact serves there.
    const [major = 0, minor = 0] = release().split('.').map(Number)
    const usable = how === 'clsact' || major > 6 || (major === 6 && minor >= 6)

    describe.skipIf(!usable)(usable ? 'attached' : 'missing: tcx (Linux 6.6)', () => {
      beforeAll(() => {
        world.setOffload(offload)
        world.attach(how)
      })
      afterAll(() => world.detach())

      describe.each(['IPv4', 'IPv6'] as const)('%s', family => {
        const { frontend, client, egress } = FAMILIES[family]

        test.each([
          { where: 'here', port: 30080, seen: client },
          { where: 'on another node', port: 30081, seen: egress },
          { where: "in the host's network", port: 30082, seen: client },
        ])(
          'a backend $where: 8 MB there and back, and datagrams up to six fragments (rows 12, 26, 27)',
          async ({ port, seen }) => {
            const errors = world.checksumErrors()
            expect(await world.call('TCP', frontend, port, 1 << 23)).toBe('equal')
            for (const bytes of [0, 1, 1399, 8000]) {
              const answer = await world.call('UDP', frontend, port, bytes)
              expect(answer.replace('::ffff:', '')).toBe(`${seen} ${frontend} equal`)
            }
            expect(world.checksumErrors()).toBe(errors)
          },
        )

        test('a port that is no frontend is the host: refused', async () => {
          expect(await world.call('TCP', frontend, 22, 1)).toBe('ECONNREFUSED')
        })
      })

      test('each packet took the way it should', () => {
        expect(world.counted(Hook.TC_INGRESS, Outcome.DELIVERED)).toBeGreaterThan(20)
        expect(world.counted(Hook.TC_INGRESS, Outcome.FORWARDED)).toBeGreaterThan(20)
        expect(world.counted(Hook.TC_INGRESS, Outcome.REPLIED)).toBeGreaterThan(20)
        expect(world.counted(Hook.TC_EGRESS, Outcome.REPLIED)).toBeGreaterThan(20)
        const failures = [
          Outcome.MALFORMED,
          Outcome.TOO_BIG,
          Outcome.NO_ROUTE,
          Outcome.REWRITE_FAILED,
          Outcome.UNKNOWN_FLOW,
        ]
        expect(failures.map(outcome => [outcomeNames[outcome], world.counted(Hook.TC_INGRESS, outcome)])).toEqual(
          failures.map(outcome => [outcomeNames[outcome], 0]),
        )
      })
    })
  })
})
