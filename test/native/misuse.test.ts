import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ADDON, describeKernel, Rig, run } from './rig.js'

/** Three seconds on an idle machine, many more on a busy one. */
const PATIENCE_S = 240

describeKernel('misuse', () => {
  const rig = new Rig()

  test(
    'every wrong argument is an Error, and the process lives',
    async () => {
      const seed = String(Date.now() % 2 ** 31)
      const program = await rig.bundle('misuse-program')
      const words = [program, rig.compile('fixture'), rig.cgroup(), join(rig.dir, 'places'), seed]
      // Own namespaces: a call that is taken by mistake attaches or mounts where it harms nobody.
      const node = ['--net', '--mount', process.execPath, '--expose-gc', ...words]
      const ended = await run('unshare', node, { WAGGLE_NATIVE: ADDON }, PATIENCE_S)
      expect({ ...ended, stdout: '', seed }).toEqual({ status: 0, signal: null, stdout: '', stderr: '', seed })
      const { calls, wrong } = JSON.parse(ended.stdout) as { calls: number; wrong: string[] }
      expect({ wrong, seed }).toEqual({ wrong: [], seed })
      expect(calls).toBeGreaterThan(5000)
    },
    PATIENCE_S * 1000,
  )
})
