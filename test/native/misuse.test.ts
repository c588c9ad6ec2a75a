import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ADDON, describeKernel, Rig, run } from './rig.js'

describeKernel('misuse', () => {
  const rig = new Rig()

  test('every wrong argument is an Error, and the process lives', async () => {
    const seed = String(Date.now() % 2 ** 31)
    const program = await rig.bundle('misuse-program')
    const words = [program, rig.compile('fixture'), rig.cgroup(), join(rig.dir, 'places'), seed]
    // Own namespaces: a call that is taken by mistake attaches or mounts where it harms nobody.
    const ended = await run('unshare', ['--net', '--mount', process.execPath, '--expose-gc', ...words], {
      WAGGLE_NATIVE: ADDON,
    })
    expect({ ...ended, stdout: '', seed }).toEqual({ status: 0, signal: null, stdout: '', stderr: '', seed })
    const { calls, wrong } = JSON.parse(ended.stdout) as { calls: number; wrong: string[] }
    expect(wrong).toEqual([])
    expect(calls).toBeGreaterThan(5000)
  })
})
