import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { up } from '../../tools/labkit/up.js'
import { labName, TestLab } from '../netns/test-lab.js'
import { ROOT } from './parts.js'

/** A lab whose agents read a real API server, which runs in the lab's own host `api`. */
export class KubeLab extends TestLab {
  /** Two nodes with their Node objects, and agents that are healthy. */
  static async withApiServer(): Promise<KubeLab> {
    const manifests = mkdtempSync(path.join(tmpdir(), 'waggle-kube-lab-'))
    try {
      const lab = await up({
        name: labName('k'),
        nodes: 2,
        dataplane: 'ebpf',
        source: 'kube',
        manifests,
        agents: true,
        agentFlags: [],
        progress: () => {},
      })
      return new KubeLab(lab, manifests)
    } catch (error) {
      rmSync(manifests, { recursive: true })
      throw error
    }
  }

  /** Ends the API server, or starts it again and waits until it is ready; etcd runs on. */
  async apiServer(command: 'stop' | 'start'): Promise<void> {
    const kubeApi = [path.join(ROOT, 'tools/kube-api'), command, '--dir', this.lab.names.apiDir]
    const { code, err } = await this.exec('api', kubeApi)
    if (code !== 0) throw new Error(`kube-api ${command}: exit status ${code}: ${err}`)
  }
}
