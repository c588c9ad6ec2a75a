import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { maps } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { SOCK_EGRESS_HOOK, SOCK_HOOKS } from '../../src/ebpf/sock-hooks.js'
import { describeSockets } from './sock-rig.js'

const ROOT = join(import.meta.dirname, '../..')
const SOURCES = readdirSync(join(ROOT, 'bpf'))
  .filter(name => name.endsWith('.bpf.c'))
  .map(name => name.replace('.bpf.c', '.bpf.o'))

/** Small maps: this is about the verifier, and the defaults would cost 100 MB an object. */
function load(name: string, entries: number): { programs: string[]; maps: string[] } {
  const object = loadNative().openObject(join(ROOT, 'build/bpf', name))
  try {
    for (const map of Object.values(maps)) {
      if (map.maxEntries > entries) object.setMaxEntries(map.name, entries)
    }
    object.load()
    return { programs: object.programNames(), maps: object.mapNames() }
  } finally {
    object.close()
  }
}

describeSockets('the verifier', () => {
  test.each(SOURCES)('accepts every program of %s', name => {
    expect(load(name, 1024).maps).toEqual(expect.arrayContaining(Object.values(maps).map(map => map.name)))
  })

  test('accepts the socket layer with the maps as large as bpf/maps.h says', () => {
    expect(load('sock.bpf.o', Number.MAX_SAFE_INTEGER).programs.sort()).toEqual(
      SOCK_HOOKS.map(hook => hook.program).sort(),
    )
    expect(load('sockegress.bpf.o', 1024).programs).toEqual([SOCK_EGRESS_HOOK.program])
  })

  test('names of maps and programs fit into the kernel: at most 15 characters', () => {
    const names = [...Object.values(maps).map(map => map.name), ...SOURCES.flatMap(name => load(name, 1024).programs)]
    expect(names.filter(name => name.length > 15)).toEqual([])
  })
})
