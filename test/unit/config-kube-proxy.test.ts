import { expect, test } from 'vitest'
import { printConfig } from '../../src/config/config.js'
import { KUBE_PROXY_FIELDS } from '../../src/config/kube-proxy-fields.js'
import { OPTION_KEYS, optionOf } from '../../src/config/options.js'
import { ConfigError, readConfig } from '../../src/config/read.js'

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'

function read(
  text: string | undefined,
  flags: Record<string, string[]> = {},
  environment = {},
  unknown: string[] = [],
) {
  return readConfig({
    flags: new Map(Object.entries(flags)),
    unknownFlags: unknown,
    environment,
    file: text === undefined ? undefined : { path: 'kp.conf', text },
    machine: { hostname: 'node-a', cgroup: '/cg' },
  })
}

function mistakes(...args: Parameters<typeof read>): string[] {
  try {
    read(...args)
  } catch (error) {
    if (error instanceof ConfigError) {
      return error.mistakes.map(({ where, problem, remedy }) => `${where}: ${problem}${remedy ? `; ${remedy}` : ''}`)
    }
    throw error
  }
  return []
}

/** Every field as installers write them: most are Go's zero values or null. */
const WRITTEN_BY_A_TOOL = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
featureGates: {}
healthzBindAddress: ""
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: ""
mode: ""
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
windowsRunAsService: false
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
`

test('a file in which nobody set anything unusual is taken over without a remark', () => {
  const { config, notes } = read(WRITTEN_BY_A_TOOL)
  expect(notes).toEqual([])
  expect(config).toMatchObject({
    kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf',
    clusterCidr: ['10.244.0.0/16', 'fd00:10:244::/56'],
    nodePortAddresses: ['all'],
    oomScoreAdj: -999,
    syncPeriod: 30_000,
    minSyncPeriod: 50,
    healthzBindAddress: { host: '0.0.0.0', port: 10_256 },
    metricsBindAddress: { host: '127.0.0.1', port: 10_249 },
    flowTcpEstablishedTimeout: 7_440_000,
    logLevel: 'info',
  })
})

test.each<[string, string, Record<string, unknown>]>([
  ['names are compared in lower case', 'hostnameOverride: " Node-B "', { nodeName: 'node-b' }],
  [
    'ports alone are added',
    'healthzBindAddress: 10.0.0.1\nmetricsBindAddress: 0.0.0.0',
    {
      healthzBindAddress: { host: '10.0.0.1', port: 10_256 },
      metricsBindAddress: { host: '0.0.0.0', port: 10_249 },
    },
  ],
  [
    'an IPv6 node',
    'bindAddress: "::"',
    {
      healthzBindAddress: { host: '::', port: 10_256 },
      metricsBindAddress: { host: '::1', port: 10_249 },
    },
  ],
  [
    'the section of no mode is that of iptables',
    'iptables: {syncPeriod: 1m}\nipvs: {syncPeriod: 2m}',
    { syncPeriod: 60_000 },
  ],
  [
    'the section of the mode',
    'mode: nftables\niptables: {syncPeriod: 1m}\nnftables: {syncPeriod: 3m, minSyncPeriod: 2s}',
    {
      syncPeriod: 180_000,
      minSyncPeriod: 2000,
    },
  ],
  ['nftables serves node ports on primary addresses', 'mode: nftables', { nodePortAddresses: ['primary'] }],
  ['node port addresses', 'nodePortAddresses: [10.0.0.0/8, primary]', { nodePortAddresses: ['10.0.0.0/8', 'primary'] }],
  ['no node ports on loopback', 'iptables: {localhostNodePorts: false}', { localhostNodePorts: false }],
  ['ipvs is round robin', 'mode: ipvs', { scheduler: 'rr' }],
  ['an IPVS scheduler', 'mode: ipvs\nipvs: {scheduler: mh}', { scheduler: 'maglev' }],
  ['an IPVS scheduler in another mode', 'ipvs: {scheduler: mh}', { scheduler: 'random' }],
  [
    'timeouts',
    'conntrack: {tcpEstablishedTimeout: 24h0m0s, udpTimeout: 3m, udpStreamTimeout: 6m}',
    {
      flowTcpEstablishedTimeout: 86_400_000,
      flowUdpTimeout: 180_000,
      flowUdpStreamTimeout: 360_000,
    },
  ],
  ['verbosity', 'logging: {verbosity: 4, format: json}', { logLevel: 'debug', logFormat: 'json' }],
  ['out of memory', 'oomScoreAdj: 0', { oomScoreAdj: 0 }],
  ['hard fail', 'bindAddressHardFail: true', { bindAddressHardFail: true }],
])('%s', (_, text, want) => {
  expect(read(HEAD + text).config).toMatchObject(want)
})

test('what is not followed is noted with its place and with what happens instead', () => {
  const { notes } = read(
    `${HEAD}mode: ipvs\nipvs:\n  scheduler: sed\n  strictARP: true\nnftables: {masqueradeBit: 3}\n`,
    {
      'conntrack-min': ['1'],
    },
  )
  expect(notes.map(({ where, value }) => [where, value])).toEqual([
    ['kp.conf:3 mode', 'ipvs'],
    ['kp.conf:5 ipvs.scheduler', 'sed'],
    ['kp.conf:6 ipvs.strictARP', 'true'],
    ['--conntrack-min', '1'],
  ])
  for (const { instead } of notes) expect(instead).toMatch(/\.$/)
})

test('masqueradeAll is for rules; without them it is noted', () => {
  const said = (text: string, flags = {}) => {
    const { config, notes } = read(HEAD + text, flags)
    return [config.masqueradeAll, notes.map(({ where }) => where)]
  }
  expect(said('iptables: {masqueradeAll: true}')).toEqual([true, ['kp.conf:3 iptables.masqueradeAll']])
  expect(said('iptables: {masqueradeAll: true}', { dataplane: ['iptables'] })).toEqual([true, []])
  expect(said('nftables: {masqueradeAll: true}')).toEqual([false, []])
  expect(said('', { 'masquerade-all': ['true'] })).toEqual([true, ['--masquerade-all']])
})

test('unknown fields, wrong values, another version: file, line, path, value, and what is allowed', () => {
  const text = `apiVersion: kubeproxy.config.k8s.io/v1alpha2
