import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bpfDescriptors } from './descriptors.js'
import { ProgramType } from './kernel-enums.js'
import { addon, bytesOf, describeKernel, Rig, thrown, u32 } from './rig.js'

describeKernel('objects', () => {
  const rig = new Rig()

  test('names are those in the ELF, data sections with their dot', () => {
    const object = addon().openObject(rig.compile('fixture'))
    expect(object.mapNames().sort()).toEqual([
      '.rodata.config',
      'cells',
      'events',
      'fixture.rodata',
      'waggle_autopin',
      'words',
    ])
    expect(object.programNames()).toEqual([
      'answer',
      'copy_cell',
      'put_word',
      'count',
      'emit',
      'grow',
      'refuse',
      'allow',
    ])
    object.close()
  })

  test('a constant set before load is what the program returns', () => {
    const object = rig.fixture(opened => opened.setConstant('cfg_answer', u32(4711)))
    const program = object.program('answer')
    expect(program.testRun({ data: new Uint8Array(64) }).retval).toBe(4711)
    program.close()
    object.close()
  })

  test('a constant of another size, unknown, or not a constant', () => {
    const object = addon().openObject(rig.compile('fixture'))
    expect(thrown(() => object.setConstant('cfg_answer', new Uint8Array(8)))).toMatchObject({
      name: 'RangeError',
      message: 'setConstant: cfg_answer has 4 bytes, not 8',
    })
    expect(thrown(() => object.setConstant('cfg_other', u32(1)))).toMatchObject({ code: 'ENOENT', object: 'cfg_other' })
    expect(thrown(() => object.setConstant('words', u32(1)))).toMatchObject({ code: 'ENOENT' })
    object.close()
  })

  test('max entries set before load are what the kernel makes', () => {
    const object = rig.fixture(opened => opened.setMaxEntries('words', 77))
    const map = object.map('words')
    expect(map.info).toMatchObject({ name: 'words', keySize: 4, valueSize: 8, maxEntries: 77 })
    map.close()
    object.close()
  })

  test('a program left out of the load cannot be had', () => {
    const object = rig.fixture(opened => opened.setAutoload('grow', false))
    expect(thrown(() => object.program('grow'))).toMatchObject({ code: 'ENOENT', object: 'grow' })
    const program = object.program('answer')
    expect(program.info).toMatchObject({ name: 'answer', type: ProgramType.schedCls })
    expect(program.info.tag).toMatch(/^[0-9a-f]{16}$/)
    program.close()
    object.close()
  })

  test('a reused map is shared, and must have the same shape', () => {
    const first = rig.fixture()
    const words = first.map('words')
    const cells = first.map('cells')
    words.update(u32(5), new Uint8Array(8).fill(9))
    const second = rig.fixture(opened => opened.reuseMap('words', words))
    const same = second.map('words')
    expect(same.info.id).toBe(words.info.id)
    expect(same.lookup(u32(5))).toEqual(new Uint8Array(8).fill(9))

    const third = addon().openObject(rig.compile('fixture'))
    expect(thrown(() => third.reuseMap('words', cells))).toMatchObject({
      code: 'EINVAL',
      object: 'words',
      log: 'type 1 (existing: 2), value_size 8 (existing: 12), max_entries 64 (existing: 1000), map_flags 0 (existing: 1024)',
    })
    third.setMaxEntries('words', 65)
    expect(thrown(() => third.reuseMap('words', words)).log).toBe('max_entries 65 (existing: 64)')
    for (const handle of [third, same, second, cells, words, first]) handle.close()
  })

  test('a reused map keeps the name it has in the ELF', () => {
    const other = addon().createMap({ type: 1, name: 'elsewhere', keySize: 4, valueSize: 8, maxEntries: 64 })
    const object = rig.fixture(opened => opened.reuseMap('words', other))
    const map = object.map('words')
    expect(map.info).toEqual(other.info)
    for (const handle of [map, object, other]) handle.close()
  })

  test('a declaration that asks for pinning pins nothing', () => {
    const object = rig.fixture()
    expect(existsSync('/sys/fs/bpf/waggle_autopin')).toBe(false)
    object.close()
  })

  test('handles outlive their object', () => {
    const before = bpfDescriptors()
    const object = rig.fixture()
    const map = object.map('words')
    const program = object.program('answer')
    object.close()
    map.update(u32(1), new Uint8Array(8))
    expect(program.testRun({ data: new Uint8Array(64) }).retval).toBe(1)
    expect(bpfDescriptors()).toBe(before + 2)
    map.close()
    program.close()
    expect(bpfDescriptors()).toBe(before)
  })

  test('each stage refuses the calls of another', () => {
    const object = addon().openObject(rig.compile('fixture'))
    expect(thrown(() => object.map('words'))).toMatchObject({ code: 'EINVAL', log: 'the object is not loaded' })
    expect(thrown(() => object.program('answer'))).toMatchObject({ code: 'EINVAL' })
    object.load()
    expect(thrown(() => object.load())).toMatchObject({ code: 'EBUSY', syscall: 'load', object: 'fixture' })
    expect(thrown(() => object.setMaxEntries('words', 5))).toMatchObject({ code: 'EBUSY' })
    expect(thrown(() => object.setConstant('cfg_answer', u32(1)))).toMatchObject({ code: 'EBUSY' })
    expect(thrown(() => object.setAutoload('answer', false))).toMatchObject({ code: 'EBUSY' })
    expect(thrown(() => object.map('absent'))).toMatchObject({ code: 'ENOENT', object: 'absent' })
    expect(thrown(() => object.program('absent'))).toMatchObject({ code: 'ENOENT', object: 'absent' })
    object.close()
    object.close()
    expect(thrown(() => object.mapNames())).toMatchObject({
      code: 'ERR_CLOSED',
      errno: 0,
      message: "mapNames: 'fixture' is closed",
    })
    expect(thrown(() => object.map('words'))).toMatchObject({ code: 'ERR_CLOSED' })
  })

  test('what the verifier says is in the error, and one failure is final', () => {
    const object = addon().openObject(rig.compile('broken'))
    const error = thrown(() => object.load())
    expect(error).toMatchObject({ code: 'EACCES', errno: 13, syscall: 'bpf_object__load', object: 'broken' })
    expect(error.log).toContain('invalid access to packet')
    expect(error.log).toContain("prog 'unchecked'")
    expect(thrown(() => object.load())).toMatchObject({ code: 'EBUSY' })
    expect(thrown(() => object.program('unchecked'))).toMatchObject({ code: 'EINVAL' })
    object.close()
  })

  test.each([
    { name: 'absent', path: '/nonexistent/x.bpf.o', code: 'ENOENT' },
    { name: 'a directory', path: '/tmp', code: 'EISDIR' },
    { name: 'a device', path: '/dev/zero', code: 'EINVAL' },
    { name: 'no ELF', path: '/etc/passwd', code: 'LIBBPF_ERRNO__FORMAT' },
    { name: 'an ELF of another machine', path: process.execPath, code: 'LIBBPF_ERRNO__FORMAT' },
  ])('a file that is no object: $name', ({ path, code }) => {
    expect(thrown(() => addon().openObject(path))).toMatchObject({ code, object: path })
  })

  test('an object that is cut short at any place is an error or an object, never the end', () => {
    const whole = bytesOf(rig.compile('fixture'))
    const path = join(rig.dir, 'cut.bpf.o')
    let refused = 0
    for (let length = 0; length < whole.length; length += 97) {
      writeFileSync(path, whole.subarray(0, length))
      try {
        addon().openObject(path).close()
      } catch {
        refused++
      }
    }
    expect(refused).toBeGreaterThan(whole.length / 97 / 2)
  })
})
