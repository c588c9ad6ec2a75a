import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadNative } from '../../src/ebpf/load-native.js'
import { killAgent, startAgent, stopAgent } from '../../tools/labkit/agent.js'
import { inRoot } from '../../tools/labkit/root.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/**
 * XDP under real sockets. The uplink of a node is a veth: natively it sends only while its
 * peer, a port of the router's bridge, has GRO. Checksums that sockets leave to the device
 * are left to tc, so the senders finish theirs where XDP is to have the traffic.
 */
const PORTS = [
  { name: 'tcp', port: 80, nodePort: 30080 },
  { name: 'udp', protocol: 'UDP' as const, port: 80, nodePort: 30080 },
]
const OBJECTS = service({ name: 'web', ip: 10, loadBalancer: 10, ports: PORTS, pods: ['pod-b1', 'pod-b2'] })
const TARGETS = ['192.168.0.11:30080', '[2001:db8:192::11]:30080', '198.51.100.10:80', '[2001:db8:198::10]:80']
const DOWNLOAD = { bytes: 3_000_000, rate: 1_000_000, concurrency: 4, count: 4, timeout: 60_000 }

const dir = CANNOT_RUN ? '' : mkdtempSync('/tmp/waggle-xdp-')
const native = CANNOT_RUN ? undefined : loadNative()

beforeAll(() => {
  if (CANNOT_RUN) return
  execFileSync('gcc', ['-O1', '-o', path.join(dir, 'offload'), inRoot('test/bpf/tc-offload.c')])
  const multiarch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
  const flags = ['-O2', '-g', '-Wall', '-Werror', '-target', 'bpf', `-I/usr/include/${multiarch}`]
  execFileSync('clang', [...flags, '-c', inRoot('test/netns/foreign.bpf.c'), '-o', path.join(dir, 'foreign.bpf.o')])
})
afterAll(() => {
  if (dir) rmSync(dir, { recursive: true })
})

/** Packets that XDP of node-a counted as one of these. */
async function atXdp(lab: TestLab, ...outcomes: string[]): Promise<number> {
  const rows = await lab.show('node-a', 'outcomes')
  const mine = rows.filter(row => row.hook === 'xdp' && outcomes.includes(String(row.outcome)))
  return mine.reduce((sum, row) => sum + Number(row.packets), 0)
}

function offload(lab: TestLab, host: string, state: string, ...devices: string[]): void {
  execFileSync(path.join(dir, 'offload'), [lab.lab.names.namespacePath(host), state, ...devices])
}

/** Whether senders leave checksums to the device. */
function leaveChecksums(lab: TestLab, leave: boolean): void {
  for (const host of ['client', 'pod-b1', 'pod-b2']) offload(lab, host, leave ? 'on' : 'off', 'eth0')
}

/** The agent looks once a second. */
const SOON = { timeout: 15_000, interval: 300 }

async function xdpPrograms(lab: TestLab): Promise<Record<string, unknown>[]> {
  return (await lab.show('node-a', 'programs')).filter(row => String(row.hook).startsWith('xdp'))
}

async function eth0(lab: TestLab): Promise<Record<string, unknown> | undefined> {
  return (await lab.show('node-a', 'devices')).find(row => row.name === 'eth0')
}

