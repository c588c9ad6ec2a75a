import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ProgramType } from './kernel-enums.js'
import { addon, describeKernel, Rig, thrown, u32, u64 } from './rig.js'

const SK_BUFF = 192
const MARK = 8

function skBuff(mark: number): Uint8Array {
  const context = new Uint8Array(SK_BUFF)
  new DataView(context.buffer).setUint32(MARK, mark, true)
  return context
}

describeKernel('programs', () => {
  const rig = new Rig()

  test('a test run takes a packet and gives it back', () => {
    const program = rig.program('answer')
    const data = new Uint8Array(64).map((_, i) => i)
    const result = program.testRun({ data })
    expect(result).toMatchObject({ retval: 1, data, ctx: new Uint8Array(0) })
    expect(result.duration).toBeGreaterThanOrEqual(0)
    program.close()
  })

  test('a context goes in and comes out', () => {
    const object = rig.fixture(opened => opened.setConstant('cfg_flag', new Uint8Array([9])))
    const program = object.program('answer')
    const { ctx } = program.testRun({ data: new Uint8Array(64), ctxIn: skBuff(1) })
    expect(ctx.length).toBe(SK_BUFF)
    expect(new DataView(ctx.buffer, ctx.byteOffset).getUint32(MARK, true)).toBe(9)
    program.close()
    object.close()
  })

  test('a packet may grow', () => {
    const program = rig.program('grow')
    expect(program.info).toMatchObject({ name: 'grow', type: ProgramType.xdp })
    const { retval, data } = program.testRun({ data: new Uint8Array(64).fill(7) })
    expect(retval).toBe(2)
    expect(data.length).toBe(80)
    expect(data.subarray(16)).toEqual(new Uint8Array(64).fill(7))
    program.close()
  })

  test('repeated runs each do their work', () => {
    const object = rig.fixture()
    const words = object.map('words')
    const program = object.program('count')
    program.testRun({ data: new Uint8Array(64), repeat: 10 })
    expect(words.lookup(u32(0))).toEqual(u64(10n))
    expect(thrown(() => program.testRun({ data: new Uint8Array(64), repeat: 0 }))).toMatchObject({ name: 'RangeError' })
    for (const handle of [program, words, object]) handle.close()
  })

  test('live frames run as often as asked, and do not come back', () => {
    const program = rig.program('grow')
    // The program passes them, so they come to the loopback device of a namespace of their own.
    const { data } = program.testRun({ data: new Uint8Array(64), repeat: 3, flags: 2 })
    expect(data.length).toBe(0)
    expect(thrown(() => program.testRun({ data: new Uint8Array(64), flags: 64 }))).toMatchObject({ code: 'EINVAL' })
    program.close()
  })

  test('equal instructions, equal tag', () => {
    const one = rig.program('answer')
    const two = rig.program('answer')
    const other = rig.program('emit')
    expect(one.info.id).not.toBe(two.info.id)
    expect(one.info.tag).toBe(two.info.tag)
    expect(one.info.tag).not.toBe(other.info.tag)
    for (const program of [one, two, other]) program.close()
  })

  test('pinned and opened again, it is the same program', () => {
    const path = join(rig.bpffs(), 'answer')
    const program = rig.program('answer')
    program.pin(path)
    const { info } = program
    program.close()
    const again = addon().openProgram(path)
    expect(again.info).toEqual(info)
    expect(thrown(() => addon().openMap(path))).toMatchObject({ code: 'EINVAL' })
    again.close()
    again.close()
    expect(thrown(() => again.testRun({ data: new Uint8Array(64) }))).toMatchObject({ code: 'ERR_CLOSED' })
    expect(thrown(() => again.pin(path))).toMatchObject({ code: 'ERR_CLOSED', object: 'answer' })
  })

  test.each([
    { name: 'no packet', options: {}, code: 'EINVAL' },
    { name: 'a packet too short', options: { data: new Uint8Array(5) }, code: 'EINVAL' },
    { name: 'a packet too long', options: { data: new Uint8Array(10_000_000) }, code: 'EINVAL' },
    {
      name: 'an unknown context',
      options: { data: new Uint8Array(64), ctxIn: new Uint8Array(4096).fill(1) },
      code: 'E2BIG',
    },
  ])('a run that the kernel refuses: $name', ({ options, code }) => {
    const program = rig.program('answer')
    expect(thrown(() => program.testRun(options))).toMatchObject({
      code,
      syscall: 'bpf_prog_test_run_opts',
      object: 'answer',
    })
    program.close()
  })

  test('a type that cannot be tested', () => {
    const program = rig.program('allow')
    expect(thrown(() => program.testRun({ ctxIn: u32(1) }))).toMatchObject({ code: 'ENOTSUPP', errno: 524 })
    program.close()
  })

  test('options that close the handle while they are read', () => {
    const program = rig.program('answer')
    const options = {
      get data(): Uint8Array {
        program.close()
        return new Uint8Array(64)
      },
    }
    expect(thrown(() => program.testRun(options))).toMatchObject({ code: 'ERR_CLOSED' })
  })
})
