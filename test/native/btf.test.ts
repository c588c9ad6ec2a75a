import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { BtfType } from '../../src/ebpf/native.js'
import { addon, bytesOf, describeKernel, Rig, thrown } from './rig.js'

describeKernel('BTF', () => {
  const rig = new Rig()

  function read(): { types: BtfType[]; named: (name: string) => BtfType; at: (id: number) => BtfType } {
    const types = addon().readBtf(rig.compile('types'))
    return {
      types,
      named: name => types.find(type => type.name === name && type.kind !== 'var') as BtfType,
      at: id => types[id - 1] as BtfType,
    }
  }

  test('ids count from 1', () => {
    expect(read().types.map(type => type.id)).toEqual(read().types.map((_, i) => i + 1))
  })

  test('a struct with its members, bit-fields included', () => {
    const { named, at } = read()
    const sample = named('sample') as BtfType & { kind: 'struct' }
    expect(sample).toMatchObject({ kind: 'struct', size: 32 })
    expect(sample.members.map(({ name, bitOffset, bitSize }) => [name, bitOffset, bitSize])).toEqual([
      ['port', 0, 0],
      ['small', 16, 0],
      ['yes', 24, 0],
      ['low', 32, 3],
      ['high', 35, 29],
      ['either', 64, 0],
      ['colour', 96, 0],
      ['text', 128, 0],
      ['wide', 192, 0],
    ])
    const type = (name: string) => at(sample.members.find(member => member.name === name)?.type as number)
    expect(type('port')).toMatchObject({ kind: 'typedef', name: '__be16' })
    expect(type('yes')).toMatchObject({ kind: 'int', size: 1, bool: true })
    expect(type('either')).toMatchObject({ kind: 'union', size: 4, members: [{ name: 'number' }, { name: 'bytes' }] })
    const text = type('text') as BtfType & { kind: 'volatile' }
    expect(text.kind).toBe('volatile')
    expect(at(text.type).kind).toBe('ptr')
    const small = type('small') as BtfType & { kind: 'typedef' }
    expect(at(small.type)).toMatchObject({ kind: 'int', size: 1, signed: true, bool: false })
  })

  test('an array and an enum', () => {
    const { named, at } = read()
    const either = named('either') as BtfType & { kind: 'union' }
    expect(at(either.members[1]?.type as number)).toMatchObject({ kind: 'array', count: 4 })
    expect(named('colour')).toMatchObject({
      kind: 'enum',
      size: 4,
      values: [
        { name: 'RED', value: 0n },
        { name: 'GREEN', value: 7n },
        { name: 'LOUD', value: 0xffff_ffffn },
      ],
    })
  })

  test('variables and the sections that hold them', () => {
    const { types, named, at } = read()
    const section = named('.rodata.config') as BtfType & { kind: 'datasec' }
    expect(section).toMatchObject({ kind: 'datasec', variables: [{ size: 4 }] })
    expect(at(section.variables[0]?.type as number)).toMatchObject({ kind: 'var', name: 'a_colour' })
    expect(types.some(type => type.kind === 'var' && type.name === 'a_sample')).toBe(true)
  })

  test("the kernel's own types", () => {
    const types = addon().readBtf('/sys/kernel/btf/vmlinux')
    expect(types.length).toBeGreaterThan(10_000)
    expect(types.find(type => type.name === 'sk_buff' && type.kind === 'struct')).toBeDefined()
    expect(types.find(type => type.kind === 'other')).toMatchObject({ btfKind: expect.any(Number) })
  })

  test.each([
    { name: 'absent', path: '/nonexistent', code: 'ENOENT' },
    { name: 'a directory', path: '/tmp', code: 'EISDIR' },
    { name: 'a device', path: '/dev/zero', code: 'EINVAL' },
    { name: 'an ELF without BTF', path: process.execPath, code: 'ENOENT' },
  ])('a file without types: $name', ({ path, code }) => {
    expect(thrown(() => addon().readBtf(path))).toMatchObject({ code, object: path })
  })

  test('damaged bytes are an error or other types, never the end', () => {
    const whole = bytesOf('/sys/kernel/btf/vmlinux').subarray(0, 65_536)
    const path = join(rig.dir, 'damaged.btf')
    let errors = 0
    for (let seed = 1; seed <= 200; seed++) {
      const damaged = whole.slice(0, 200 + seed * 300)
      for (let i = 0; i < 5; i++) {
        const at = (seed * 2654435761 + i * 40503) % damaged.length
        damaged[at] = (damaged[at] as number) ^ (1 << (seed % 8))
      }
      writeFileSync(path, damaged)
      try {
        addon().readBtf(path)
      } catch {
        errors++
      }
    }
    expect(errors).toBeGreaterThan(0)
  })
})
