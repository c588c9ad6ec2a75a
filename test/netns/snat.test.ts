import { type ChildProcess, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inRoot } from '../../tools/labkit/root.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** Few ports, which are free again soon after a test is done with them. */
const FLAGS = [
  ...['--source-ports', '40000-40020', '--source-ports-last', 'none', '--flow-tcp-closed-timeout', '1s'],
  ...['--flow-udp-timeout', '4s', '--flow-udp-stream-timeout', '4s'],
]

const PLAN = {
  IPv4: { node: '192.168.0.11', backend: '10.244.2.11', pod: '10.244.1.11' },
  IPv6: { node: '2001:db8:192::11', backend: '2001:db8:244:2::11', pod: '2001:db8:244:1::11' },
} as const

/**
 * Asks an echo service again and again from one socket, one question a time, and writes the
 * source port that each answer names. An answer to somebody else's question counts, too. It
 * waits ten seconds for what is missing.
 */
const TALK = `
const [proto, address, port, host, hostPort, count] = process.argv.slice(1)
let left = Number(count), missing = left
const heard = text => { for (const [, p] of text.matchAll(/"peerPort":(\\d+)/g)) { console.log(p); missing-- } }
const isDone = () => --left < 0 && (missing <= 0 || left < -200)
const bind = port === '0' ? {} : { localAddress: address, localPort: Number(port) }
if (proto === 'TCP') {
  const s = require('net').connect({ host, port: Number(hostPort), ...bind })
  s.on('data', data => heard(data.toString())).on('error', e => console.log(e.code)).setNoDelay()
  const ask = () => isDone() ? (s.destroy(), clearInterval(timer)) : left >= 0 && s.write('GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: keep-alive\\r\\n\\r\\n')
  const timer = setInterval(ask, 50)
} else {
  const s = require('dgram').createSocket(host.includes(':') ? 'udp6' : 'udp4')
  s.on('message', data => heard(data.toString()))
  const ask = () => isDone() ? (s.close(), clearInterval(timer)) : left >= 0 && s.send('x')
  let timer
  s.bind(Number(port), address || undefined, () => s.connect(Number(hostPort), host, () => { timer = setInterval(ask, 50) }))
}
`