describe.skipIf(CANNOT_RUN).each(['generic', 'native'] as const)(titled('--xdp %s'), mode => {
  let lab: TestLab
  const flags = ['--xdp', mode]
  beforeAll(async () => {
    lab = await TestLab.up({ objects: OBJECTS, agents: false })
    offload(lab, 'router', 'gro-on', 'node-a', 'node-b')
    leaveChecksums(lab, false)
    for (const node of ['node-a', 'node-b']) await startAgent(lab.lab, node, flags)
  })
  afterAll(() => lab?.down())

  test('is shown, and serves node ports and load-balancer addresses, both families', { timeout: 60_000 }, async () => {
    await expect.poll(() => eth0(lab), SOON).toMatchObject({ xdp: mode, xdpReason: '', tc: 'tcx' })
    for (const target of TARGETS) {
      for (const kind of ['tcp', 'udp'] as const) {
        const { ok, errors, backends } = await lab.load('client', target, { mode: kind, count: 50 })
        expect({ target, kind, ok, errors }).toEqual({ target, kind, ok: 50, errors: {} })
        expect(Object.keys(backends)).toEqual(['pod-b1', 'pod-b2'])
      }
    }
    // A request and an answer at the least in each exchange, but for packets before a neighbour is known.
    expect(await atXdp(lab, 'forwarded')).toBeGreaterThan(400)
    expect(await atXdp(lab, 'replied')).toBeGreaterThan(400)
  })

  test('checksums that sockets leave to the device are left to tc, and arrive right', { timeout: 60_000 }, async () => {
    leaveChecksums(lab, true)
    const before = await atXdp(lab, 'left_to_tc')
    for (const target of TARGETS) {
      expect(await lab.load('client', target, { count: 20 })).toMatchObject({ ok: 20, errors: {} })
    }
    expect(await atXdp(lab, 'left_to_tc')).toBeGreaterThan(before + 80)
    leaveChecksums(lab, false)
  })

  test('kill -9 and start in the middle of transfers: nobody notices', { timeout: 90_000 }, async () => {
    const downloads = TARGETS.map(target => lab.load('client', target, DOWNLOAD))
    const held = lab.startLoad('client', TARGETS[0] as string, { mode: 'tcp-keep', concurrency: 2, interval: 2 })
    await held.answered
    await sleep(300)
    await killAgent(lab.lab, 'node-a')
    await sleep(1000)
    await startAgent(lab.lab, 'node-a', flags)
    await sleep(500)
    expect(await held.stop()).toMatchObject({ errors: {} })
    for (const download of downloads) expect(await download).toMatchObject({ ok: 4, errors: {} })
  })

  test('switched off and on again in the middle of transfers: flows go on at tc and back', {
    timeout: 90_000,
  }, async () => {
    const downloads = TARGETS.map(target => lab.load('client', target, { ...DOWNLOAD, bytes: 6_000_000 }))
    await sleep(300)
    await stopAgent(lab.lab, 'node-a')
    await startAgent(lab.lab, 'node-a')
    await expect.poll(() => eth0(lab), SOON).toMatchObject({ xdp: '', xdpReason: '' })
    await expect.poll(() => xdpPrograms(lab), SOON).toEqual([])
    await stopAgent(lab.lab, 'node-a')
    await startAgent(lab.lab, 'node-a', flags)
    await expect.poll(() => eth0(lab), SOON).toMatchObject({ xdp: mode })
    for (const download of downloads) expect(await download).toMatchObject({ ok: 4, errors: {} })
  })

  test('what somebody takes off is put back', { timeout: 30_000 }, async () => {
    await expect.poll(() => xdpPrograms(lab), SOON).toMatchObject([{ attached: true, hook: `xdp/${mode}` }])
    const name = `xdp_${(await eth0(lab))?.ifindex}`
    const link = native?.openLink(path.join(lab.lab.names.bpffs('node-a'), 'waggle/links', name))
    link?.detach()
    link?.close()
    await expect.poll(() => xdpPrograms(lab), SOON).toMatchObject([{ attached: true, hook: `xdp/${mode}` }])
  })

  test('cleanup leaves none', { timeout: 30_000 }, async () => {
    await stopAgent(lab.lab, 'node-a')
    const cleanup = [inRoot('bin/waggle'), 'cleanup', '--bpffs', lab.lab.names.bpffs('node-a')]
    expect(await lab.exec('node-a', cleanup)).toMatchObject({ code: 0 })
    expect((await lab.exec('node-a', ['ip', 'link', 'show', 'eth0'])).out).not.toContain('xdp')
  })
})

describe.skipIf(CANNOT_RUN)(titled('where XDP cannot serve'), () => {
  let lab: TestLab
  beforeAll(async () => {
    lab = await TestLab.up({ objects: OBJECTS, agents: false })
    leaveChecksums(lab, false)
    await startAgent(lab.lab, 'node-b')
  })
  afterAll(() => lab?.down())

  const served = () => lab.load('client', TARGETS[0] as string, { count: 50 })

  test('a veth whose peer takes no frames: auto leaves it to tc until it does, native only drops', {
    timeout: 90_000,
  }, async () => {
    await startAgent(lab.lab, 'node-a', ['--xdp', 'auto'])
    await expect.poll(() => eth0(lab), SOON).toMatchObject({ xdp: '', xdpReason: expect.stringContaining('peer') })
    expect(await served()).toMatchObject({ ok: 50, errors: {} })
    offload(lab, 'router', 'gro-on', 'node-a')
    await expect.poll(() => eth0(lab), SOON).toMatchObject({ xdp: 'native', xdpReason: '' })
    expect(await served()).toMatchObject({ ok: 50, errors: {} })
    offload(lab, 'router', 'gro-off', 'node-a')
    await expect.poll(() => eth0(lab), SOON).toMatchObject({ xdp: '' })

    await stopAgent(lab.lab, 'node-a')
    await startAgent(lab.lab, 'node-a', ['--xdp', 'native'])
    await expect
      .poll(() => eth0(lab), SOON)
      .toMatchObject({ xdp: 'native', xdpReason: expect.stringContaining('drops only') })
    expect(await served()).toMatchObject({ ok: 50, errors: {} })
    await stopAgent(lab.lab, 'node-a')
  })

  test("another program's device: it stays, and tc serves", { timeout: 90_000 }, async () => {
    const lib = loadNative()
    const object = lib.openObject(path.join(dir, 'foreign.bpf.o'))
    try {
      object.load()
      const namespace = lab.lab.names.namespacePath('node-a')
      await startAgent(lab.lab, 'node-a', ['--xdp', 'off'])
      await stopAgent(lab.lab, 'node-a')
      const link = lib.inNetns(namespace, () =>
        lib.attachXdp(object.program('foreign_xdp'), lib.ifNameToIndex('eth0'), 2),
      )
      for (const mode of ['auto', 'native', 'generic']) {
        await startAgent(lab.lab, 'node-a', ['--xdp', mode])
        await expect
          .poll(() => eth0(lab), SOON)
          .toMatchObject({ xdp: '', xdpReason: 'another XDP program is there', tc: 'tcx' })
        expect(await served()).toMatchObject({ ok: 50, errors: {} })
        await stopAgent(lab.lab, 'node-a')
      }
      expect(link.info.ifindex).toBeGreaterThan(0)
      await startAgent(lab.lab, 'node-a', ['--xdp', 'generic'])
      link.close()
      await expect.poll(() => eth0(lab), SOON).toMatchObject({ xdp: 'generic', xdpReason: '' })
    } finally {
      object.close()
    }
  })
})
