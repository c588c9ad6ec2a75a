import { expect, test } from 'vitest'
import { HealthChecks, healthCheckOf } from '../../src/plan/health-checks.js'
import { healthCheckAddresses } from '../../src/plan/node-addresses.js'
import { Store } from '../../src/state/store.js'
import { address, HERE, service, slice } from './plan-kit.js'

const checked = service({ type: 'LoadBalancer', externalLocal: true, healthCheckNodePort: 32_000 })

test.each([
  { slices: [], IPv4: 0, IPv6: 0 },
  { slices: [slice('a', ['10.0.0.1 ready here', '10.0.0.2 ready here'])], IPv4: 2, IPv6: 0 },
  { slices: [slice('a', ['10.0.0.1 ready here']), slice('b', ['10.0.0.1 ready here'])], IPv4: 1, IPv6: 0 },
  { slices: [slice('a', ['10.0.0.1 ready here']), slice('b', ['2001:db8::1 ready here'])], IPv4: 1, IPv6: 1 },
  { slices: [slice('a', ['10.0.0.1 ready node=node-b', '10.0.0.2 ready'])], IPv4: 0, IPv6: 0 },
  { slices: [slice('a', ['10.0.0.1 serving terminating here', '10.0.0.2 here'])], IPv4: 0, IPv6: 0 },
  { slices: [slice('a', ['10.0.0.1 ready here'], { ports: [] })], IPv4: 0, IPv6: 0 },
  {
    slices: [slice('a', ['10.0.0.1 ready here'], { ports: [{ name: 'other', protocol: 'UDP', port: 1 }] })],
    ...{ IPv4: 1, IPv6: 0 },
  },
])('of $slices.0.endpoints … count $IPv4 and $IPv6', ({ slices, IPv4, IPv6 }) => {
  const want = { namespace: 'default', name: 'web', port: 32_000, localEndpoints: { IPv4, IPv6 } }
  expect(healthCheckOf(checked, slices, HERE)).toEqual(want)
})

test('a Service without the port has no check', () => {
  expect(healthCheckOf(service(), [slice('a', ['10.0.0.1 ready here'])], HERE)).toBeUndefined()
  expect(healthCheckOf(undefined, [], HERE)).toBeUndefined()
})

test('checks follow the Services that changed, down to zero endpoints, and go with them', () => {
  const store = new Store()
  const checks = new HealthChecks(HERE)
  const put = (...objects: Parameters<typeof store.apply>[0]) => checks.update(store, store.apply(objects).services)
  const count = () => checks.all.get('default/web')?.localEndpoints.IPv4
  const here = slice('a', ['10.0.0.1 ready here'])
  expect(put({ type: 'upsert', object: checked }, { type: 'upsert', object: here })).toBe(true)
  expect(count()).toBe(1)
  expect(put({ type: 'upsert', object: service({ name: 'other' }) })).toBe(false)
  expect(put({ type: 'delete', kind: 'EndpointSlice', key: 'default/a' })).toBe(true)
  expect(count()).toBe(0)
  expect(put({ type: 'upsert', object: service() })).toBe(true)
  expect(checks.all.size).toBe(0)
  expect(put({ type: 'delete', kind: 'Service', key: 'default/web' })).toBe(false)
})

const serving = ['192.168.0.1', '127.0.0.1', '2001:db8::1'].map(address)
test.each([
  { wanted: ['primary'], got: ['192.168.0.1', '127.0.0.1', '2001:db8::1'] },
  { wanted: ['all'], got: ['0.0.0.0', '::'] },
  { wanted: ['primary', '0.0.0.0/0'], got: ['0.0.0.0', '2001:db8::1'] },
  { wanted: ['::/0'], got: ['::', '192.168.0.1', '127.0.0.1'] },
])('with $wanted health checks are at $got', ({ wanted, got }) => {
  expect(healthCheckAddresses(serving, wanted)).toEqual(got)
})
