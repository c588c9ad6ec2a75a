import { expect, test } from 'vitest'
import { dumpMaps } from '../../src/dataplane/ebpf/adopt.js'
import type { Address } from '../../src/model/address.js'
import type { DesiredState, ServicePort } from '../../src/model/desired.js'
import { FakeClock } from '../unit/sync-fake-clock.js'
import { createMaps, startProcess } from './maps-rig.js'

const EXTERNAL = '198.51.100.7' as Address
const OTHER = '198.51.100.8' as Address

const service: ServicePort = {
  id: 'default/a:/TCP/IPv4',
  namespace: 'default',
  name: 'a',
  portName: '',
  protocol: 'TCP',
  family: 'IPv4',
  scheduler: 'random',
  affinitySeconds: 0,
  internalLocal: false,
  externalLocal: false,
  frontends: [
    { kind: 'ExternalIP', address: EXTERNAL, port: 80 },
    { kind: 'ExternalIP', address: OTHER, port: 80 },
  ],
  backends: [],
}
const desired: DesiredState = { revision: 1, services: new Map([[service.id, service]]) }

test('an external IP is marked as the own address it is, before and after it becomes one, and the next run finds it so', () => {
  const maps = createMaps()
  try {
    const clock = new FakeClock()
    const { applier, grace } = startProcess(maps, clock)
    const marks = () => Object.fromEntries(dumpMaps(maps).addresses)
    applier.setOwnAddresses(new Set([EXTERNAL]))
    applier.apply(desired, undefined, true)
    expect(marks()).toEqual({ [EXTERNAL]: true, [OTHER]: false })
    applier.setOwnAddresses(new Set([OTHER]))
    expect(marks()).toEqual({ [EXTERNAL]: false, [OTHER]: true })
    grace.stop()

    const next = startProcess(maps, clock)
    next.applier.setOwnAddresses(new Set([OTHER]))
    expect(next.applier.apply(desired, undefined, true).writes).toBe(0)
    expect(marks()).toEqual({ [EXTERNAL]: false, [OTHER]: true })
  } finally {
    maps.close()
  }
})
