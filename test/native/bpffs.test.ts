import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { addon, describeKernel, Rig, thrown } from './rig.js'

const BPF_FS_MAGIC = 0xcafe4a11

const mounts = (path: string) =>
  readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .filter(line => line.includes(` ${path} `))

describeKernel('bpffs', () => {
  const rig = new Rig()

  test('is made where none is, once', () => {
    const path = rig.bpffs()
    expect(statfsSync(path).type).toBe(BPF_FS_MAGIC)
    expect(statSync(path).mode & 0o777).toBe(0o700)
    addon().mountBpffs(path)
    expect(mounts(path)).toHaveLength(1)
  })

  test('a folder of a bpffs is one already', () => {
    const path = join(rig.bpffs(), 'below')
    addon().mountBpffs(path)
    expect(statfsSync(path).type).toBe(BPF_FS_MAGIC)
    expect(mounts(path)).toHaveLength(0)
  })

  test('an existing empty folder is mounted over', () => {
    const path = join(rig.dir, 'existing')
    mkdirSync(path)
    addon().mountBpffs(path)
    rig.later(() => execFileSync('umount', [path]))
    expect(statfsSync(path).type).toBe(BPF_FS_MAGIC)
  })

  test('a folder in use is not hidden', () => {
    const path = join(rig.dir, 'used')
    mkdirSync(path)
    writeFileSync(join(path, 'file'), '')
    expect(thrown(() => addon().mountBpffs(path))).toMatchObject({ code: 'ENOTEMPTY', syscall: 'mount', object: path })
    expect(mounts(path)).toHaveLength(0)
  })

  test('what cannot be a folder', () => {
    const file = join(rig.dir, 'file')
    writeFileSync(file, '')
    expect(thrown(() => addon().mountBpffs(file))).toMatchObject({ code: 'ENOTDIR', syscall: 'mount', object: file })
    expect(thrown(() => addon().mountBpffs(join(rig.dir, 'no/such')))).toMatchObject({
      code: 'ENOENT',
      syscall: 'mkdir',
    })
    expect(thrown(() => addon().mountBpffs(`/${'x'.repeat(5000)}`))).toMatchObject({ code: 'ENAMETOOLONG' })
  })
})
