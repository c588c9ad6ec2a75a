import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfLink, Native } from '../../src/ebpf/native.js'
import { inRoot } from '../../tools/labkit/root.js'
import { service } from './manifests.js'
import { CANNOT_RUN, type LogLine, TestLab, titled } from './test-lab.js'

/** Devices come, change and go on a node that serves; somebody takes programs off. */

const OBJECTS = service({
  name: 'web',
  ip: 10,
  ports: [{ port: 80, nodePort: 30080 }],
  pods: ['pod-a1', 'pod-b1'],
})

/** Milliseconds that a change takes from the kernel's word to the agent's log: half of them, and all. */
const MEDIAN_MS = 250
const MOST_MS = 1000
/** Milliseconds after which a program is back. On a busy machine the look itself comes late. */
const BACK_MS = 2000
/** 400 programs on 200 devices: the kernel waits some 20 ms for each, more on a busy machine. */
const PATIENCE_MS = 60_000
const CONNECT4 = 10

describe.skipIf(CANNOT_RUN)(titled('devices'), () => {
  let native: Native
  let lab: TestLab
  beforeAll(async () => {
    native = loadNative()
    lab = await TestLab.up({ objects: OBJECTS, agentFlags: ['--devices', 'auto,dev*'] })
  })
  afterAll(() => lab?.down())

  const inNode = <T>(run: () => T): T => native.inNetns(lab.lab.names.namespacePath('node-a'), run)
  const ip = async (words: string, input = '') => {
    const { code, err } = await lab.exec('node-a', ['ip', ...words.split(' ')], input)
    if (code !== 0) throw new Error(`ip ${words}: ${err}`)
  }
  const pins = () => readdirSync(path.join(lab.lab.names.bpffs('node-a'), 'waggle/links')).sort()
  const programId = async (name: string) => {
    const rows = await lab.show('node-a', 'programs')
    return rows.find(row => row.name === name)?.id as number
  }
  const linksOf = (id: number): number[] => {
    const all = JSON.parse(execFileSync('bpftool', ['-j', 'link', 'list'], { encoding: 'utf8' }))
    return (all as { id: number; prog_id: number }[]).filter(link => link.prog_id === id).map(link => link.id)
  }
  const restored = async (program: string): Promise<number> => {
    const { out } = await lab.exec('node-a', ['curl', '-sS', 'http://127.0.0.1:10249/metrics'])
    return Number(new RegExp(`^waggle_programs_restored_total{program="${program}"} (\\d+)$`, 'm').exec(out)?.[1] ?? 0)
  }
  const until = async (what: string, ms: number, holds: () => boolean) => {
    const deadline = Date.now() + ms
    while (!holds()) {
      if (Date.now() > deadline) throw new Error(`not within ${ms} ms: ${what}\n${lab.lab.logTail('node-a', 20)}`)
      await sleep(5)
    }
  }

  /** Milliseconds from when the kernel tells of the first thing that `words` do until such a line in the agent's log. */
  async function followed(words: string, isDone: (line: LogLine) => boolean): Promise<number> {
    const from = lab.log('node-a').length
    let told = 0
    const watch = inNode(() => native.openNetlinkWatch(() => (told ||= Date.now())))
    try {
      await ip(words)
      await until(words, 15_000, () => told > 0 && lab.log('node-a').slice(from).some(isDone))
    } finally {
      watch.close()
    }
    const line = lab.log('node-a').slice(from).find(isDone)
    return Date.parse(String(line?.time)) - told
  }

  test('a device is followed when it comes, gets an address, another name, and goes', async () => {
    const took: Record<string, number[]> = { comes: [], address: [], name: [], goes: [] }
    const serves = (names: string) => (line: LogLine) => line.msg === 'serving devices' && line.devices === names
    for (let round = 0; round < 5; round++) {
      const one = `dev${round}`
      const other = `dev${round}x`
      const attached = (name: string) => (line: LogLine) => line.msg === 'attached to device' && line.device === name
      took.comes?.push(await followed(`link add ${one} type veth peer name peer${round}`, attached(one)))
      await ip('-b -', `link set ${one} up\nlink set peer${round} up\n`)
      await sleep(200)
      took.address?.push(await followed(`address add 10.77.0.${round + 1}/24 dev ${one}`, serves(`${one},eth0`)))
      await sleep(200)
      took.name?.push(await followed(`link set ${one} name ${other}`, attached(other)))
      took.goes?.push(await followed(`link del ${other}`, serves('eth0')))
    }
    console.log('milliseconds from the kernel to the log:', JSON.stringify(took))
    const all = Object.values(took)
      .flat()
      .sort((a, b) => a - b)
    expect(all).toHaveLength(20)
    expect(all[10]).toBeLessThan(MEDIAN_MS)
    expect(all[19]).toBeLessThan(MOST_MS)
  })

  test('200 devices that come and go leave no link and no pin', async () => {
    const before = pins()
    const program = await programId('waggle_ingress')
    expect(linksOf(program)).toHaveLength(1)
    const make = (i: number) => `link add dev${i} type veth peer name peer${i}\n`
    const remove = (i: number) => `link del dev${i}\n`
    const all = Array.from({ length: 200 }, (_, i) => i)
    await ip('-b -', all.map(i => make(i) + remove(i)).join(''))
    await ip('-b -', all.map(make).join(''))
    try {
      await until('links on all of them', PATIENCE_MS, () => pins().length === before.length + 400)
      expect(linksOf(program)).toHaveLength(201)
    } finally {
      await ip('-b -', all.map(remove).join(''))
    }
    await until('links of none of them', PATIENCE_MS, () => pins().length === before.length)
    expect(pins()).toEqual(before)
    expect(linksOf(program)).toHaveLength(1)
    const { ok, failed } = await lab.load('client', '192.168.0.11:30080', { count: 50 })
    expect({ ok, failed }).toEqual({ ok: 50, failed: 0 })
  })

  describe('a program that somebody takes off is back and counted, those of others stay', () => {
    let dir: string
    const links: BpfLink[] = []
    let foreign: { tc: number; connect: number }

    beforeAll(() => {
      dir = mkdtempSync(path.join(tmpdir(), 'waggle-devices-'))
      const object = path.join(dir, 'foreign.bpf.o')
      const multiarch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
      const flags = ['-O2', '-g', '-Wall', '-Werror', '-target', 'bpf', `-I/usr/include/${multiarch}`]
      execFileSync('clang', [...flags, '-c', inRoot('test/netns/foreign.bpf.c'), '-o', object])
      const opened = native.openObject(object)
      opened.load()
      const [tc, connect] = [opened.program('foreign_tc'), opened.program('foreign_connect')]
      foreign = { tc: tc.info.id, connect: connect.info.id }
      links.push(inNode(() => native.attachTcx(tc, native.ifNameToIndex('eth0'), 'ingress', 'after')))
      links.push(native.attachCgroup(connect, lab.lab.nodeCgroup('node-a'), CONNECT4))
      opened.close()
    })
    afterAll(() => {
      for (const link of links) link.close()
      if (dir) rmSync(dir, { recursive: true })
    })

    const onEth0 = (direction: 'ingress' | 'egress') =>
      inNode(() => native.queryTcx(native.ifNameToIndex('eth0'), direction))
    const onCgroup = () => native.queryCgroup(lab.lab.nodeCgroup('node-a'), CONNECT4)
    const detach = (id: number) => {
      for (const link of linksOf(id)) execFileSync('bpftool', ['link', 'detach', 'id', String(link)])
    }
    const unpin = (name: RegExp) => {
      const found = pins().filter(pin => name.test(pin))
      expect(found).toHaveLength(1)
      for (const pin of found) rmSync(path.join(lab.lab.names.bpffs('node-a'), 'waggle/links', pin))
    }

    test.each([
      { how: 'its link is detached', program: 'waggle_ingress', take: detach, see: () => onEth0('ingress') },
      { how: 'its link is detached', program: 'sock_connect4', take: detach, see: onCgroup },
      {
        how: 'its pin is removed',
        program: 'waggle_egress',
        take: () => unpin(/^tcx_egress_/),
        see: () => onEth0('egress'),
      },
      { how: 'its pin is removed', program: 'sock_connect4', take: () => unpin(/^sock_connect4$/), see: onCgroup },
    ])('$program: $how', async ({ program, take, see }) => {
      const id = await programId(program)
      const [before, counted, from] = [see(), await restored(program), lab.log('node-a').length]
      expect(before).toContain(id)
      take(id)
      const taken = Date.now()
      await until(
        `${program} is back`,
        15_000,
        () =>
          lab
            .log('node-a')
            .slice(from)
            .some(line => line.program === program) && see().includes(id),
      )
      const took = Date.now() - taken
      console.log(`${program} is back after ${took} ms`)
      expect(took).toBeLessThan(BACK_MS)
      expect(see().sort()).toEqual(before.sort())
      expect(onEth0('ingress')).toContain(foreign.tc)
      expect(onCgroup()).toContain(foreign.connect)
      await sleep(100)
      expect(await restored(program)).toBe(counted + 1)
      const line = lab
        .log('node-a')
        .slice(from)
        .find(each => each.program === program)
      expect(line).toMatchObject({ msg: 'program was detached by somebody else, attaching it again' })
    })
  })
})
