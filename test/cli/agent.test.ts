import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const WAGGLE = join(import.meta.dirname, '../../bin/waggle')
const NETNS = `waggle-cli-${process.pid}`
const CGROUP2_MAGIC = 0x63677270

const cgroupRoot = ['/sys/fs/cgroup/unified', '/sys/fs/cgroup'].find(
  path => existsSync(path) && statfsSync(path).type === CGROUP2_MAGIC,
)
const lack = process.getuid?.() !== 0 ? 'root' : cgroupRoot === undefined ? 'a mounted cgroup v2' : undefined
const describeKernel = lack === undefined || process.env.CI ? describe : describe.skip

/** A line of the agent's log. */
type Line = Record<string, unknown> & { msg: string }

/** An agent in the test's network namespace. */
class AgentProcess {
  readonly lines: Line[] = []
  readonly ended: Promise<number | null>
  readonly #child: ChildProcess

  constructor(words: readonly string[]) {
    this.#child = spawn('nsenter', [`--net=/run/netns/${NETNS}`, WAGGLE, 'run', '--log-format', 'json', ...words], {
      stdio: ['ignore', 'inherit', 'pipe'],
    })
    let rest = ''
    this.#child.stderr?.on('data', chunk => {
      const parts = `${rest}${chunk}`.split('\n')
      rest = parts.pop() ?? ''
      this.lines.push(...parts.map(part => JSON.parse(part)))
    })
    this.ended = new Promise(resolve => this.#child.once('close', resolve))
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** The first line with this `msg` that `match` accepts, waited for. */
  async line(msg: string, match: (line: Line) => boolean = () => true): Promise<Line> {
    for (let i = 0; i < 400; i++) {
      const found = this.lines.find(line => line.msg === msg && match(line))
      if (found) return found
      await new Promise(resolve => setTimeout(resolve, 50))
    }
    throw new Error(`no line "${msg}" in\n${this.lines.map(line => JSON.stringify(line)).join('\n')}`)
  }
}

