import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { describeKernel, Rig, run } from './rig.js'
import { stages } from './stages.js'

const ROOT = join(import.meta.dirname, '../..')
const ADDRESS_SANITIZED = 'build/asan/waggle_native.node'
/** A build of some twenty files, and calls that are several times slower. */
const PATIENCE_S = 400

describeKernel('under AddressSanitizer', () => {
  const rig = new Rig()
  const env: NodeJS.ProcessEnv = {}
  let fixture = ''

  beforeAll(() => {
    execFileSync('make', [ADDRESS_SANITIZED], { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] })
    // libstdc++ beside it, since the sanitizer looks for its exceptions when it starts.
    const libraries = ['libasan.so', 'libstdc++.so'].map(library => {
      const path = execFileSync('g++', [`-print-file-name=${library}`], { encoding: 'utf8' }).trim()
      if (!existsSync(path)) throw new Error(`${library} is missing: it comes with g++`)
      return path
    })
    Object.assign(env, {
      LD_PRELOAD: libraries.join(':'),
      // What node itself never frees is not ours to report.
      ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=0:exitcode=99',
      WAGGLE_NATIVE: join(ROOT, ADDRESS_SANITIZED),
    })
    fixture = rig.compile('fixture')
  }, PATIENCE_S * 1000)

  test(
    'misuse touches no memory that it must not',
    async () => {
      const seed = String(Date.now() % 2 ** 31)
      const program = await rig.bundle('misuse-program')
      const words = [program, fixture, rig.cgroup(), join(rig.dir, 'places'), seed]
      const node = ['--net', '--mount', process.execPath, '--expose-gc', ...words]
      const ended = await run('unshare', node, env, PATIENCE_S)
      expect({ ...ended, stdout: '', seed }).toEqual({ status: 0, signal: null, stdout: '', stderr: '', seed })
      expect({ ...JSON.parse(ended.stdout), seed }).toMatchObject({ wrong: [], seed })
    },
    PATIENCE_S * 1000,
  )

  test(
    'nor does any stage of life',
    async () => {
      const program = await rig.bundle('stages-program')
      const places = [fixture, rig.cgroup(), rig.netns()]
      for (const stage of Object.keys(stages)) {
        const ended = await run(process.execPath, ['--expose-gc', program, stage, ...places], env, PATIENCE_S)
        expect({ stage, ...ended }).toEqual({ stage, status: 0, signal: null, stdout: '', stderr: '' })
      }
    },
    PATIENCE_S * 1000,
  )
})
