import { expect, test } from 'vitest'
import type { BackendRow, Inspection, ServiceRow } from '../../src/dataplane/inspection.js'
import { rulesByPort } from '../../src/dataplane/iptables/difference.js'
import { renderAll } from '../../src/dataplane/iptables/render.js'
import type { SavedTable } from '../../src/dataplane/iptables/save-text.js'
import { type DifferenceRow, factsDifference, mapsDifference } from '../../src/inspect/difference.js'
import type { DesiredState } from '../../src/model/desired.js'
import { desired, OPTIONS, service } from './iptables-kit.js'
import { address } from './plan-kit.js'

const WEB = { ip: '10.96.0.7', ports: [{ name: 'http', port: 80 }], endpoints: ['10.244.1.11'] }
const ID = 'default/web:http/TCP/IPv4'

const SERVICE = {
  namespace: 'default',
  service: 'web',
  port: 'http',
  protocol: 'TCP',
  scheduler: 'random',
  affinitySeconds: 0,
  internalLocal: false,
  externalLocal: false,
  sourceRanges: undefined,
  frontends: [{ kind: 'ClusterIP', address: address('10.96.0.7'), port: 80 }],
} as unknown as ServiceRow
const BACKEND = {
  ...SERVICE,
  address: address('10.244.1.11'),
  backendPort: 80,
  inCluster: true,
  inLocal: false,
  weight: 1,
} as unknown as BackendRow
const held = (services: ServiceRow[], backends: BackendRow[]) => ({ services, backends }) as unknown as Inspection
const ofMaps = (state: DesiredState, inspection: Inspection) =>
  mapsDifference(state, inspection).map(({ servicePort, onlyIn, what }) => `${servicePort} ${onlyIn}: ${what}`)

test('equal sides do not differ', () => {
  expect(ofMaps(desired(service('web', WEB)), held([SERVICE], [BACKEND]))).toEqual([])
})

test('frontends, backends and settings, each on the side that has it alone', () => {
  const spec = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 50 } } }
  const state = desired(service('web', { ...WEB, endpoints: ['10.244.1.12'], spec }))
  expect(ofMaps(state, held([SERVICE], [BACKEND]))).toEqual([
    `${ID} manifests: backend 10.244.1.12:80, in the list cluster, weight 1`,
    `${ID} manifests: affinity 50 s`,
    `${ID} kernel: backend 10.244.1.11:80, in the list cluster, weight 1`,
  ])
})

test('a Service that only one side knows', () => {
  expect(ofMaps(desired([]), held([SERVICE], [BACKEND]))).toEqual([
    `${ID} kernel: frontend ClusterIP 10.96.0.7:80`,
    `${ID} kernel: scheduler random`,
    `${ID} kernel: backend 10.244.1.11:80, in the list cluster, weight 1`,
  ])
  expect(ofMaps(desired(service('web', WEB)), held([], []))).toHaveLength(3)
})

test('rows without a name are nobody’s', () => {
  expect(ofMaps(desired([]), held([{ ...SERVICE, service: '' }], [{ ...BACKEND, service: '' }]))).toEqual([])
})

test('rules belong to the Service port whose chain they are in or lead to', () => {
  const state = desired(service('web', WEB))
  const { ports, wanted } = renderAll(state, OPTIONS)
  const chains = new Map(wanted.nat.chains)
  const [chain = ''] = ports[0]?.rules.chains.keys() ?? []
  chains.set(chain, [`-A ${chain} -j ACCEPT`])
  const kernel = new Map<string, SavedTable>([
    ['nat', { chains: new Map([...chains, ['PREROUTING', ['-A PREROUTING -j DOCKER', wanted.nat.jumps[1] ?? '']]]) }],
    ['filter', wanted.filter],
  ])
  const sides = rulesByPort(kernel, wanted, ports)
  const rows: DifferenceRow[] = factsDifference(sides.wanted, sides.held)
  expect(rows.filter(each => each.onlyIn === 'kernel')).toEqual([
    { servicePort: ID, onlyIn: 'kernel', what: `nat -A ${chain} -j ACCEPT` },
  ])
  expect(rows.filter(each => each.servicePort === ID && each.onlyIn === 'manifests')).toHaveLength(2)
  // Jumps from built-in chains are nobody's; those of others are no matter.
  expect(rows.filter(each => each.servicePort === '').every(each => each.onlyIn === 'manifests')).toBe(true)
  expect(rows.map(each => each.what).join()).not.toContain('DOCKER')
})
