import { expect, test } from 'vitest'
import { removals, tableChange } from '../../src/dataplane/iptables/change.js'
import { readSave, type SavedTable } from '../../src/dataplane/iptables/save-text.js'
import { failedLine } from '../../src/dataplane/rules/run-tool.js'
import { readTracked, staleFlows } from '../../src/dataplane/rules/stale-udp.js'
import { desired, NODE, service } from './iptables-kit.js'

const SVC = 'KUBE-SVC-AAAAAAAAAAAAAAAA'
const GONE = 'KUBE-SVC-BBBBBBBBBBBBBBBB'
const held = (chains: Record<string, string[]>): SavedTable => ({ chains: new Map(Object.entries(chains)) })
const wanted = (chains: Record<string, string[]>, jumps: string[] = []) => ({
  chains: new Map(Object.entries(chains)),
  jumps,
})

test('iptables-save is read by table and chain, without counters', () => {
  const tables = readSave(
    `# Generated\n*nat\n:PREROUTING ACCEPT [3:120]\n:${SVC} - [0:0]\n-A PREROUTING -j ${SVC}\n-A ${SVC} -j RETURN \nCOMMIT\n`,
  )
  expect([...(tables.get('nat')?.chains ?? [])]).toEqual([
    ['PREROUTING', [`-A PREROUTING -j ${SVC}`]],
    [SVC, [`-A ${SVC} -j RETURN`]],
  ])
})

test('only chains that differ are written, whole', () => {
  const before = held({ [SVC]: [`-A ${SVC} -j A`], 'KUBE-SERVICES': [] })
  const change = tableChange(
    'nat',
    before,
    wanted({ [SVC]: [`-A ${SVC} -j A`], 'KUBE-SERVICES': ['-A KUBE-SERVICES -j B'] }),
    true,
  )
  expect(change.lines).toEqual([':KUBE-SERVICES - [0:0]', '-A KUBE-SERVICES -j B'])
  expect(change.writes).toBe(2)
})

test('nothing to do writes nothing', () => {
  const same = { [SVC]: [`-A ${SVC} -j A`] }
  expect(tableChange('nat', held(same), wanted(same), true)).toMatchObject({ lines: [], writes: 0 })
})

test('a missing jump goes to the front of its built-in chain', () => {
  const jump = '-A PREROUTING -j KUBE-SERVICES'
  const before = held({ PREROUTING: ['-A PREROUTING -j DOCKER'] })
  const change = tableChange('nat', before, wanted({}, [jump]), true)
  expect(change.lines).toEqual(['-I PREROUTING -j KUBE-SERVICES'])
  expect(change.after.get('PREROUTING')).toEqual([jump, '-A PREROUTING -j DOCKER'])
  expect(tableChange('nat', held({ PREROUTING: [jump] }), wanted({}, [jump]), true).lines).toEqual([])
})

test('chains of Service ports that are not wanted go only once everything is known', () => {
  const jump = `-A KUBE-SERVICES -d 10.96.0.9/32 -j ${GONE}`
  const last = '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS'
  const before = held({ [GONE]: ['-A x'], 'KUBE-SERVICES': [jump, last], 'KUBE-SVC-CUSTOM': [] })
  const next = wanted({ [SVC]: [`-A ${SVC} -j A`], 'KUBE-SERVICES': [`-A KUBE-SERVICES -j ${SVC}`, last] })
  const early = tableChange('nat', before, next, false)
  expect(early.lines).toEqual([
    `:${SVC} - [0:0]`,
    ':KUBE-SERVICES - [0:0]',
    `-A ${SVC} -j A`,
    `-A KUBE-SERVICES -j ${SVC}`,
    jump,
    last,
  ])
  const late = tableChange('nat', before, next, true)
  expect(late.lines).toContain(`-X ${GONE}`)
  expect(late.lines).not.toContain(jump)
  expect(late.lines.join()).not.toContain('CUSTOM')
})

