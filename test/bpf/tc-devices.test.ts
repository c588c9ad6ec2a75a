import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fromBytes, toBytes } from '../../src/ebpf/codec.js'
import { Hook, maps, Outcome, outcomeStats } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfObject } from '../../src/ebpf/native.js'
import { split } from './fragments.js'
import { ETH_LENGTH, udp } from './packet.js'
import { decode } from './packet-decode.js'
import { TestServices } from './services.js'
import { missing } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/**
 * Frames made by hand, on real devices, to real sockets:
 *
 *   client 203.0.113.7 ── up0 node up1 ── pod on another node 10.0.2.5
 *   198.18.0.x ── tun0 ──┘    pod0 ── pod here 10.0.1.5
 */
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
const NAMES = ['client', 'node', 'here', 'there'] as const
const TUN = ['198.18.0.1', '2001:db8:18::1'] as const
const NODE_MAC = '02:00:00:00:00:01'

const FAMILIES = {
  IPv4: {
    client: '203.0.113.7',
    node: '203.0.113.1',
    vip: '172.30.0.1',
    here: '10.0.1.5',
    there: '10.0.2.5',
    tun: '198.18.0.1',
    behind: '198.18.0.7',
  },
  IPv6: {
    client: '[2001:db8:f::7]',
    node: '[2001:db8:f::1]',
    vip: '[2001:db8:30::1]',
    here: '[2001:db8:a1::5]',
    there: '[2001:db8:a2::5]',
    tun: '[2001:db8:18::1]',
    behind: '[2001:db8:18::7]',
  },
} as const

/** Answers a datagram with the sum of its bytes and its length. */
const SERVER = `
const u = require('dgram').createSocket('udp6')
u.on('message', (m, r) => u.send(m.length + ' ' + m.reduce((a, b) => a + b, 0), r.port, r.address))
u.bind(8080, '::', () => console.log('ready'))
process.stdin.resume().on('end', () => process.exit())`

