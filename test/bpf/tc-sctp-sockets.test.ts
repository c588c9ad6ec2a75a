import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfLink, BpfObject } from '../../src/ebpf/native.js'
import { TestServices } from './services.js'
import { missing } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/**
 * SCTP between namespaces: associations of the kernel where it has SCTP (the stock kernels do, as
 * a module), whose packets come in several pieces and with checksums left to the device; else
 * packets of raw sockets.
 *
 *   client 203.0.113.7 ── up0 node up1 ── pod on another node 10.0.2.5
 *                              pod0 ── pod here 10.0.1.5
 */
const NAMES = ['client', 'node', 'here', 'there'] as const
const LINKS = [
  {
    dev: 'up0',
    peer: 'client',
    near: ['203.0.113.1', '2001:db8:f::1'],
    far: ['203.0.113.7', '2001:db8:f::7'],
  },
  { dev: 'up1', peer: 'there', near: ['10.0.2.1', '2001:db8:a2::1'], far: ['10.0.2.5', '2001:db8:a2::5'] },
  { dev: 'pod0', peer: 'here', near: ['10.0.1.1', '2001:db8:a1::1'], far: ['10.0.1.5', '2001:db8:a1::5'] },
] as const
const FAMILIES = ['IPv4', 'IPv6'] as const
/** Ports of a Service and of its backends: alike, or not. */
const SAME = 38412
const OTHER = 7000
/** Of a Service without endpoints. */
const NOBODY = 9999

class World {
  readonly #prefix = `waggle-sctp-${process.pid}`
  readonly #dir = mkdtempSync(join(tmpdir(), 'waggle-sctp-'))
  readonly #native = loadNative()
  readonly #links: BpfLink[] = []
  readonly #servers: ChildProcess[] = []
  #object: BpfObject | undefined
  #sport = 40000
  kind: 'kernel' | 'raw' = 'raw'

