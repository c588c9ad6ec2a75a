import { expect, test } from 'vitest'
import { ADDON, describeKernel, Rig, run } from './rig.js'

/** Bits 12, 38 and 39. */
const EFFECTIVE = '000000c000001000'

describeKernel('capabilities', () => {
  const rig = new Rig()

  test('BPF, NET_ADMIN and PERFMON are enough for all but namespaces and mounts', async () => {
    const only = '-all,+bpf,+net_admin,+perfmon'
    const program = await rig.bundle('capabilities-program')
    const node = [process.execPath, program, rig.compile('fixture'), rig.cgroup()]
    const few = ['setpriv', `--bounding-set=${only}`, `--inh-caps=${only}`, ...node]
    const ended = await run('nsenter', [`--net=${rig.netns()}`, ...few], { WAGGLE_NATIVE: ADDON })
    expect({ ...ended, stdout: '' }).toEqual({ status: 0, signal: null, stdout: '', stderr: '' })
    expect(JSON.parse(ended.stdout)).toEqual({
      effective: EFFECTIVE,
      cgroup: true,
      clsact: true,
      xdp: true,
      testRun: 1,
    })
  })
})