test('removal takes our chains and what leads to them, and leaves those that others use', () => {
  const tables = new Map([
    [
      'nat',
      held({
        PREROUTING: ['-A PREROUTING -j KUBE-SERVICES', '-A PREROUTING -j DOCKER'],
        DOCKER: [],
        'KUBE-SERVICES': [`-A KUBE-SERVICES -j ${SVC}`],
        [SVC]: [],
        'KUBE-MARK-MASQ': ['-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000'],
        'CNI-HOSTPORT': ['-A CNI-HOSTPORT -j KUBE-MARK-MASQ'],
        'KUBE-KUBELET-CANARY': [],
      }),
    ],
  ])
  const { text, chains } = removals(tables)
  expect(chains).toEqual(['nat KUBE-SERVICES', `nat ${SVC}`])
  expect(text).toBe(
    `*nat\n:KUBE-SERVICES - [0:0]\n:${SVC} - [0:0]\n-D PREROUTING -j KUBE-SERVICES\n-X KUBE-SERVICES\n-X ${SVC}\nCOMMIT\n`,
  )
})

test.each([
  ['iptables-restore v1.8.9 (legacy): unknown protocol "x" specified\nError occurred at line: 12', 12],
  ['iptables-restore: line 7 failed', 7],
  ['iptables-restore v1.8.9 (nf_tables): \nline 5: RULE_APPEND failed (No such file or directory): rule in chain X', 5],
  ['Another app is currently holding the xtables lock', undefined],
])('the line that iptables-restore names: %j', (said, line) => {
  expect(failedLine(said)).toBe(line)
})

const TRACKED = [
  'udp      17 29 src=10.244.1.5 dst=10.96.0.10 sport=4000 dport=53 src=10.244.0.29 dst=10.244.1.5 sport=53 dport=4000 mark=0 use=1',
  'udp      17 29 src=10.244.1.6 dst=10.96.0.10 sport=4001 dport=53 [UNREPLIED] src=10.244.0.99 dst=10.244.1.6 sport=53 dport=4001 mark=0 use=1',
  'udp      17 29 src=10.244.1.7 dst=10.96.0.10 sport=4002 dport=53 [UNREPLIED] src=10.96.0.10 dst=10.244.1.7 sport=53 dport=4002 mark=0 use=1',
  'udp      17 29 src=10.244.1.8 dst=192.0.2.1 sport=4003 dport=53 src=192.0.2.1 dst=10.244.1.8 sport=53 dport=4003 mark=0 use=1',
  'udp      17 29 src=203.0.113.9 dst=192.168.0.104 sport=4004 dport=30053 src=10.244.0.98 dst=192.168.0.104 sport=53 dport=4004 mark=0 use=1',
  'conntrack v1.4.7 (conntrack-tools): 5 flow entries have been shown.',
].join('\n')

test('UDP exchanges to backends that are gone, or past the Service, are stale; those of others are not', () => {
  const state = desired([
    NODE,
    ...service('dns', {
      ip: '10.96.0.10',
      ports: [{ protocol: 'UDP', port: 53, nodePort: 30053 }],
      endpoints: ['10.244.0.29'],
      spec: { type: 'NodePort' },
    }),
  ])
  const flows = readTracked(TRACKED)
  expect(flows).toHaveLength(5)
  expect(staleFlows(flows, state, 'IPv4').map(each => each.clientPort)).toEqual([4001, 4002, 4004])
})

test('a backend that ends but serves keeps its exchanges', () => {
  const [web, slice] = service('dns', {
    ip: '10.96.0.10',
    ports: [{ protocol: 'UDP', port: 53 }],
    endpoints: ['10.244.0.29', '10.244.0.30'],
  }) as [object, { endpoints: { conditions: object }[] }]
  ;(slice.endpoints[0] as { conditions: object }).conditions = { ready: false, serving: true, terminating: true }
  expect(staleFlows(readTracked(TRACKED), desired([web, slice]), 'IPv4').map(each => each.clientPort)).toEqual([
    4001, 4002,
  ])
})