  async start(): Promise<void> {
    this.kind = hasSctp() ? 'kernel' : 'raw'
    for (const name of ['tc-sctp', 'tc-offload']) {
      execFileSync('gcc', ['-O1', '-o', join(this.#dir, name), join(import.meta.dirname, `${name}.c`)])
    }
    for (const name of NAMES) execFileSync('ip', ['netns', 'add', this.#name(name)])
    const sysctls = ['net.ipv4.conf.all.forwarding=1', 'net.ipv6.conf.all.forwarding=1']
    execFileSync('nsenter', [`--net=${this.#path('node')}`, 'sysctl', '-q', '-w', ...sysctls])
    for (const { dev, peer, near, far } of LINKS) {
      this.#ip('node', [
        `link add ${dev} type veth peer name eth0 netns ${this.#name(peer)}`,
        `link set ${dev} up`,
        ...near.map(addr => addAddress(addr, dev)),
      ])
      this.#ip(peer, [
        'link set lo up',
        'link set eth0 up',
        ...far.map(addr => addAddress(addr, 'eth0')),
        ...near.map(addr => `route add default via ${addr}`),
      ])
    }
    this.#attach()
    for (const { peer, far } of LINKS) {
      if (peer !== 'client') for (const address of far) await this.#serve(peer, address)
    }
  }

  /** Whether senders and the node's devices leave checksums to who gets the packets. */
  setOffload(state: 'on' | 'off', where: 'client' | 'node'): void {
    const devices = where === 'node' ? LINKS.map(({ dev }) => dev) : ['eth0']
    execFileSync(join(this.#dir, 'tc-offload'), [this.#path(where), state, ...devices])
  }

  /** What the backend saw, and whether all came back. */
  async call(
    address: string,
    port: number,
    source: string,
    bytes: number,
    kind = this.kind,
  ): Promise<{ said: string; sport: number }> {
    const sport = ++this.#sport
    const words = [kind, this.#path('client'), 'call', address, port, source, sport, bytes].map(String)
    const child = spawn(join(this.#dir, 'tc-sctp'), words, { stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', chunk => {
        said += chunk
      })
    }
    await once(child, 'close')
    return { said: said.trim(), sport }
  }

  /** Packets that some namespace refused for their checksum, since it was made. */
  checksumErrors(): number {
    if (this.kind === 'raw') return 0
    return NAMES.reduce((sum, name) => {
      const snmp = execFileSync('nsenter', [`--net=${this.#path(name)}`, 'cat', '/proc/net/sctp/snmp'], {
        encoding: 'utf8',
      })
      return sum + Number(/SctpChecksumErrors\s+(\d+)/.exec(snmp)?.[1] ?? Number.NaN)
    }, 0)
  }

  async stop(): Promise<void> {
    for (const link of this.#links.splice(0)) link.close()
    this.#object?.close()
    for (const child of this.#servers) {
      const gone = once(child, 'exit')
      child.kill()
      await gone
    }
    rmSync(this.#dir, { recursive: true })
    const left = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' }).split(/\s/)
    for (const name of NAMES.map(each => this.#name(each))) {
      if (left.includes(name)) execFileSync('ip', ['netns', 'del', name])
    }
  }

  #attach(): void {
    const native = this.#native
    const object = native.openObject(join(import.meta.dirname, '../../build/bpf/tc.bpf.o'))
    this.#object = object
    object.load()
    const services = new TestServices(object)
    native.inNetns(this.#path('node'), () => {
      for (const { dev, near } of LINKS.filter(each => each.dev !== 'pod0')) {
        const ifindex = native.ifNameToIndex(dev)
        services.setDevice(ifindex, near[0], near[1])
        // clsact is there on every kernel.
        for (const side of ['ingress', 'egress'] as const) {
          native.attachClsact(object.program(`waggle_${side}`), ifindex, side, 1, 1)
        }
      }
    })
    FAMILIES.forEach((_, family) => {
      const at = (address: string | undefined, port: number) =>
        address?.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
      const frontend = LINKS[0].near[family]
      services.add({ proto: 'SCTP', frontends: [{ at: at(frontend, NOBODY), ownAddress: true }], backends: [] })
      for (const port of [SAME, OTHER]) {
        for (const [i, { peer, far }] of LINKS.entries()) {
          if (peer === 'client') continue
          const frontends = [{ at: at(frontend, port + i), ownAddress: true }]
          const own = port === SAME ? port + i : SAME + i
          services.add({ proto: 'SCTP', frontends, backends: [{ at: at(far[family], own), local: peer === 'here' }] })
        }
      }
    })
  }

  async #serve(peer: 'here' | 'there', address: string): Promise<void> {
    const port = SAME + LINKS.findIndex(each => each.peer === peer)
    const words = [this.kind, this.#path(peer), 'serve', address, String(port)]
    const child = spawn(join(this.#dir, 'tc-sctp'), words, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#servers.push(child)
    await once(child.stdout, 'data')
  }

  #ip(name: (typeof NAMES)[number], lines: readonly string[]): void {
    execFileSync('ip', ['-n', this.#name(name), '-batch', '-'], { input: lines.join('\n') })
  }

  #name(name: string): string {
    return `${this.#prefix}-${name}`
  }

  #path(name: (typeof NAMES)[number]): string {
    return `/run/netns/${this.#name(name)}`
  }
}

function addAddress(address: string, dev: string): string {
  return address.includes(':') ? `addr add ${address}/64 dev ${dev} nodad` : `addr add ${address}/24 dev ${dev}`
}

/** Loads the kernel's SCTP where it is a module. */
function hasSctp(): boolean {
  if (!existsSync('/proc/net/sctp')) spawnSync('modprobe', ['-q', 'sctp'])
  return existsSync('/proc/net/sctp')
}

describe.skipIf(lacking)('SCTP between namespaces', () => {
  const world = new World()

  beforeAll(async () => {
    await world.start()
    console.log(`SCTP ${world.kind === 'kernel' ? 'of the kernel' : 'made here: the kernel has none'}`)
  }, 240_000)
  afterAll(() => world.stop())

  describe.each([
    { client: 'on', node: 'on' },
    { client: 'on', node: 'off' },
    { client: 'off', node: 'off' },
  ] as const)('checksums left to the device: client $client, node $node', offload => {
    beforeAll(() => {
      world.setOffload(offload.client, 'client')
      world.setOffload(offload.node, 'node')
    })

    test.each(
      FAMILIES.flatMap((family, i) =>
        (['there', 'here'] as const).flatMap(where => [SAME, OTHER].map(port => ({ family, i, where, port }))),
      ),
    )('rows 26, 32 and 33: $family, backend $where, port $port', async ({ i, where, port }) => {
      const link = LINKS.findIndex(each => each.peer === where)
      const [client, frontend] = [LINKS[0].far[i] ?? '', LINKS[0].near[i] ?? '']
      const { said, sport } = await world.call(frontend, port + link, client, 300_000)
      const seen = where === 'here' ? client : LINKS[link]?.near[i]
      expect(said).toBe(`${seen} ${sport} equal`)
      expect(world.checksumErrors()).toBe(0)
    })

    // By a raw socket: the connect of the kernel's SCTP does not listen to ICMP (6.1).
    test.each(FAMILIES)('row 40: %s, a Service without endpoints refuses at once', async family => {
      const i = FAMILIES.indexOf(family)
      const { said } = await world.call(LINKS[0].near[i] ?? '', NOBODY, LINKS[0].far[i] ?? '', 0, 'raw')
      expect(said).toMatch(/Connection refused$/)
    })
  })
})