describe.skipIf(CANNOT_RUN)(titled('source ports that a flow and somebody else want'), () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'waggle-bound-'))
  const program = path.join(dir, 'bound')
  let lab: TestLab

  beforeAll(async () => {
    execFileSync('gcc', ['-O1', '-Wall', '-o', program, inRoot('test/netns/bound.c')])
    const ports = (['TCP', 'UDP'] as const).map(protocol => ({ name: protocol.toLowerCase(), protocol, port: 80 }))
    const objects = service({
      name: 'far',
      ip: 10,
      ports: ports.map((port, i) => ({ ...port, nodePort: 30080 + i })),
      pods: ['pod-b1'],
    })
    lab = await TestLab.up({ objects, agentFlags: FLAGS })
    // What the pod sends to node-b is masqueraded as the node's; conntrack keeps the port when it can.
    const masquerade = `table inet cni {
      chain post {
        type nat hook postrouting priority srcnat
        ip saddr ${PLAN.IPv4.pod} oifname "eth0" masquerade
        ip6 saddr ${PLAN.IPv6.pod} oifname "eth0" masquerade
      }
    }`
    expect(await lab.exec('node-a', ['nft', '-f', '-'], masquerade)).toMatchObject({ code: 0 })
    // Neither TIME_WAIT nor conntrack keeps a port for a minute.
    const states = ['tcp_timeout_fin_wait', 'tcp_timeout_close_wait', 'tcp_timeout_last_ack', 'tcp_timeout_time_wait']
    const timeouts = [...states, 'tcp_timeout_close', 'udp_timeout', 'udp_timeout_stream']
    const settings = ['net.ipv4.tcp_max_tw_buckets=0', ...timeouts.map(each => `net.netfilter.nf_conntrack_${each}=4`)]
    expect(await lab.exec('node-a', ['sysctl', '-qw', ...settings])).toMatchObject({ code: 0, err: '' })
  })
  afterAll(async () => {
    await lab?.down()
    rmSync(dir, { recursive: true })
  })

  function talk(host: string, ...args: readonly (string | number)[]) {
    const child = lab.lab.spawn(host, [process.execPath, '-e', TALK, ...args.map(String)], { stdio: 'pipe' })
    let out = ''
    child.stdout?.on('data', data => {
      out += data
    })
    const ended = once(child, 'close').then(() => out.split('\n').filter(Boolean))
    const first = once(child.stdout as NodeJS.ReadableStream, 'data').then(([data]) => String(data).split('\n')[0])
    return { first, ended }
  }

  test.each(
    (['IPv4', 'IPv6'] as const).flatMap(family =>
      (['TCP', 'UDP'] as const).flatMap(proto => (['node-a', 'pod-a1'] as const).map(who => ({ family, proto, who }))),
    ),
  )(
    '$family $proto: $who dials the backend from the port of a flow: each hears its own answers, all of them',
    async ({ family, proto, who }) => {
      const { node, backend, pod } = PLAN[family]
      const flow = talk('client', proto, '', 0, node, proto === 'TCP' ? 30080 : 30081, 40)
      const port = Number(await flow.first)
      const newcomer = await talk(who, proto, who === 'node-a' ? node : pod, port, backend, 8080, 10).ended
      expect(await flow.ended).toEqual(Array(40).fill(String(port)))
      expect(newcomer).toHaveLength(10)
      expect(new Set(newcomer).size).toBe(1)
      expect(Number(newcomer[0])).not.toBe(port)
      expect(Number(newcomer[0])).toBeGreaterThanOrEqual(40_000)
      expect(Number(newcomer[0])).toBeLessThanOrEqual(40_020)
      const outcomes = await lab.show('node-a', 'outcomes')
      expect(outcomes.find(each => each.hook === 'tc_egress' && each.outcome === 'port_moved')).toBeDefined()
    },
  )

  /** Sockets of node-a on all ports that flows may have, or on some, that connect when they are told to. */
  async function bound(proto: 'TCP' | 'UDP', address: string, first: number, last: number) {
    const words = [program, proto.toLowerCase(), address, String(first), String(last)]
    const child: ChildProcess = lab.lab.spawn('node-a', words, { stdio: ['pipe', 'pipe', 'inherit'] })
    const said = async () => {
      const line = once(child.stdout as NodeJS.ReadableStream, 'data').then(([data]) => String(data).trim())
      const ended = once(child, 'exit').then(() => Promise.reject(new Error(`bound ${words.join(' ')}: ended early`)))
      return Promise.race([line, ended])
    }
    expect(await said()).toBe('bound')
    return {
      tell(command: string): Promise<string> {
        child.stdin?.write(`${command}\n`)
        return said()
      },
      async end() {
        const gone = once(child, 'exit')
        child.kill()
        await gone
      },
    }
  }

  const [FIRST, LAST] = [40_000, 40_020]
  /** Milliseconds after which no port is a flow's of a test before. */
  const FORGOTTEN = 5000

  test.each(['IPv4', 'IPv6'] as const)(
    'row 35: %s: a TCP socket that was bound to a port before a flow got it is moved when it connects',
    async family => {
      const { node, backend } = PLAN[family]
      await sleep(FORGOTTEN)
      // The search asks who talks to the backend, not who is bound: any port may be a flow's.
      const sockets = await bound('TCP', node, FIRST, LAST)
      try {
        const flow = talk('client', 'TCP', '', 0, node, 30080, 40)
        const port = Number(await flow.first)
        expect(port).toBeGreaterThanOrEqual(FIRST)
        expect(await sockets.tell(`connect ${port} ${port} ${backend} 8080`)).toBe('connected 1')
        const heard = (await sockets.tell(`ask ${port} 10`)).split(' ').map(Number)
        expect(new Set(heard).size).toBe(1)
        expect(heard[0]).not.toBe(port)
        expect(heard[0]).toBeGreaterThanOrEqual(FIRST)
        expect(heard[0]).toBeLessThanOrEqual(LAST)
        // One whose port no flow has keeps it.
        const free = [FIRST, FIRST + 1, FIRST + 2].find(each => each !== port && each !== heard[0]) as number
        expect(await sockets.tell(`connect ${free} ${free} ${backend} 8080`)).toBe('connected 1')
        expect(await sockets.tell(`ask ${free} 1`)).toBe(String(free))
        expect(await flow.ended).toEqual(Array(40).fill(String(port)))
      } finally {
        await sockets.end()
      }
    },
  )

  test.each((['IPv4', 'IPv6'] as const).flatMap(family => (['TCP', 'UDP'] as const).map(proto => ({ family, proto }))))(
    "row 35: $family $proto: the node's own sockets have all ports to the backend but one: a flow gets that, the next is dropped and counted",
    async ({ family, proto }) => {
      const { node, backend } = PLAN[family]
      const left = LAST - 7
      await sleep(FORGOTTEN)
      const own = [await bound(proto, node, FIRST, left - 1), await bound(proto, node, left + 1, LAST)]
      const dropped = async () => {
        const rows = await lab.show('node-a', 'outcomes')
        return rows.find(each => each.hook === 'tc_ingress' && each.outcome === 'snat_exhausted')?.packets ?? 0
      }
      try {
        // A bound UDP socket may talk to anyone; a TCP socket has to be connected to count.
        if (proto === 'TCP') {
          expect(await own[0]?.tell(`connect ${FIRST} ${left - 1} ${backend} 8080`)).toBe(`connected ${left - FIRST}`)
          expect(await own[1]?.tell(`connect ${left + 1} ${LAST} ${backend} 8080`)).toBe(`connected ${LAST - left}`)
        }
        const nodePort = proto === 'TCP' ? 30080 : 30081
        const before = await dropped()
        const flow = talk('client', proto, '', 0, node, nodePort, 300)
        expect(await flow.first).toBe(String(left))
        expect(await dropped()).toBe(before)
        const target = family === 'IPv4' ? `${node}:${nodePort}` : `[${node}]:${nodePort}`
        const next = await lab.load('client', target, { count: 1, timeout: 500, mode: proto === 'TCP' ? 'tcp' : 'udp' })
        expect(next).toMatchObject({ ok: 0, failed: 1 })
        expect(await dropped()).toBeGreaterThan(Number(before))
        expect(new Set(await flow.ended)).toEqual(new Set([String(left)]))
      } finally {
        for (const sockets of own) await sockets.end()
      }
    },
  )
})
