import { expect, test } from 'vitest'
import { parseConfigFile } from '../../src/config/file.js'
import { didYouMean, isUnknownVariable } from '../../src/config/names.js'
import { environmentName, OPTION_KEYS, optionOf } from '../../src/config/options.js'
import { ConfigError, type ConfigInput, readConfig } from '../../src/config/read.js'
import { duration, printDuration } from '../../src/config/types.js'

const machine = { hostname: 'Node-A.example', cgroup: '/sys/fs/cgroup' }

function input(given: Partial<Omit<ConfigInput, 'flags'>> & { flags?: Record<string, string[]> }): ConfigInput {
  return {
    unknownFlags: [],
    environment: {},
    file: undefined,
    machine,
    ...given,
    flags: new Map(Object.entries(given.flags ?? {})),
  }
}

function mistakes(given: Parameters<typeof input>[0]): string[] {
  try {
    readConfig(input(given))
  } catch (error) {
    if (error instanceof ConfigError) {
      return error.mistakes.map(({ where, problem, remedy }) => `${where}: ${problem}${remedy ? `; ${remedy}` : ''}`)
    }
    throw error
  }
  return []
}

test('nothing given: the defaults, with what the machine knows filled in', () => {
  const { config, described } = readConfig(input({}))
  expect(config).toMatchObject({
    nodeName: 'node-a.example',
    source: { kind: 'kube' },
    dataplane: 'ebpf',
    cgroup: '/sys/fs/cgroup',
    pinDir: '/sys/fs/bpf/waggle',
    metricsBindAddress: { host: '127.0.0.1', port: 10249 },
    flowTcpEstablishedTimeout: 7_440_000,
  })
  expect(config.kubeconfig).toBeUndefined()
  expect(described).toEqual({})
})

test('flag over environment over file over default, and the origin of each', () => {
  const file = { path: '/etc/waggle.yaml', text: 'scheduler: rr\nmaxServices: 100\nmaxFlows: 1000\n' }
  const environment = { WAGGLE_MAX_SERVICES: '200', WAGGLE_MAX_FLOWS: '2000' }
  const { config, described } = readConfig(input({ file, environment, flags: { 'max-flows': ['3000'] } }))
  expect([config.scheduler, config.maxServices, config.maxFlows, config.maxFrontends]).toEqual([
    'rr',
    200,
    3000,
    65_536,
  ])
  expect(described).toEqual({ scheduler: 'rr (file)', maxServices: '200 (environment)', maxFlows: '3000 (flag)' })
})

test('the result cannot be changed, lists included', () => {
  const { config } = readConfig(input({ flags: { devices: ['eth0'] } }))
  expect(Object.isFrozen(config)).toBe(true)
  expect(Object.isFrozen(config.devices)).toBe(true)
})

test('all mistakes of all places come at once, each with its place', () => {
  const file = { path: 'w.yaml', text: 'scheduler: best\nnodename: a\n' }
  const environment = { WAGGLE_LOG_LEVEL: 'loud', WAGGLE_NODENAME: 'x', WAGGLE_PORT: 'tcp://10.0.0.1:80' }
  const found = mistakes({
    file,
    environment,
    unknownFlags: ['--max-service=7', 'stray'],
    flags: { 'max-flows': ['many'], 'pin-dir': ['/tmp/elsewhere'] },
  })
  expect(found.sort()).toEqual(
    [
      '--max-flows: "many" must be a whole number from 256 to 16000000',
      '--max-service: unknown flag; did you mean --max-services?',
      '--pin-dir: /tmp/elsewhere is not below the BPF file system at /sys/fs/bpf; name a directory below --bpffs',
      'WAGGLE_LOG_LEVEL: "loud" must be one of error, warn, info, debug',
      'WAGGLE_NODENAME: unknown environment variable; did you mean WAGGLE_NODE_NAME?',
      'stray: unexpected argument',
      'w.yaml:1 scheduler: "best" must be one of random, rr, source-hash, maglev, least-conn',
      'w.yaml:2 nodename: unknown name; did you mean nodeName?',
    ].sort(),
  )
})

test('a wrong value is a mistake although a stronger place overrides it', () => {
  expect(mistakes({ environment: { WAGGLE_SCHEDULER: 'x' }, flags: { scheduler: ['rr'] } })).toHaveLength(1)
})

test.each<[string, Record<string, string[]>, unknown]>([
  ['one value', { devices: ['eth0'] }, ['eth0']],
  ['commas', { devices: ['eth0, bond*'] }, ['eth0', 'bond*']],
  ['a repeated flag', { devices: ['eth0', 'eth1'] }, ['eth0', 'eth1']],
])('lists: %s', (_, flags, want) => {
  expect(readConfig(input({ flags })).config.devices).toEqual(want)
})

test('a YAML list in the file', () => {
  const file = { path: 'f', text: 'nodePortAddresses:\n  - primary\n  - 192.168.7.9/16\n' }
  expect(readConfig(input({ file })).config.nodePortAddresses).toEqual(['primary', '192.168.0.0/16'])
})

test.each([
  ['0.0.0.0', { host: '0.0.0.0', port: 10256 }],
  ['10.1.2.3:99', { host: '10.1.2.3', port: 99 }],
  ['::', { host: '::', port: 10256 }],
  ['[2001:DB8::0]:80', { host: '2001:db8::', port: 80 }],
])('bind address %s', (text, want) => {
  expect(readConfig(input({ flags: { 'healthz-bind-address': [text] } })).config.healthzBindAddress).toEqual(want)
})

