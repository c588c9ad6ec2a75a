import type { ChildProcess } from 'node:child_process'
import { mkdirSync, rmdirSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cgroupRoot } from '../../tools/labkit/machine.js'
import { inRoot } from '../../tools/labkit/root.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/**
 * Pods whose sockets the node does not see (a VM, gVisor): their packets are served on
 * their devices. Here the agents are given a cgroup without processes, so no socket is.
 */
const PORTS = [
  { name: 'tcp', port: 80 },
  { name: 'udp', protocol: 'UDP' as const, port: 80 },
]
const web = (name: string, ip: number, pods: string[]) =>
  service({ name, ip, loadBalancer: ip, ports: PORTS.map(port => ({ ...port, nodePort: 30080 + ip })), pods })

const OBJECTS = [
  ...web('here', 10, ['pod-a2']),
  ...web('there', 11, ['pod-b1']),
  ...web('itself', 12, ['pod-a1']),
  ...web('host-here', 14, ['node-a']),
  ...web('host-there', 15, ['node-b']),
  ...web('all', 13, ['pod-a1', 'pod-a2', 'pod-b1', 'pod-b2']),
]

const frontends = (last: number) => [
  `10.96.0.${last}:80`,
  `[2001:db8:96::${last}]:80`,
  `198.51.100.${last}:80`,
  `[2001:db8:198::${last}]:80`,
  `192.168.0.11:${30080 + last}`,
  `[2001:db8:192::11]:${30080 + last}`,
  `192.168.0.12:${30080 + last}`,
  `[2001:db8:192::12]:${30080 + last}`,
]
const KEPT = ['10.244.1.11', '2001:db8:244:1::11']
const NODE_A = ['192.168.0.11', '2001:db8:192::11']

describe.skipIf(CANNOT_RUN)(titled('pods served by their packets'), () => {
  const cgroup = path.join(cgroupRoot() ?? '/sys/fs/cgroup', `waggle-pod-devices-${process.pid}`)
  let lab: TestLab
  const echoes: ChildProcess[] = []
  beforeAll(async () => {
    mkdirSync(cgroup)
    lab = await TestLab.up({ objects: OBJECTS, agentFlags: ['--cgroup', cgroup, '--devices', 'eth0,pod-*'] })
    for (const node of ['node-a', 'node-b']) {
      const echo = lab.lab.spawn(node, [process.execPath, inRoot('build/echo.mjs'), node, '8080'], { stdio: 'ignore' })
      echoes.push(echo)
    }
    for (const node of ['node-a', 'node-b']) await listening(lab, node)
  })
  afterAll(async () => {
    for (const echo of echoes) echo.kill()
    await lab?.down()
    rmdirSync(cgroup)
  })

  describe.each(['tcp', 'udp'] as const)('%s', mode => {
    test.each(frontends(10))('a backend of its node sees the pod: %s', async target => {
      const result = await lab.load('pod-a1', target, { mode, count: 20 })
      expect(result).toMatchObject({ backends: { 'pod-a2': 20 }, errors: {} })
      if (!target.includes('192.168.0.12') && !target.includes('192::12')) {
        expect(KEPT).toContain(Object.keys(result.peers)[0])
      }
    })

    test.each(frontends(11))('a backend of another node is reached: %s', async target => {
      const result = await lab.load('pod-a1', target, { mode, count: 20 })
      expect(result).toMatchObject({ backends: { 'pod-b1': 20 }, errors: {} })
    })

    test.each(frontends(12))('row 36: a pod reaches itself: %s', async target => {
      const result = await lab.load('pod-a1', target, { mode, count: 20 })
      expect(result).toMatchObject({ backends: { 'pod-a1': 20 }, errors: {} })
    })

    test.each(frontends(14))('row 36: a backend in the host network of its node: %s', async target => {
      for (const client of ['pod-a1', 'client']) {
        if (client === 'client' && /^10\.96|^\[2001:db8:96:/.test(target)) continue
        const result = await lab.load(client, target, { mode, count: 10 })
        expect(result).toMatchObject({ backends: { 'node-a': 10 }, errors: {} })
      }
    })

    test.each(frontends(15))('a backend in the host network of another node: %s', async target => {
      for (const client of ['pod-a1', 'client']) {
        if (client === 'client' && /^10\.96|^\[2001:db8:96:/.test(target)) continue
        const result = await lab.load(client, target, { mode, count: 10 })
        expect(result).toMatchObject({ backends: { 'node-b': 10 }, errors: {} })
      }
    })

    test('and sees its node as the client', async () => {
      for (const target of frontends(12).slice(0, 2)) {
        const { peers } = await lab.load('pod-a1', target, { mode, count: 5 })
        expect(NODE_A).toContain(Object.keys(peers)[0])
      }
    })

    test('all backends serve all pods, and clients outside as ever', async () => {
      for (const host of ['pod-a1', 'pod-b2']) {
        const result = await lab.load(host, '10.96.0.13:80', { mode, count: 200 })
        expect(result.errors).toEqual({})
        expect(Object.keys(result.backends)).toHaveLength(4)
      }
      expect((await lab.load('client', '198.51.100.13:80', { mode, count: 50 })).errors).toEqual({})
    })
  })
})

/** Until the echo service in a node's host network answers. */
async function listening(lab: TestLab, node: string): Promise<void> {
  for (let tries = 0; tries < 50; tries++) {
    if ((await lab.load(node, '127.0.0.1:8080', { mode: 'tcp', count: 1 })).ok === 1) return
    await sleep(100)
  }
  throw new Error(`no echo service in the host network of ${node}`)
}
