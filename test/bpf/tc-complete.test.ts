import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfObject } from '../../src/ebpf/native.js'
import { TestServices } from './services.js'
import { missing } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

/**
 * Network cards may deliver the sum over the whole packet (CHECKSUM_COMPLETE), which has
 * to follow each change. Here a tunnel makes such packets: what arrives in VXLAN with a
 * checksum that nobody has looked at yet is summed by the kernel, and the inner packet
 * takes what is left of the sum along.
 *
 *   client 10.8.0.1 ══ VXLAN ══ 10.8.0.2 node
 */
const PREFIX = `waggle-tcc-${process.pid}`
const DATAGRAMS = 16

describe.skipIf(lacking)('a sum over the whole packet stays right', () => {
  const native = loadNative()
  const dir = mkdtempSync(join(tmpdir(), 'waggle-tcc-'))
  const objects: BpfObject[] = []
  const netns = (name: 'client' | 'node') => `/run/netns/${PREFIX}-${name}`

  function ip(name: 'client' | 'node', ...commands: string[]): void {
    execFileSync('ip', ['-n', `${PREFIX}-${name}`, '-batch', '-'], { input: commands.join('\n') })
  }

  function open(path: string): BpfObject {
    const object = native.openObject(path)
    objects.push(object)
    object.load()
    return object
  }

  beforeAll(() => {
    const offload = join(dir, 'tc-offload')
    const observer = join(dir, 'tc-complete.bpf.o')
    const here = import.meta.dirname
    const arch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
    execFileSync('gcc', ['-O1', '-o', offload, join(here, 'tc-offload.c')])
    const flags = ['-O2', '-g', '-target', 'bpf', '-mcpu=v3', `-I/usr/include/${arch}`]
    execFileSync('clang', [...flags, '-c', join(here, 'tc-complete.bpf.c'), '-o', observer])

    for (const name of ['client', 'node'] as const) execFileSync('ip', ['netns', 'add', `${PREFIX}-${name}`])
    ip('client', `link add e0 type veth peer name e0 netns ${PREFIX}-node`, 'link set lo up')
    ip('node', 'link set lo up')
    execFileSync(offload, [netns('client'), 'off', 'e0'])
    for (const [name, own, peer] of [
      ['client', 1, 2],
      ['node', 2, 1],
    ] as const) {
      ip(
        name,
        `addr add 10.9.0.${own}/24 dev e0`,
        'link set e0 up',
        `link add vx type vxlan id 7 dstport 4789 local 10.9.0.${own} remote 10.9.0.${peer} udpcsum`,
        `addr add 10.8.0.${own}/24 dev vx`,
        `addr add 2001:db8:8::${own}/64 dev vx nodad`,
        'link set vx up',
      )
    }

    const tc = open(join(here, '../../build/bpf/tc.bpf.o'))
    const services = new TestServices(tc)
    for (const [node, local] of [
      ['10.8.0.2', '10.8.0.22'],
      ['[2001:db8:8::2]', '[2001:db8:8::22]'],
    ] as const) {
      services.add({
        proto: 'UDP',
        frontends: [{ at: `${node}:80` }],
        backends: [{ at: `${local}:8080`, local: true }],
      })
    }
    native.inNetns(netns('node'), () => {
      const vx = native.ifNameToIndex('vx')
      native.attachClsact(tc.program('waggle_ingress'), vx, 'ingress', 1, 1)
      native.attachClsact(open(observer).program('observe'), vx, 'ingress', 2, 1)
    })
  })

  afterAll(() => {
    for (const object of objects) object.close()
    const left = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' }).split(/\s/)
    for (const name of [`${PREFIX}-client`, `${PREFIX}-node`]) {
      if (left.includes(name)) execFileSync('ip', ['netns', 'del', name])
    }
    rmSync(dir, { recursive: true })
  })

  /** Packets so far: without such a sum, right, wrong, too long to judge. */
  function verdicts(): number[] {
    const map = objects[1]?.map('verdicts')
    return [0, 1, 2, 3].map(key => {
      const value = map?.lookup(Uint8Array.of(key, 0, 0, 0))
      return value ? Number(new DataView(value.buffer, value.byteOffset).getBigUint64(0, true)) : 0
    })
  }

  test.each([
    { family: 'IPv4', address: '10.8.0.2' },
    { family: 'IPv6', address: '2001:db8:8::2' },
  ])('$family', async ({ address }) => {
    const before = verdicts()
    const code =
      `const u=require('dgram').createSocket('udp${address.includes(':') ? 6 : 4}');let n=${DATAGRAMS};` +
      `const next=()=>n-->0?u.send('x'.repeat(n),80,'${address}',next):process.exit();next()`
    execFileSync('nsenter', [`--net=${netns('client')}`, process.execPath, '-e', code])
    const more = (i: number) => (verdicts()[i] ?? 0) - (before[i] ?? 0)
    await expect.poll(() => more(1) + more(2)).toBeGreaterThanOrEqual(DATAGRAMS)
    expect(more(2)).toBe(0)
  })
})
