import { beforeAll, expect, test } from 'vitest'
import { ADDON, describeKernel, Rig, run } from './rig.js'
import { stages } from './stages.js'

describeKernel('stages of life', () => {
  const rig = new Rig()
  let program = ''
  let places: string[] = []

  beforeAll(async () => {
    program = await rig.bundle('stages-program')
    places = [rig.compile('fixture'), rig.cgroup(), rig.netns()]
  })

  test.each(Object.keys(stages))('a process ends well when %s', async stage => {
    const ended = await run(process.execPath, ['--expose-gc', program, stage, ...places], { WAGGLE_NATIVE: ADDON })
    expect(ended).toEqual({ status: 0, signal: null, stdout: '', stderr: '' })
  })
})