test.each(['', ':80', 'localhost:80', '1.2.3.4:0', '1.2.3.4:65536', '[1.2.3.4', '1.2.3.4:'])(
  'bind address %j is refused',
  text => {
    expect(mistakes({ flags: { 'healthz-bind-address': [text] } })).toHaveLength(1)
  },
)

test.each([
  ['50ms', 50],
  ['0', 0],
  ['1.5s', 1500],
  ['1m', 60_000],
])('duration %s', (text, want) => {
  expect(readConfig(input({ flags: { 'min-sync-period': [text], 'sync-period': ['2m'] } })).config.minSyncPeriod).toBe(
    want,
  )
})

test.each(['50', '1 s', 's', '1m1', '-1s', '2m'])('duration %j is refused', text => {
  expect(mistakes({ flags: { 'min-sync-period': [text], 'sync-period': ['2m'] } })).toHaveLength(1)
})

test.each([7_440_000, 50, 1500, 0, 86_400_000])('a printed duration reads as the same: %i ms', ms => {
  expect(duration(0, 86_400_000).parse(printDuration(ms))).toEqual({ ok: true, value: ms })
})

test.each([
  ['10.0.0.0/8', '10.0.0.0/8'],
  ['10.1.2.3/8', '10.0.0.0/8'],
  ['2001:DB8::1/64', '2001:db8::/64'],
])('network %s', (text, want) => {
  expect(readConfig(input({ flags: { 'nodeport-addresses': [text] } })).config.nodePortAddresses).toEqual([want])
})

test.each(['10.0.0.0', '10.0.0.0/33', '300.0.0.0/8', 'any', ''])('network %j is refused', text => {
  expect(mistakes({ flags: { 'nodeport-addresses': [text] } })).toHaveLength(1)
})

test('ranges of ports', () => {
  const { config } = readConfig(
    input({ flags: { 'source-ports': ['2000-2999', '4000'], 'source-ports-last': ['none'] } }),
  )
  expect(config.sourcePorts).toEqual([
    { min: 2000, max: 2999 },
    { min: 4000, max: 4000 },
  ])
  expect(config.sourcePortsLast).toBe('none')
})

test.each(['0-10', '10-9', '1-65536', 'a', '1-', ''])('range of ports %j is refused', text => {
  expect(mistakes({ flags: { 'source-ports': [text] } })).toHaveLength(1)
})

test('no cgroup v2 is a mistake unless one is named', () => {
  const bare = { hostname: 'a', cgroup: undefined }
  expect(mistakes({ machine: bare })).toEqual([expect.stringContaining('no cgroup v2 is mounted')])
  expect(mistakes({ machine: bare, flags: { cgroup: ['/cg'] } })).toEqual([])
})

test.each([
  ['periods', { 'min-sync-period': ['10s'], 'sync-period': ['5s'] }, 'longer than the sync period'],
  ['slots', { 'max-slots': ['1024'] }, 'cannot hold 131072 backends'],
  ['ranges that meet', { 'source-ports': ['1024-29999', '29999-30000'] }, '29999-30000 and 1024-29999 have ports'],
  ['last range', { 'source-ports': ['1024-40000'] }, '32768-60999 and 1024-40000 have ports in common'],
  ['three ranges', { 'source-ports': ['1-2', '3-4', '5-6'] }, '3 ranges, two are the most'],
  ['one address for two servers', { 'metrics-bind-address': ['0.0.0.0:10256'] }, 'address of the health server'],
])('settings that contradict each other: %s', (_, flags, want) => {
  expect(mistakes({ flags })).toEqual([expect.stringContaining(want)])
})

test('places in lists are a power of two', () => {
  expect(mistakes({ flags: { 'max-slots': ['200000'] } })).toEqual([
    '--max-slots: "200000" must be a power of two, such as 262144',
  ])
})

test('a file that is no YAML mapping, or broken YAML, is named with its line', () => {
  expect(parseConfigFile('f', '- a\n').mistakes).toEqual([
    { where: 'f', problem: 'must be a YAML mapping of names to values' },
  ])
  expect(parseConfigFile('f', 'a: 1\nb: [\n').mistakes[0]?.where).toBe('f:3')
  expect(parseConfigFile('f', 'scheduler: rr\nscheduler: rr\n').mistakes[0]?.where).toBe('f:2')
  expect(parseConfigFile('f', '')).toEqual({ entries: [], mistakes: [] })
})

test('an empty environment variable counts as not set', () => {
  expect(readConfig(input({ environment: { WAGGLE_SCHEDULER: '' } })).config.scheduler).toBe('random')
})

test('variables that the kubelet sets for a Service named waggle are not ours', () => {
  for (const name of [
    'WAGGLE_SERVICE_HOST',
    'WAGGLE_METRICS_SERVICE_PORT_HTTP',
    'WAGGLE_PORT',
    'WAGGLE_PORT_80_TCP_ADDR',
  ]) {
    expect(isUnknownVariable(name)).toBe(false)
  }
  expect(isUnknownVariable('WAGGLE_SERVICE')).toBe(true)
})

test('no setting hides behind a name that the kubelet may set', () => {
  for (const key of OPTION_KEYS) {
    expect(environmentName(optionOf(key).flag)).not.toMatch(/_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9].*)?)$/)
  }
})

test('plain defaults print as text that reads as the same value', () => {
  for (const key of OPTION_KEYS) {
    const { type, fallback } = optionOf(key)
    if (!('value' in fallback)) continue
    expect([key, type.parse(type.print(fallback.value))]).toEqual([key, { ok: true, value: fallback.value }])
  }
})

test('suggestions come only for near names', () => {
  expect(didYouMean('--sheduler', ['--scheduler', '--source'])).toBe('did you mean --scheduler?')
  expect(didYouMean('--quux', ['--scheduler', '--source'])).toBeUndefined()
})
