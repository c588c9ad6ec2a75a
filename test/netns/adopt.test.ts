import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { killAgent, startAgent } from '../../tools/labkit/agent.js'
import { inRoot } from '../../tools/labkit/root.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/**
 * Taking over from a Service proxy that translates in netfilter: what it began goes on with
 * the same backend when its rules are gone, and what is new is ours.
 */

const PLAN = {
  IPv4: { ip: 'ip', node: '192.168.0.11', at: '192.168.0.11:30080', backend: '10.244.2.11:8080' },
  IPv6: { ip: 'ip6', node: '2001:db8:192::11', at: '[2001:db8:192::11]:30080', backend: '[2001:db8:244:2::11]:8080' },
} as const
const FAMILIES = ['IPv4', 'IPv6'] as const
type Family = (typeof FAMILIES)[number]

/** The old rules translate to one backend, waggle knows two others: an answer tells who was at work. */
const OLD = 'pod-b1'
const NEW = ['pod-a1', 'pod-a2']
const OBJECTS = service({
  name: 'web',
  ip: 10,
  ports: [
    { name: 'tcp', protocol: 'TCP', port: 80, nodePort: 30080 },
    { name: 'udp', protocol: 'UDP', port: 80, nodePort: 30080 },
  ],
  pods: NEW,
})

/**
 * The old proxy's table. Once it serves no more, its chains are still there, and a rule that
 * makes the kernel track: with these it goes on with what it translates already.
 */
function rules(serve: boolean): string {
  const dnat = FAMILIES.map(family => {
    const { ip, node, backend } = PLAN[family]
    return `${ip} daddr ${node} meta l4proto { tcp, udp } th dport 30080 dnat ${ip} to ${backend}`
  })
  return `
    table inet old
    delete table inet old
    table inet old {
      chain pre { type nat hook prerouting priority dstnat; ${serve ? dnat.join('; ') : ''}; }
      chain post { type nat hook postrouting priority srcnat; ${serve ? 'ct status dnat masquerade' : ''}; }
      chain track { type filter hook forward priority 0; ct state invalid counter; }
    }`
}

/** Asks the echo service over one socket at each line of input; prints who answered. */
const TALK = `
const [proto, host] = process.argv.slice(1)
let ask
const heard = data => { for (const [, name] of data.toString().matchAll(/"name":"([^"]+)"/g)) console.log(name) }
const failed = error => console.log(error.code)
if (proto === 'TCP') {
  const s = require('net').connect(30080, host).on('data', heard).on('error', failed).on('close', () => console.log('closed'))
  ask = () => s.write('GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: keep-alive\\r\\n\\r\\n')
} else {
  const u = require('dgram').createSocket(host.includes(':') ? 'udp6' : 'udp4').on('message', heard).on('error', failed)
  u.connect(30080, host)
  ask = () => u.send('x')
}
require('readline').createInterface({ input: process.stdin }).on('line', ask).on('close', () => process.exit())`

interface Talk {
  /** Who answers the next question. */
  again(): Promise<string>
  end(): Promise<void>
}

describe.skipIf(CANNOT_RUN)(titled("flows that the kernel's NAT translates already"), () => {
  let lab: TestLab
  let talks: Talk[] = []

  beforeAll(async () => {
    lab = await TestLab.up({ objects: OBJECTS, agents: false })
  })
  afterEach(async () => {
    await Promise.all(talks.map(talk => talk.end()))
    talks = []
    await killAgent(lab.lab, 'node-a')
    await nft('table inet old\ndelete table inet old')
    const bpffs = lab.lab.names.bpffs('node-a')
    expect(await lab.exec('node-a', [inRoot('bin/waggle'), 'cleanup', '--bpffs', bpffs])).toMatchObject({ code: 0 })
  })
  afterAll(() => lab?.down())

  async function nft(input: string): Promise<void> {
    expect(await lab.exec('node-a', ['nft', '-f', '-'], input)).toMatchObject({ code: 0, err: '' })
  }

  function talk(proto: 'TCP' | 'UDP', family: Family): Talk {
    const words = [process.execPath, '-e', TALK, proto, PLAN[family].node]
    const child = lab.lab.spawn('client', words, { stdio: ['pipe', 'pipe', 'inherit'] })
    const made = {
      again: async () => {
        const answer = once(child.stdout as NodeJS.ReadableStream, 'data')
        child.stdin?.write('again\n')
        const [data] = (await Promise.race([answer, sleep(10_000, ['no answer'])])) as [unknown]
        return String(data).trim()
      },
      end: async () => {
        const gone = once(child, 'exit')
        child.stdin?.end()
        await gone
      },
    }
    talks.push(made)
    return made
  }

  async function toBackends(proto: 'TCP' | 'UDP', family: Family): Promise<string[]> {
    const { backends } = await lab.load('client', PLAN[family].at, { count: 20, mode: proto === 'TCP' ? 'tcp' : 'udp' })
    return Object.keys(backends)
  }

  const outcome = async (name: string) =>
    (await lab.show('node-a', 'outcomes')).find(each => each.hook === 'tc_ingress' && each.outcome === name)

  test.each(FAMILIES)(
    '%s: an exchange, a connection and a download keep their backend without the rules that chose it; new ones get ours',
    { timeout: 120_000 },
    async family => {
      await nft(rules(true))
      const exchange = talk('UDP', family)
      const connection = talk('TCP', family)
      expect([await exchange.again(), await connection.again()]).toEqual([OLD, OLD])
      const download = lab.load('client', PLAN[family].at, {
        count: 1,
        bytes: 2_000_000,
        rate: 200_000,
        timeout: 100_000,
      })
      await startAgent(lab.lab, 'node-a')
      expect(
        lab
          .log('node-a')
          .filter(line => line.msg === 'flows that the kernel translates')
          .at(-1),
      ).toMatchObject({
        left: true,
        reason: expect.stringMatching(/^connection tracking holds [0-9]+ entries$/),
      })
      for (const proto of ['TCP', 'UDP'] as const) expect(await toBackends(proto, family)).toEqual(NEW)
      expect([await exchange.again(), await connection.again()]).toEqual([OLD, OLD])

      await nft(rules(false))
      for (let i = 0; i < 10; i++) expect([await exchange.again(), await connection.again()]).toEqual([OLD, OLD])
      for (const proto of ['TCP', 'UDP'] as const) expect(await toBackends(proto, family)).toEqual(NEW)
      expect(await download).toMatchObject({ ok: 1, errors: {}, backends: { [OLD]: 1 } })
      expect((await outcome('kernel_flow'))?.packets).toBe(11)
    },
  )

  test('with --adopt-conntrack off an exchange gets another backend, a connection keeps its own', {
    timeout: 120_000,
  }, async () => {
    await nft(rules(true))
    const exchange = talk('UDP', 'IPv4')
    const connection = talk('TCP', 'IPv4')
    expect([await exchange.again(), await connection.again()]).toEqual([OLD, OLD])
    await startAgent(lab.lab, 'node-a', ['--adopt-conntrack', 'off'])
    expect(NEW).toContain(await exchange.again())
    expect(await connection.again()).toBe(OLD)
    expect(await outcome('kernel_flow')).toBeUndefined()
  })
})
