import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inRoot } from '../../tools/labkit/root.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** `waggle diff` between the manifests of a node and what its kernel holds, for each dataplane. */

const ports = [
  { name: 'tcp', port: 80, nodePort: 30080 },
  { name: 'udp', protocol: 'UDP' as const, port: 80, nodePort: 30080 },
]
const web = (pods: string[], spec: object = {}) => service({ name: 'web', ip: 10, loadBalancer: 10, ports, pods, spec })
const PODS = ['pod-a1', 'pod-a2', 'pod-b1']
const OTHER = service({ name: 'other', ip: 11, ports: [{ port: 80 }], pods: ['pod-b2'] })

interface Difference {
  readonly servicePort: string
  readonly onlyIn: string
  readonly what: string
}

describe.skipIf(CANNOT_RUN).each(['ebpf', 'iptables', 'nftables'])(titled('waggle diff --dataplane %s'), dataplane => {
  let lab: TestLab
  beforeAll(async () => {
    lab = await TestLab.up({ objects: [...web(PODS), ...OTHER], dataplane })
  })
  afterAll(() => lab?.down())

  async function diff(folder = lab.lab.names.manifests): Promise<{ code: number; differences: Difference[] }> {
    const places = ['--bpffs', lab.lab.names.bpffs('node-a'), '--node-name', 'node-a']
    const command = [inRoot('bin/waggle'), 'diff', '--dataplane', dataplane, '--source', `dir:${folder}`, '-o', 'json']
    const { code, out, err } = await lab.exec('node-a', [...command, ...places])
    if (code !== 0 && code !== 4) throw new Error(`exit status ${code}: ${err}`)
    return { code, differences: JSON.parse(out).differences }
  }

  test('none after an apply', async () => {
    expect(await diff()).toEqual({ code: 0, differences: [] })
  })

  test('what the manifests have more, and less', async () => {
    const changed = [...web(['pod-a1', 'pod-b1', 'pod-b2'], { externalTrafficPolicy: 'Local' })]
    const { code, differences } = await diff(lab.folder(changed))
    expect(code).toBe(4)
    const of = (side: string, name: string) =>
      differences.filter(each => each.onlyIn === side && each.what.includes(name)).map(each => each.servicePort)
    // pod-b2 comes, pod-a2 goes.
    expect(of('manifests', '10.244.2.12')).toContain('default/web:tcp/TCP/IPv4')
    if (dataplane === 'nftables') expect(of('kernel', 'chain service-')).toContain('default/web:tcp/TCP/IPv4')
    else expect(of('kernel', '10.244.1.12')).toContain('default/web:tcp/TCP/IPv4')
    // A Service that is gone: its frontend is still in the kernel.
    expect(of('kernel', '10.96.0.11').length).toBeGreaterThan(0)
    if (dataplane === 'ebpf') expect(of('manifests', 'externalTrafficPolicy Local')).toHaveLength(4)
  })
})