/** Prints each datagram that comes to port 40000, and from where. */
const CLIENT = SERVER.replace(
  /u\.on\(.*\n/,
  "u.on('message', (m, r) => console.log(r.address + ' ' + r.port + ' ' + m))\n",
).replace('8080', '40000')

/** A process that speaks in lines; lines that nobody waited for are kept. */
class Speaker {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #lines: string[] = []

  constructor(command: string, args: readonly string[]) {
    this.#child = spawn(command, args, { stdio: 'pipe' })
    createInterface(this.#child.stdout).on('line', line => this.#lines.push(line))
    this.#child.stderr.pipe(process.stderr)
  }

  say(line: string): void {
    this.#child.stdin.write(`${line}\n`)
  }

  /** The first line that passes, now or within five seconds. */
  async hear(accept: (line: string) => boolean = () => true): Promise<string> {
    const until = Date.now() + 5000
    for (;;) {
      const found = this.#lines.findIndex(accept)
      if (found >= 0) return this.#lines.splice(found, 1)[0] ?? ''
      if (Date.now() > until) throw new Error(`not heard; but ${JSON.stringify(this.#lines)}`)
      await setTimeout(5)
    }
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.stdin.end()
    await gone
  }
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const PAYLOAD = Uint8Array.from({ length: 8000 }, (_, i) => (i * 7) & 0xff)
const ANSWER = `8000 ${PAYLOAD.reduce((sum, byte) => sum + byte, 0)}`

describe.skipIf(lacking)('frames by hand', () => {
  const prefix = `waggle-tcd-${process.pid}`
  const dir = mkdtempSync(join(tmpdir(), 'waggle-tcd-'))
  const frames = join(dir, 'tc-frames')
  const native = loadNative()
  const speakers: Speaker[] = []
  let object: BpfObject
  let client: Speaker
  let tun: Speaker
  let id = 0x100

  const netns = (name: (typeof NAMES)[number]) => `/run/netns/${prefix}-${name}`
  const ip = (name: (typeof NAMES)[number], lines: readonly string[]) =>
    execFileSync('ip', ['-n', `${prefix}-${name}`, '-batch', '-'], { input: lines.join('\n') })
  const nodad = (addr: string) => (addr.includes(':') ? 'nodad' : '')

  const ethtool = (name: (typeof NAMES)[number], dev: string, ...features: string[]) =>
    execFileSync('nsenter', [`--net=${netns(name)}`, 'ethtool', '-K', dev, ...features])

  async function start(command: string, args: readonly string[]): Promise<Speaker> {
    const speaker = new Speaker(command, args)
    speakers.push(speaker)
    await speaker.hear(line => line === 'ready')
    return speaker
  }

  /** Sends frames from the client's device in this order. */
  function send(list: readonly Uint8Array[]): void {
    execFileSync(frames, [netns('client'), 'send', 'eth0'], { input: list.map(frame => `${hex(frame)}\n`).join('') })
  }

  function counted(outcome: number, hook: number = Hook.TC_INGRESS): number {
    const bytes = object.map(maps.outcomes.name).lookup(toBytes(maps.outcomes.key, hook * Outcome.COUNT + outcome))
    let sum = 0n
    for (let at = 0; at < (bytes?.length ?? 0); at += outcomeStats.size) {
      sum += fromBytes(outcomeStats, bytes ?? new Uint8Array(), at).packets
    }
    return Number(sum)
  }

  beforeAll(async () => {
    for (const program of ['tc-frames', 'tc-gso']) {
      execFileSync('gcc', ['-O1', '-o', join(dir, program), join(import.meta.dirname, `${program}.c`)])
    }
    for (const name of NAMES) execFileSync('ip', ['netns', 'add', `${prefix}-${name}`])
    const sysctls = ['net.ipv4.conf.all.forwarding=1', 'net.ipv6.conf.all.forwarding=1']
    execFileSync('nsenter', [`--net=${netns('node')}`, 'sysctl', '-q', '-w', ...sysctls])
    for (const { dev, peer, near, far } of LINKS) {
      const mac = dev === 'up0' ? `address ${NODE_MAC}` : ''
      ip('node', [
        `link add ${dev} ${mac} type veth peer name eth0 netns ${prefix}-${peer}`,
        `link set ${dev} up`,
        ...near.map(addr => `addr add ${addr} dev ${dev} ${nodad(addr)}`),
      ])
      ip(peer, [
        'link set lo up',
        'link set eth0 up',
        ...far.map(addr => `addr add ${addr} dev eth0 ${nodad(addr)}`),
        ...near.map(addr => `route add default via ${addr.replace(/\/.*/, '')}`),
      ])
    }
    tun = await start(frames, [netns('node'), 'tun', 'tun0'])
    ip('node', ['link set tun0 up', `addr add ${TUN[0]}/24 dev tun0`, `addr add ${TUN[1]}/64 dev tun0 nodad`])
    for (const name of ['here', 'there'] as const) {
      await start('nsenter', [`--net=${netns(name)}`, process.execPath, '-e', SERVER])
    }
    client = await start('nsenter', [`--net=${netns('client')}`, process.execPath, '-e', CLIENT])

    object = native.openObject(join(import.meta.dirname, '../../build/bpf/tc.bpf.o'))
    object.load()
    const services = new TestServices(object)
    native.inNetns(netns('node'), () => {
      for (const { dev, near } of LINKS.filter(link => link.dev !== 'pod0')) {
        const ifindex = native.ifNameToIndex(dev)
        services.setDevice(ifindex, near[0].replace(/\/.*/, ''), near[1].replace(/\/.*/, ''))
        native.attachClsact(object.program('waggle_ingress'), ifindex, 'ingress', 1, 1)
        native.attachClsact(object.program('waggle_egress'), ifindex, 'egress', 1, 1)
      }
      const ifindex = native.ifNameToIndex('tun0')
      services.setDevice(ifindex, TUN[0], TUN[1])
      native.attachClsact(object.program('waggle_in_l3'), ifindex, 'ingress', 1, 1)
      native.attachClsact(object.program('waggle_out_l3'), ifindex, 'egress', 1, 1)
    })
    for (const { node, vip, here, there, tun: own, behind } of Object.values(FAMILIES)) {
      const add = (at: string, backend: string, local: boolean, ownAddress = false) =>
        services.add({ proto: 'UDP', frontends: [{ at, ownAddress }], backends: [{ at: `${backend}:8080`, local }] })
      add(`${vip}:1`, here, true)
      add(`${vip}:2`, there, false)
      add(`${node}:30001`, here, true, true)
      add(`${node}:30002`, there, false, true)
      add(`${node}:30003`, behind, false, true)
      add(`${own}:30001`, here, true, true)
      add(`${own}:30002`, there, false, true)
    }
  }, 60_000)

  afterAll(async () => {
    for (const speaker of speakers) await speaker.stop()
    object?.close()
    const left = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' }).split(/\s/)
    for (const name of NAMES) {
      if (left.includes(`${prefix}-${name}`)) execFileSync('ip', ['netns', 'del', `${prefix}-${name}`])
    }
    rmSync(dir, { recursive: true })
  })

  describe.each(['IPv4', 'IPv6'] as const)('%s', family => {
    const at = FAMILIES[family]
    const bare = (address: string) => address.replace(/[[\]]/g, '')

    const orders = [
      { name: 'in order', order: [0, 1, 2, 3, 4, 5] },
      { name: 'reversed', order: [5, 4, 3, 2, 1, 0] },
      { name: 'shuffled', order: [3, 0, 5, 1, 4, 2] },
      { name: 'the first one last, another twice', order: [2, 2, 1, 3, 4, 5, 0] },
    ]
    const targets = [
      { to: `${at.vip}:1`, where: 'a Service address, backend here' },
      { to: `${at.vip}:2`, where: 'a Service address, backend elsewhere' },
      { to: `${at.node}:30001`, where: 'a node port, backend here' },
      { to: `${at.node}:30002`, where: 'a node port, backend elsewhere' },
    ]
    test.each(orders.flatMap(each => targets.map(target => ({ ...each, ...target }))))(
      'row 13: six fragments $name reach $where whole',
      async ({ order, to }) => {
        const datagram = udp(`${at.client}:40000`, to, { payload: PAYLOAD, dstMac: NODE_MAC })
        const parts = split(datagram, 1448, id++)
        const released = counted(Outcome.FRAGMENT_RELEASED)
        send(order.map(i => parts[i] ?? datagram))
        const port = to.slice(to.lastIndexOf(':') + 1)
        expect(await client.hear(line => line.endsWith(ANSWER))).toMatch(new RegExp(` ${port} ${ANSWER}$`))
        expect(counted(Outcome.FRAGMENT_RELEASED) - released).toBe(order[0] === 0 ? 0 : 1)
      },
    )

    test.each([
      { where: 'here', port: 30001 },
      { where: 'on another node', port: 30002 },
    ])('row 30: from a device without Ethernet header to a backend $where, and back', async ({ port }) => {
      const payload = new TextEncoder().encode('tun')
      const packet = udp(`${at.behind}:40000`, `${at.tun}:${port}`, { payload }).subarray(ETH_LENGTH)
      tun.say(hex(packet))
      const version = family === 'IPv4' ? '4' : '6'
      const heard = await tun.hear(
        line => line.startsWith(version) && line.endsWith(hex(new TextEncoder().encode('3 343'))),
      )
      const answer = Uint8Array.from([...ethernet(family), ...Buffer.from(heard, 'hex')])
      expect(decode(answer)).toMatchObject({
        from: `${at.tun}:${port}`,
        to: `${at.behind}:40000`,
        checksums: { transport: 'ok' },
      })
    })

    test('row 30: to a backend behind a device without Ethernet header, and back', async () => {
      const payload = new TextEncoder().encode('in')
      send([udp(`${at.client}:40000`, `${at.node}:30003`, { payload, dstMac: NODE_MAC })])
      const heard = await tun.hear(line => line.endsWith(hex(payload)))
      const request = decode(Uint8Array.from([...ethernet(family), ...Buffer.from(heard, 'hex')]))
      expect(request).toMatchObject({ to: `${at.behind}:8080`, checksums: { transport: 'ok' } })
      expect(request.from.startsWith(`${at.tun}:`)).toBe(true)
      const back = udp(request.to, request.from, { payload: new TextEncoder().encode('back') })
      tun.say(hex(back.subarray(ETH_LENGTH)))
      expect(await client.hear(line => line.endsWith(' back'))).toBe(
        `${family === 'IPv4' ? '::ffff:' : ''}${bare(at.node)} 30003 back`,
      )
    })

    test.each([
      { where: 'here', port: 30001, outcome: Outcome.DELIVERED },
      { where: 'on another node', port: 30002, outcome: Outcome.FORWARDED },
    ])('row 27: 40 datagrams in one packet (UDP GSO) to a backend $where, each answered', ({ port, outcome }) => {
      const before = counted(outcome)
      const args = [netns('client'), bare(at.node), String(port), '1000', '40']
      expect(execFileSync(join(dir, 'tc-gso'), args, { encoding: 'utf8' }).trim()).toBe('40')
      expect(counted(outcome) - before).toBe(1)
    })

    const tagged = (tags: readonly number[], to: string) => {
      const frame = udp(`${at.client}:40000`, to, { payload: new TextEncoder().encode('vlan'), dstMac: NODE_MAC })
      return Uint8Array.from([...frame.subarray(0, 12), ...tags, ...frame.subarray(12)])
    }

    test.each([
      { where: 'here', port: 30001 },
      { where: 'on another node', port: 30002 },
    ])('row 29: a priority tag is no VLAN: served by a backend $where', async ({ port }) => {
      send([tagged([0x81, 0x00, 0x60, 0x00], `${at.node}:${port}`)])
      expect(await client.hear(line => line.endsWith(`${port} 4 433`))).toContain(bare(at.node))
    })

    test.each([
      { name: 'one tag', tags: [0x81, 0x00, 0x00, 0x05] },
      { name: 'two tags', tags: [0x88, 0xa8, 0x00, 0x05, 0x81, 0x00, 0x00, 0x06] },
      { name: 'a tag within a priority tag', tags: [0x81, 0x00, 0x60, 0x00, 0x81, 0x00, 0x00, 0x06] },
    ])('row 29: $name: left to the VLAN device', async ({ tags }) => {
      const before = counted(Outcome.NOT_HANDLED)
      const others = counted(Outcome.DELIVERED) + counted(Outcome.FORWARDED)
      send([tagged(tags, `${at.node}:30001`)])
      await expect.poll(() => counted(Outcome.NOT_HANDLED)).toBeGreaterThan(before)
      expect(counted(Outcome.DELIVERED) + counted(Outcome.FORWARDED)).toBe(others)
    })
  })

  describe('datagrams that arrive one by one and become a list (GRO)', () => {
    // The sender's device cuts what is sent in one call, and ours puts it together again.
    beforeAll(() => {
      ethtool('client', 'eth0', 'tx-udp-segmentation', 'off')
      ethtool('node', 'up0', 'gro', 'on', 'rx-gro-list', 'on')
    })
    afterAll(() => {
      ethtool('node', 'up0', 'rx-gro-list', 'off', 'gro', 'off')
      ethtool('client', 'eth0', 'tx-udp-segmentation', 'on')
    })

    const cases = (['IPv4', 'IPv6'] as const).flatMap(family => [
      { family, where: 'here', port: 30001, outcome: Outcome.DELIVERED },
      { family, where: 'on another node', port: 30002, outcome: Outcome.FORWARDED },
    ])
    test.each(cases)('row 27: 40 datagrams by $family for a backend $where, each answered', async each => {
      const { family, port, outcome } = each
      const address = FAMILIES[family].node.replace(/[[\]]/g, '')
      const args = [netns('client'), address, String(port), '1000', '40']
      const answers = () => execFileSync(join(dir, 'tc-gso'), args, { encoding: 'utf8' }).trim()
      // The device has just changed: its neighbours may have to be asked for again.
      for (let tries = 0; tries < 5 && answers() !== '40'; tries++) await setTimeout(100)
      const before = counted(outcome)
      expect(answers()).toBe('40')
      const packets = counted(outcome) - before
      expect(packets).toBeGreaterThan(0)
      expect(packets).toBeLessThan(10)
    })
  })
})

/** An Ethernet header for a packet that has none, so that it can be decoded. */
function ethernet(family: 'IPv4' | 'IPv6'): Uint8Array {
  const header = new Uint8Array(ETH_LENGTH)
  header.set(family === 'IPv4' ? [0x08, 0x00] : [0x86, 0xdd], 12)
  return header
}
