import { execFileSync } from 'node:child_process'
import { afterEach, describe, expect, test } from 'vitest'
import { tcp, udp } from './packet.js'
import { missing, missingProgram, TcNode } from './tc-node.js'

const lacking = missing() ?? missingProgram('nft', 'connection tracking in a namespace')
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const FAMILIES = {
  IPv4: { client: '203.0.113.7', vip: '172.30.0.1', there: '10.0.2.5', egress: '192.168.1.1' },
  IPv6: { client: '[2001:db8:f::7]', vip: '[2001:db8:30::1]', there: '[2001:db8:a2::5]', egress: '[2001:db8:c1::1]' },
} as const

/** Sends one packet from the port to the backend, and closes the socket. */
const SEND = {
  TCP: 'const c=net.connect({port:8080,host:peer,localPort:port,localAddress:address});c.on("error",()=>{});setTimeout(()=>c.destroy(),100)',
  UDP: 'u.bind(port,address,()=>u.send("x",8080,peer,()=>u.close()))',
} as const

describe.skipIf(lacking)('source ports and conntrack', () => {
  let node: TcNode | undefined

  afterEach(() => {
    node?.close()
    node = undefined
  })

  test.each((['IPv4', 'IPv6'] as const).flatMap(family => (['TCP', 'UDP'] as const).map(proto => ({ family, proto }))))(
    '$family $proto: a port that conntrack knows towards this backend is taken, one towards another is not',
    ({ family, proto }) => {
      node = new TcNode({ snatPorts: [2000, 2002] })
      const { client, vip, there, egress } = FAMILIES[family]
      node.services.add({ proto, frontends: [{ at: `${vip}:80` }], backends: [{ at: `${there}:8080` }] })
      track(node)
      const elsewhere = there.replace('5', '6')
      for (const [port, peer] of [
        [2000, there],
        [2001, elsewhere],
      ] as const) {
        const bare = (text: string) => text.replace(/[[\]]/g, '')
        const code =
          `const port=${port},address='${bare(egress)}',peer='${bare(peer)}',net=require('net');` +
          `const u=require('dgram').createSocket('udp${family === 'IPv6' ? 6 : 4}');${SEND[proto]}`
        execFileSync('nsenter', [
          `--net=${node.netns}`,
          process.execPath,
          '-e',
          `${code};if('${proto}'=='TCP')u.close()`,
        ])
      }
      const ports = [40000, 40001, 40002].map(port => {
        const [from, to] = [`${client}:${port}`, `${vip}:80`]
        const step = node?.ingress(proto === 'TCP' ? tcp(from, to, 'S') : udp(from, to))
        return step?.outcome === 'forwarded' ? step.packet.from : step?.outcome
      })
      expect(ports.sort()).toEqual([`${egress}:2001`, `${egress}:2002`, 'snat_exhausted'])
    },
  )
})

/** Makes the node's namespace track connections, as any stateful rule does, and remember them for minutes. */
function track(node: TcNode): void {
  const timeouts = ['udp_timeout', 'tcp_timeout_close'].map(name => `net.netfilter.nf_conntrack_${name}=600`)
  execFileSync('nsenter', [`--net=${node.netns}`, 'sysctl', '-q', '-w', ...timeouts])
  execFileSync('nsenter', [`--net=${node.netns}`, 'nft', '-f', '-'], {
    input: `table inet t {
      chain o {
        type filter hook output priority 0
        ct state invalid counter
      }
    }`,
  })
}