kind: KubeProxyConfiguration
mode: kernelspace
iptables:
  syncperiod: 3s
  masqueradeBit: 32
ipvs: 7
nodePortAddresses: [10.0.0.0/40]
syncPeriod: 3s
`
  expect(mistakes(text)).toEqual([
    'kp.conf:1 apiVersion: "kubeproxy.config.k8s.io/v1alpha2" must be kubeproxy.config.k8s.io/v1alpha1',
    'kp.conf:5 iptables.syncperiod: is no field of KubeProxyConfiguration; did you mean iptables.syncPeriod?',
    'kp.conf:7 ipvs: must be a mapping',
    'kp.conf:9 syncPeriod: is no field of KubeProxyConfiguration',
    'kp.conf:3 mode: "kernelspace" must be one of iptables, ipvs, nftables',
    'kp.conf:6 iptables.masqueradeBit: 32 must be a whole number from 0 to 31',
    expect.stringMatching(/^kp\.conf:8 nodePortAddresses: \["10.0.0.0\/40"\] must be a network in CIDR notation/),
  ])
  expect(mistakes('kind: KubeProxyConfiguration\n')).toEqual([
    'kp.conf:1: apiVersion is missing; write apiVersion: kubeproxy.config.k8s.io/v1alpha1',
  ])
})

test('a value that our setting refuses is told at its own place', () => {
  expect(mistakes(`${HEAD}iptables: {syncPeriod: 1ms}`)).toEqual([
    'kp.conf:3 iptables.syncPeriod: "1ms" must be from 1s to 24h',
  ])
})

test("waggle's settings stand in a second document; there they count before kube-proxy's", () => {
  const both = `${HEAD}nodePortAddresses: [primary]\niptables: {syncPeriod: 1m}\n---\nsyncPeriod: 2m\ndevices: [eth0]\n`
  expect(read(both).config).toMatchObject({ nodePortAddresses: ['primary'], syncPeriod: 120_000, devices: ['eth0'] })
  const [first, second] = both.split('---\n')
  expect(read(`${second}---\n${first}`).config).toMatchObject({ syncPeriod: 120_000, devices: ['eth0'] })
  expect(mistakes(`${HEAD}---\n${HEAD}`)).toEqual([expect.stringContaining('second KubeProxyConfiguration')])
  expect(mistakes('a: 1\n---\nb: 2\n')[0]).toContain('second document')
})

test("a flag counts before the environment, that before the file, kube-proxy's names included", () => {
  const file = `${HEAD}hostnameOverride: file\niptables: {syncPeriod: 1m}`
  expect(read(file, { 'hostname-override': ['FLAG'] }, { WAGGLE_NODE_NAME: 'env' }).config.nodeName).toBe('flag')
  expect(read(file, {}, { WAGGLE_NODE_NAME: 'env' }).config.nodeName).toBe('env')
  expect(read(file, { 'hostname-override': ['a'], 'node-name': ['b'] }).config.nodeName).toBe('b')
  expect(read(file, { 'iptables-sync-period': ['2m'] }).config.syncPeriod).toBe(120_000)
  expect(read(file, { 'proxy-mode': ['ipvs'], 'ipvs-sync-period': ['3m'] }).config.syncPeriod).toBe(180_000)
})

test('flags of kube-proxy without its file: its defaults count once the mode is given', () => {
  expect(read(undefined, { 'hostname-override': ['a'] }).config.nodePortAddresses).toEqual(['primary'])
  expect(read(undefined, { 'proxy-mode': ['iptables'] }).config.nodePortAddresses).toEqual(['all'])
  expect(read(undefined, { master: ['https://10.0.0.1:6443'], v: ['5'] }).config).toMatchObject({
    kubeServers: ['https://10.0.0.1:6443'],
    logLevel: 'debug',
  })
  expect(mistakes(undefined, { 'iptables-masquerade-bit': ['x'] })).toEqual([
    '--iptables-masquerade-bit: "x" must be a whole number from 0 to 31',
  ])
})

test('flags of kube-proxy that ask for another program say what to do', () => {
  expect(mistakes(undefined, {}, {}, ['--cleanup'])).toEqual([expect.stringContaining('`waggle cleanup`')])
})

test('each field has one path, and its default becomes a setting or is no remark', () => {
  const paths = KUBE_PROXY_FIELDS.flatMap(({ path }) => path ?? [])
  expect(new Set(paths).size).toBe(paths.length)
  const flags = KUBE_PROXY_FIELDS.flatMap(({ flag }) => flag ?? [])
  expect(new Set(flags).size).toBe(flags.length)
  for (const { path, flag, type, standard, key, translate, effect } of KUBE_PROXY_FIELDS) {
    const name = path ?? flag
    expect([name, effect.endsWith('.')]).toEqual([name, true])
    if (standard === '' || standard === '0s') continue
    const parsed = type.parse(standard)
    expect([name, parsed.ok]).toEqual([name, true])
    if (key === undefined || !parsed.ok) continue
    const raw = translate === undefined ? type.print(parsed.value) : translate(parsed.value)
    expect([name, optionOf(key).type.parse(raw).ok]).toEqual([name, true])
  }
})

test('the settings in effect read as themselves', () => {
  const { config } = read(HEAD)
  const printed = printConfig(config)
  for (const key of OPTION_KEYS) {
    const text = printed[key]
    if (text === undefined) expect(config[key]).toBeUndefined()
    else expect([key, optionOf(key).type.parse(text)]).toEqual([key, { ok: true, value: config[key] }])
  }
})
