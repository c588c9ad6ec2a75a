import { expect, test } from 'vitest'
import { nodePortAddresses } from '../../src/plan/node-addresses.js'
import { address, bench, HERE, service } from './plan-kit.js'

const internalIPs = ['192.168.0.11', '192.168.1.11', '2001:db8:192::11'].map(address)
const hostAddresses = ['127.0.0.1', '127.0.0.53', '::1', '192.168.0.11', '10.0.0.5', '2001:db8:5::5'].map(address)

test.each([
  { wanted: [], got: ['192.168.0.11', '2001:db8:192::11'] },
  { wanted: ['primary'], got: ['192.168.0.11', '2001:db8:192::11'] },
  { wanted: ['localhost'], got: ['127.0.0.1', '::1'] },
  { wanted: ['primary', 'localhost'], got: ['192.168.0.11', '2001:db8:192::11', '127.0.0.1', '::1'] },
  {
    wanted: ['all'],
    got: ['192.168.0.11', '192.168.1.11', '2001:db8:192::11', '10.0.0.5', '2001:db8:5::5', '127.0.0.1', '::1'],
  },
  { wanted: ['192.168.1.0/24', '10.0.0.0/8'], got: ['192.168.1.11', '10.0.0.5'] },
  { wanted: ['0.0.0.0/0'], got: ['192.168.0.11', '192.168.1.11', '10.0.0.5', '127.0.0.1'] },
  { wanted: ['127.0.0.0/8'], got: ['127.0.0.1'] },
  { wanted: ['::1/128'], got: ['::1'] },
  { wanted: ['172.16.0.0/12', 'banana'], got: [] },
])('$wanted of this machine are $got', ({ wanted, got }) => {
  expect(nodePortAddresses({ internalIPs, hostAddresses, localhost: true }, wanted)).toEqual(got)
  const withoutLoopback = got.filter(each => each !== '127.0.0.1' && each !== '::1')
  expect(nodePortAddresses({ internalIPs, hostAddresses, localhost: false }, wanted)).toEqual(withoutLoopback)
})

test('node ports follow the addresses of the machine, without any Node object too', () => {
  const { store, planner, put, frontends } = bench({ nodePortAddresses: ['10.0.0.0/8'], localhostNodePorts: true })
  const nodePort = { name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 } as const
  put(service({ ports: [nodePort] }))
  const id = 'default/web:http/TCP/IPv4'
  expect(frontends(id)).toEqual(['ClusterIP 203.0.113.10 80'])
  const nothing = { services: new Set<string>(), nodes: new Set<string>(), synced: true }
  const look = (...addresses: string[]) => {
    planner.setHostAddresses(addresses.map(address))
    return planner.update(store, nothing)
  }
  expect([...look('10.0.0.5', '172.16.0.1').changed]).toEqual([id])
  expect(frontends(id)).toEqual(['ClusterIP 203.0.113.10 80', 'NodePort 10.0.0.5 30080'])
  expect(look('10.0.0.5', '172.16.0.2').changed.size).toBe(0)
  put({ kind: 'Node', name: HERE, internalIPs: [address('10.1.1.1')] })
  expect(frontends(id)).toEqual(['ClusterIP 203.0.113.10 80', 'NodePort 10.0.0.5 30080', 'NodePort 10.1.1.1 30080'])
  look()
  expect(frontends(id)).toEqual(['ClusterIP 203.0.113.10 80', 'NodePort 10.1.1.1 30080'])
})
