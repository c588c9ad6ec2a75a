import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { loadNative } from '../../src/ebpf/load-native.js'
import { ADDON, describeKernel, Rig, run, thrown } from './rig.js'

describeKernel('loading the addon', () => {
  const rig = new Rig()
  afterEach(() => vi.unstubAllEnvs())

  test('from the source tree', () => {
    expect(loadNative().libbpfVersion).toMatch(/^\d+\.\d+$/)
    expect(loadNative()).toBe(loadNative())
  })

  test('from beside a bundle', async () => {
    const program = await rig.bundle('load-program')
    const folder = join(rig.dir, 'installed')
    mkdirSync(folder)
    copyFileSync(program, join(folder, 'program.mjs'))
    copyFileSync(ADDON, join(folder, 'waggle_native.node'))
    const ended = await run(process.execPath, [join(folder, 'program.mjs')])
    expect(ended).toEqual({ status: 0, signal: null, stdout: `${loadNative().libbpfVersion}\n`, stderr: '' })
  })

  test('nowhere to be found: where it looked and what to do', async () => {
    const { status, stderr } = await run(process.execPath, [await rig.bundle('load-program')])
    expect(status).toBe(1)
    expect(stderr).toContain(`looked for ${rig.dir}/waggle_native.node and `)
    expect(stderr).toContain('run `make build`, or set WAGGLE_NATIVE')
  })

  test('named but absent', () => {
    vi.stubEnv('WAGGLE_NATIVE', '/nonexistent/addon.node')
    expect(() => loadNative()).toThrow('looked for /nonexistent/addon.node): WAGGLE_NATIVE must name the file')
  })

  test('a file that is no addon: the reason is the cause', () => {
    const path = join(rig.dir, 'text.node')
    writeFileSync(path, 'not an addon')
    vi.stubEnv('WAGGLE_NATIVE', path)
    const error = thrown(loadNative)
    expect(error.message).toContain(`the native addon ${path} does not load here`)
    expect(error.cause).toMatchObject({ code: 'ERR_DLOPEN_FAILED' })
  })
})
