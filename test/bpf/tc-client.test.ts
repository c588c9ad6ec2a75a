import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { FrontendKind } from '../../src/ebpf/generated/layouts.js'
import { tcp, udp } from './packet.js'
import type { ServiceSpec } from './services.js'
import { missing, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/** externalTrafficPolicy: Local binds clients outside; another node's pod is none. */

const FAMILIES = [
  {
    family: 'IPv4',
    vip: '198.51.100.1:80',
    here: '10.0.1.5:8080',
    there: '10.0.2.5:8080',
    pods: '10.0.0.0/20',
    pod: '10.0.15.255',
    outside: '10.0.16.0',
  },
  {
    family: 'IPv6',
    vip: '[2001:db8:198::1]:80',
    here: '[2001:db8:a1::5]:8080',
    there: '[2001:db8:a2::5]:8080',
    pods: '2001:db8:a0::/44',
    pod: '[2001:db8:af:ffff::1]',
    outside: '[2001:db8:b0::1]',
  },
] as const

const EXTERNAL = [FrontendKind.LOAD_BALANCER, FrontendKind.EXTERNAL_IP, FrontendKind.NODE_PORT]

describe.skipIf(lacking)('clients told apart', () => {
  let node: TcNode
  beforeAll(() => {
    node = new TcNode()
  })
  afterAll(() => node.close())
  beforeEach(() => node.services.clear())

  describe.each(FAMILIES)('$family', at => {
    const local = (kind: FrontendKind, backends: ServiceSpec['backends']) => {
      for (const proto of ['TCP', 'UDP'] as const) {
        node.services.add({
          proto,
          frontends: [{ at: at.vip, kind }],
          backends,
          externalLocal: true,
          internalLocal: true,
        })
      }
    }
    const dial = (client: string) => [
      node.ingress(tcp(`${client}:40000`, at.vip, 'S')),
      node.ingress(udp(`${client}:40000`, at.vip)),
    ]

    test.each(EXTERNAL)('kind %i: a pod reaches any backend, an outside client one of this node', kind => {
      local(kind, [{ at: at.there }])
      node.services.putRange(0, at.pods)
      for (const step of dial(at.pod)) expect(step).toMatchObject({ outcome: 'forwarded', verdict: 'redirect' })
      for (const step of dial(at.outside)) expect(step).toMatchObject({ outcome: 'no_local_backend', verdict: 'drop' })
    })

    test('a backend here keeps the address of either', () => {
      local(FrontendKind.LOAD_BALANCER, [{ at: at.here, local: true }])
      node.services.putRange(0, at.pods)
      for (const client of [at.pod, at.outside]) {
        for (const step of dial(client)) expect(step.packet).toMatchObject({ from: `${client}:40000`, to: at.here })
      }
    })

    test('without known pod networks everybody is an outside client', () => {
      local(FrontendKind.NODE_PORT, [{ at: at.there }])
      for (const step of dial(at.pod)) expect(step.outcome).toBe('no_local_backend')
    })

    test('internalTrafficPolicy: Local binds a pod, too', () => {
      local(FrontendKind.CLUSTER_IP, [{ at: at.there }])
      node.services.putRange(0, at.pods)
      for (const step of dial(at.pod)) expect(step.outcome).toBe('no_local_backend')
    })
  })
})