describeKernel(`an agent on the real kernel${lack === undefined ? '' : ` (needs ${lack})`}`, () => {
  let dir: string
  let cgroup: string
  let agent: AgentProcess | undefined
  const places = () => ['--bpffs', join(dir, 'bpffs'), '--run-dir', join(dir, 'run')]
  const words = () => [
    '--node-name',
    'node-a',
    '--source',
    `dir:${join(dir, 'manifests')}`,
    '--cgroup',
    cgroup,
    ...places(),
  ]

  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'waggle-cli-'))
    cgroup = join(cgroupRoot ?? '', NETNS)
    mkdirSync(cgroup)
    mkdirSync(join(dir, 'manifests'))
    execFileSync('ip', ['netns', 'add', NETNS])
    execFileSync('ip', ['-n', NETNS, 'link', 'set', 'lo', 'up'])
    execFileSync('ip', ['-n', NETNS, 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'peer0'])
    execFileSync('ip', ['-n', NETNS, 'addr', 'add', '192.168.0.1/24', 'dev', 'eth0'])
    for (const device of ['peer0', 'eth0']) execFileSync('ip', ['-n', NETNS, 'link', 'set', device, 'up'])
    writeManifests(['10.1.0.1', '10.1.0.2'])
  })

  afterAll(async () => {
    agent?.kill('SIGKILL')
    await agent?.ended
    spawnSync('umount', [join(dir, 'bpffs')])
    spawnSync('ip', ['netns', 'del', NETNS])
    rmdirSync(cgroup)
    rmSync(dir, { recursive: true, force: true })
  })

  function writeManifests(addresses: readonly string[]): void {
    const endpoints = addresses.map(address => ({
      addresses: [address],
      conditions: { ready: true },
      nodeName: 'node-b',
    }))
    const metadata = { namespace: 'default', name: 'web' }
    const objects = [
      {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'node-a' },
        status: { addresses: [{ type: 'InternalIP', address: '192.168.0.1' }] },
      },
      {
        ...{ apiVersion: 'v1', kind: 'Service', metadata },
        spec: {
          ...{ type: 'NodePort', clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10'] },
          ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }],
        },
      },
      {
        ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', addressType: 'IPv4' },
        metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'web' } },
        ...{ endpoints, ports: [{ name: 'http', protocol: 'TCP', port: 8080 }] },
      },
    ]
    writeFileSync(join(dir, 'manifests/all.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }))
  }

  /** Another command on the same places, in the same network namespace. */
  function waggle(...command: string[]) {
    const { status, stdout, stderr } = spawnSync('nsenter', [`--net=/run/netns/${NETNS}`, WAGGLE, ...command], {
      encoding: 'utf8',
      timeout: 30_000,
    })
    return { status, stdout, stderr }
  }

  function shown(subject: string): Record<string, unknown>[] {
    const { status, stdout, stderr } = waggle('show', subject, '-o', 'json', '--bpffs', join(dir, 'bpffs'))
    expect([status, stderr]).toEqual([0, ''])
    return JSON.parse(stdout)[subject]
  }

  test('it writes what the manifests say and tells so once', async () => {
    agent = new AgentProcess(words())
    const applied = await agent.line('applied', line => line.first === true)
    expect(applied).toMatchObject({ level: 'info', services: 1, revision: expect.any(Number), ms: expect.any(Number) })
    expect(applied.writes).toBeGreaterThan(5)
    const starting = await agent.line('starting')
    expect(starting).toMatchObject({ nodeName: 'node-a (flag)', bpffs: `${join(dir, 'bpffs')} (flag)` })
    expect(shown('services')).toMatchObject([
      {
        ...{ namespace: 'default', service: 'web', port: 'http', protocol: 'TCP', backends: 2 },
        frontends: [
          { kind: 'ClusterIP', address: '10.96.0.10', port: 80 },
          { kind: 'NodePort', address: '192.168.0.1', port: 30080 },
        ],
      },
    ])
    expect(shown('programs').every(program => program.attached)).toBe(true)
  })

  test('an edit is in the kernel within a second', async () => {
    const edited = Date.now()
    writeManifests(['10.1.0.1', '10.1.0.2', '10.1.0.3'])
    const applied = await agent?.line('applied', line => line.first === undefined)
    expect(Date.parse(String(applied?.time)) - edited).toBeLessThan(1000)
    expect(shown('backends').map(backend => backend.address)).toEqual(['10.1.0.1', '10.1.0.2', '10.1.0.3'])
  })

  test('a second agent and a cleanup are refused while it runs', async () => {
    const second = new AgentProcess([
      ...words(),
      '--metrics-bind-address',
      '127.0.0.1:1249',
      '--healthz-bind-address',
      '127.0.0.1:1256',
    ])
    expect(await second.ended).toBe(75)
    expect(second.lines.at(-1)).toMatchObject({ level: 'error', error: { code: 'LOCKED' } })
    const cleanup = waggle('cleanup', ...places())
    expect(cleanup.status).toBe(75)
    expect(cleanup.stderr).toMatch(/another waggle \(pid \d+, version .*\) runs with the pin directory/)
    expect(shown('services')).toHaveLength(1)
  })

  test('SIGUSR1 opens no debugger', async () => {
    agent?.kill('SIGUSR1')
    await agent?.line('SIGUSR1 has no meaning here')
    const { stdout } = spawnSync('nsenter', [`--net=/run/netns/${NETNS}`, 'ss', '-Htln'], { encoding: 'utf8' })
    expect(stdout).toContain(':10249')
    expect(stdout).not.toContain(':9229')
  })

  test('after kill -9 the kernel holds everything; the next agent adopts it and writes nothing', async () => {
    agent?.kill('SIGKILL')
    await agent?.ended
    expect(shown('services')).toMatchObject([{ backends: 3 }])
    agent = new AgentProcess(words())
    expect(await agent.line('applied')).toMatchObject({ first: true, services: 1, writes: 0 })
  })

  test('SIGTERM ends it with 0 and leaves the kernel as it is', async () => {
    agent?.kill('SIGTERM')
    expect(await agent?.ended).toBe(0)
    expect(shown('services')).toMatchObject([{ backends: 3 }])
    expect(shown('programs').every(program => program.attached)).toBe(true)
    expect(readdirSync(join(dir, 'run'))).toEqual([])
  })

  describe('with the configuration file of kube-proxy', () => {
    const head = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'
    const write = (text: string) => writeFileSync(join(dir, 'kube-proxy.conf'), text)
    const start = (...more: string[]) =>
      new AgentProcess([...words(), '--config', join(dir, 'kube-proxy.conf'), ...more])

    test('it runs, and says what it does not follow', async () => {
      write(`${head}mode: iptables\nhostnameOverride: someone-else\niptables: {syncPeriod: 20s}\noomScoreAdj: 10\n`)
      agent = start()
      expect(await agent.line('starting')).toMatchObject({
        nodeName: 'node-a (flag)',
        syncPeriod: '20s (file)',
        nodePortAddresses: "all (kube-proxy's default)",
      })
      expect(await agent.line('setting of kube-proxy is not followed')).toMatchObject({
        level: 'warn',
        setting: `${join(dir, 'kube-proxy.conf')}:3 mode`,
        instead: expect.stringContaining('--dataplane'),
      })
      await agent.line('applied', line => line.first === true)
      expect(readFileSync(`/proc/${(await agent.line('starting')).pid}/oom_score_adj`, 'utf8')).toBe('10\n')
    })

    test('a file that gets broken is told, and the agent goes on; one that asks for something else ends it', async () => {
      write(`${head}mode: iptables\nhostnameoverride: x\n`)
      const broken = await agent?.line('looking at the configuration file failed')
      expect(broken).toMatchObject({ error: { code: 'CONFIG' } })
      write(`${head}mode: iptables\niptables: {syncPeriod: 25s}\noomScoreAdj: 10\n`)
      expect(await agent?.ended).toBe(3)
      expect(agent?.lines.at(-1)).toMatchObject({ level: 'error', error: { code: 'CONFIG_CHANGED' } })
      expect(shown('services')).toMatchObject([{ backends: 3 }])
    })

    test('mistakes end it before anything is changed', () => {
      write(`${head}iptables: {syncPeriod: soon}\n`)
      const { status, stderr } = waggle('run', ...words(), '--config', join(dir, 'kube-proxy.conf'))
      expect(status).toBe(2)
      expect(stderr).toMatch(/kube-proxy\.conf:3 iptables\.syncPeriod: "soon" must be a duration/)
    })
  })

  test('cleanup says what it would remove, removes that, and then finds nothing', () => {
    const would = waggle('cleanup', '--dry-run', ...places())
    expect(would.status).toBe(0)
    expect(shown('services')).toHaveLength(1)
    const did = waggle('cleanup', ...places())
    expect(did.status).toBe(0)
    expect(did.stdout.replaceAll('removed ', 'would remove ')).toBe(would.stdout)
    expect(did.stdout).toContain('removed link sock_connect4\n')
    expect(existsSync(join(dir, 'bpffs/waggle'))).toBe(false)
    expect(waggle('cleanup', ...places()).stdout).toContain('nothing of waggle in')
  })
})
