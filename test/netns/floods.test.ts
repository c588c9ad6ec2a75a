import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { killAgent, startAgent } from '../../tools/labkit/agent.js'
import { inRoot } from '../../tools/labkit/root.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** More flows than the table holds: what is open stays, what is new gets through, agent or not. */

/**
 * Small: the flood opens as many flows as it holds in a second and a half. What is not yet
 * confirmed makes room in no strict order, so a flow that waits for its answer while an eighth
 * of the table is opened (170 ms) may have to go: nearly none waits that long.
 */
const MAX_FLOWS = 2048
const KEPT = 200
const FLOOD = 12 * MAX_FLOWS
const FLOOD_A_SECOND = 1500
/** Connections that are opened with nobody there to collect ended flows. */
const UNATTENDED = 12 * MAX_FLOWS

const backends = ['pod-a1', 'pod-b1']
const OBJECTS = [
  ...service({
    name: 'web',
    ip: 10,
    ports: [
      { name: 'tcp', port: 80, nodePort: 30080 },
      { name: 'udp', protocol: 'UDP', port: 80, nodePort: 30080 },
    ],
    pods: backends,
  }),
  // Its backends do not listen: a flood is aimed at the node, not at an echo service.
  ...service({
    name: 'sink',
    ip: 11,
    ports: [
      { name: 'tcp', port: 80, nodePort: 30081, targetPort: 9 },
      { name: 'udp', protocol: 'UDP', port: 80, nodePort: 30081, targetPort: 9 },
    ],
    pods: backends,
  }),
]
const NODE = { IPv4: '192.168.0.11', IPv6: '2001:db8:192::11' } as const
const FAMILIES = ['IPv4', 'IPv6'] as const
type Family = (typeof FAMILIES)[number]
const at = (family: Family, port: number) => (family === 'IPv4' ? `${NODE.IPv4}:${port}` : `[${NODE.IPv6}]:${port}`)

/**
 * Opens connections or exchanges, two requests in each, and says "open"; at each line of
 * input asks on all of them once more and prints how many are answered by whom they were before.
 */
const KEEPER = `
const [proto, address, port, count] = process.argv.slice(1)
const all = []
const later = ms => new Promise(done => setTimeout(done, ms))
function open() {
  let waiting, name, text = ''
  const heard = data => {
    text += data
    const found = /"name":"([^"]+)"/.exec(text)
    if (!found || !text.endsWith('\\n')) return
    text = ''
    const same = name === undefined || name === found[1]
    name = found[1]
    waiting?.(same)
  }
  let send
  if (proto === 'udp') {
    const u = require('dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
    u.on('message', heard).on('error', () => waiting?.(false))
    u.connect(Number(port), address)
    send = () => u.send('x')
  } else {
    const s = require('net').connect({ host: address, port: Number(port) })
    s.on('data', heard).on('error', () => waiting?.(false)).on('close', () => waiting?.(false))
    send = () => s.write('GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: keep-alive\\r\\n\\r\\n')
  }
  return () => Promise.race([new Promise(done => { waiting = done; send() }), later(10000).then(() => false)])
}
async function askAll() {
  let right = 0
  for (const ask of all) if (await ask()) right++
  return right
}
;(async () => {
  for (let i = 0; i < Number(count); i++) {
    const ask = open()
    await later(2)
    all.push(ask)
  }
  await askAll()
  console.log('open', await askAll())
  for await (const line of require('readline').createInterface({ input: process.stdin })) console.log(line, await askAll())
  process.exit()
})()`

describe.skipIf(CANNOT_RUN)(titled('more flows than the table holds'), () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'waggle-flood-'))
  const flood = path.join(dir, 'flood')
  let lab: TestLab

  beforeAll(async () => {
    execFileSync('gcc', ['-O1', '-Wall', '-o', flood, inRoot('test/netns/flood.c')])
    lab = await TestLab.up({ objects: OBJECTS, agentFlags: ['--max-flows', String(MAX_FLOWS)] })
    // Answers to forged sources go back to where these came from.
    for (const route of ['198.18.0.0/15 via 203.0.113.10', '2001:db8:bad::/64 via 2001:db8:203::10']) {
      expect(await lab.exec('router', ['ip', 'route', 'add', ...route.split(' ')])).toMatchObject({ code: 0 })
    }
  })
  afterAll(async () => {
    await lab?.down()
    rmSync(dir, { recursive: true })
  })

  /** Flows of the client that are open: it asks on each of them, `again` as often as it likes. */
  async function keep(proto: 'tcp' | 'udp', family: Family) {
    const words = [process.execPath, '-e', KEEPER, proto, NODE[family], '30080', String(KEPT)]
    const child = lab.lab.spawn('client', words, { stdio: ['pipe', 'pipe', 'inherit'] })
    const said = async () => String((await once(child.stdout as NodeJS.ReadableStream, 'data'))[0]).trim()
    expect(await said()).toBe(`open ${KEPT}`)
    return {
      again: async () => {
        child.stdin?.write('still\n')
        return said()
      },
      end: async () => {
        const gone = once(child, 'exit')
        child.stdin?.end()
        await gone
      },
    }
  }

  describe.each(FAMILIES)('%s', family => {
    test.each(['tcp', 'udp'] as const)(
      'rows 43 and 44: a flood of %s from forged sources, twelve times the table, beside open flows and new clients',
      { timeout: 120_000 },
      async proto => {
        const kept = await keep(proto, family)
        const target = at(family, 30080)
        const legit = lab.startLoad('client', target, { mode: proto, concurrency: 2, interval: 2, timeout: 8000 })
        await legit.answered
        const words = [flood, proto, NODE[family], '30081', String(FLOOD), String(FLOOD_A_SECOND)]
        const { out, err } = await lab.exec('client', words)
        expect({ sent: Number(out), err }).toEqual({ sent: FLOOD, err: '' })
        const { attempts, ok, errors, backends: answered } = await legit.stop()
        expect(Object.keys(answered)).toEqual(backends)
        expect(attempts).toBeGreaterThan(50)
        expect(ok / attempts, JSON.stringify(errors)).toBeGreaterThanOrEqual(0.999)
        expect(await kept.again()).toBe(`still ${KEPT}`)
        await kept.end()
      },
    )

    test('rows 4 and 45: connections from 64 ports of one client, as fast as they go', {
      timeout: 120_000,
    }, async () => {
      const range = (ports: string) => ['sysctl', '-qw', `net.ipv4.ip_local_port_range=${ports}`]
      expect(await lab.exec('client', range('40000 40063'))).toMatchObject({ code: 0 })
      const {
        ok,
        errors,
        backends: answered,
      } = await lab.load('client', at(family, 30080), {
        count: 3000,
        concurrency: 8,
        timeout: 8000,
      })
      await lab.exec('client', range('32768 60999'))
      expect({ ok, errors }).toEqual({ ok: 3000, errors: {} })
      expect(Object.keys(answered)).toEqual(backends)
    })
  })

  test('without an agent twelve times as many connections as the table holds get through', {
    timeout: 240_000,
  }, async () => {
    await killAgent(lab.lab, 'node-a')
    try {
      const flags = { count: UNATTENDED, concurrency: 8, timeout: 8000 }
      const loads = [
        await lab.load('client', at('IPv4', 30080), flags),
        await lab.load('client', at('IPv6', 30080), { ...flags, mode: 'udp' }),
      ]
      for (const { ok, errors } of loads) expect({ ok, errors }).toEqual({ ok: UNATTENDED, errors: {} })
    } finally {
      await startAgent(lab.lab, 'node-a')
    }
  })
})
