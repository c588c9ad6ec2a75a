import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

const FLAGS = ['--source-ports', '40000-40020', '--source-ports-last', 'none']

const PLAN = {
  IPv4: { node: '192.168.0.11', backend: '10.244.2.11', pod: '10.244.1.11' },
  IPv6: { node: '2001:db8:192::11', backend: '2001:db8:244:2::11', pod: '2001:db8:244:1::11' },
} as const

/**
 * Asks an echo service again and again from one socket, one question a time, and writes the
 * source port that each answer names. An answer to somebody else's question counts, too.
 */
const TALK = `
const [proto, address, port, host, hostPort, count] = process.argv.slice(1)
let left = Number(count)
const heard = text => { for (const [, p] of text.matchAll(/"peerPort":(\\d+)/g)) console.log(p) }
const bind = port === '0' ? {} : { localAddress: address, localPort: Number(port) }
if (proto === 'TCP') {
  const s = require('net').connect({ host, port: Number(hostPort), ...bind })
  s.on('data', data => heard(data.toString())).on('error', e => console.log(e.code)).setNoDelay()
  const ask = () => left-- > 0 ? s.write('GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: keep-alive\\r\\n\\r\\n') : (s.destroy(), clearInterval(timer))
  const timer = setInterval(ask, 50)
} else {
  const s = require('dgram').createSocket(host.includes(':') ? 'udp6' : 'udp4')
  s.on('message', data => heard(data.toString()))
  const ask = () => left-- > 0 ? s.send('x') : (s.close(), clearInterval(timer))
  let timer
  s.bind(Number(port), address || undefined, () => s.connect(Number(hostPort), host, () => { timer = setInterval(ask, 50) }))
}
`

describe.skipIf(CANNOT_RUN)(titled('source ports that a flow and somebody else want'), () => {
  let lab: TestLab

  beforeAll(async () => {
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
  })
  afterAll(() => lab?.down())

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
})
