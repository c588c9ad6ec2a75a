import { describe, expect, test } from 'vitest'
import type { Address } from '../../src/model/address.js'
import type { Cidr } from '../../src/model/cidr.js'
import { sourceRangesOf } from '../../src/plan/source-ranges.js'
import { address, bench, HERE, service } from './plan-kit.js'

const WEB = 'default/web:http/TCP/IPv4'
const ranges = (...texts: string[]) => texts as Cidr[]

const INSIDE = {
  internalIPs: ['192.168.0.11', '2001:db8:192::11'] as Address[],
  podCIDRs: ranges('10.244.1.0/24', '2001:db8:244:1::/64'),
}

describe('who may use the load-balancer frontends', () => {
  test.each([
    { given: undefined, family: 'IPv4', want: undefined, why: 'no list' },
    { given: ['198.51.100.0/24', '0.0.0.0/0'], family: 'IPv4', want: undefined, why: 'a network that holds everybody' },
    {
      given: ['0.0.0.0/0'],
      family: 'IPv6',
      want: { ranges: [], node: false, pods: false },
      why: 'a list of the other family alone',
    },
    { given: [], family: 'IPv4', want: { ranges: [], node: false, pods: false }, why: 'nothing that could be read' },
    {
      given: ['198.51.100.0/24', '2001:db8::/32'],
      family: 'IPv4',
      want: { ranges: ['198.51.100.0/24'], node: false, pods: false },
      why: 'outside networks',
    },
    {
      given: ['198.51.100.0/24', '2001:db8::/32'],
      family: 'IPv6',
      want: { ranges: ['2001:db8::/32'], node: true, pods: true },
      why: 'a network around node and pods',
    },
    {
      given: ['192.168.0.11/32'],
      family: 'IPv4',
      want: { ranges: ['192.168.0.11/32'], node: true, pods: false },
      why: 'the node alone',
    },
    {
      given: ['10.244.0.0/16'],
      family: 'IPv4',
      want: { ranges: ['10.244.0.0/16'], node: false, pods: true },
      why: 'the pods alone',
    },
    {
      given: ['10.244.1.0/25', '10.244.1.128/25'],
      family: 'IPv4',
      want: { ranges: ['10.244.1.0/25', '10.244.1.128/25'], node: false, pods: false },
      why: 'pods of several ranges are not put together',
    },
  ] as const)('$why: $given, $family', ({ given, family, want }) => {
    expect(sourceRangesOf(given && ranges(...given), family, INSIDE)).toEqual(want)
  })

  test('pods whose networks nobody told are not let in', () => {
    const unknown = sourceRangesOf(ranges('10.0.0.0/8'), 'IPv4', { internalIPs: [], podCIDRs: [] })
    expect(unknown).toMatchObject({ node: false, pods: false })
  })
})

describe('in a plan', () => {
  const node = (podCIDRs: string[], ...ips: string[]) =>
    ({ kind: 'Node', name: HERE, internalIPs: ips.map(address), podCIDRs: ranges(...podCIDRs) }) as const

  test("ranges follow the Service, who is inside follows the node's object", () => {
    const { put, remove, planner } = bench()
    put(service({ sourceRanges: ranges('192.168.0.0/24', '2001:db8::/32') }))
    const got = () => planner.state.services.get(WEB)?.sourceRanges
    expect(got()).toEqual({ ranges: ['192.168.0.0/24'], node: false, pods: false })
    expect([...put(node(['10.244.1.0/24'], '192.168.0.11')).changed]).toEqual([WEB])
    expect(got()).toEqual({ ranges: ['192.168.0.0/24'], node: true, pods: false })
    put(node(['192.168.0.128/25'], '192.168.0.11'))
    expect(got()).toEqual({ ranges: ['192.168.0.0/24'], node: true, pods: true })
    remove('Node', HERE)
    expect(got()).toMatchObject({ node: true, pods: true })
    put(service())
    expect(got()).toBeUndefined()
  })

  test('the same ranges again change nothing', () => {
    const { put } = bench()
    put(service({ sourceRanges: ranges('192.0.2.0/24') }))
    const again = service({ sourceRanges: ranges('192.0.2.0/24'), created: 5 })
    expect(put(again).changed.size).toBe(0)
  })

  test("pod networks are those given, else the node's own, and are kept when the node goes", () => {
    const given = bench({ clusterCIDRs: ranges('10.244.0.0/16') })
    expect(given.planner.state.podNetworks).toEqual(['10.244.0.0/16'])
    given.put(node(['10.244.1.0/24']))
    expect(given.planner.state.podNetworks).toEqual(['10.244.0.0/16'])

    const { put, remove, planner } = bench()
    expect(planner.state.podNetworks).toEqual([])
    const { revision } = planner.state
    put(node(['2001:db8:1::/64', '10.244.1.0/24']))
    expect(planner.state.podNetworks).toEqual(['10.244.1.0/24', '2001:db8:1::/64'])
    expect(planner.state.revision).toBe(revision + 1)
    const same = planner.state
    put(node(['2001:db8:1::/64', '10.244.1.0/24'], '192.168.0.11'))
    expect(planner.state).toBe(same)
    remove('Node', HERE)
    expect(planner.state).toBe(same)
  })
})
