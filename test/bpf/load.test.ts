import { readdirSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { mapNames } from '../../src/dataplane/ebpf/kernel-maps.js'
import { maps } from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { SOCK_EGRESS_HOOK, SOCK_HOOKS } from '../../src/ebpf/sock-hooks.js'
import { describeSockets } from './sock-rig.js'

const ROOT = join(import.meta.dirname, '../..')
const SOURCES = readdirSync(join(ROOT, 'bpf'))
  .filter(name => name.endsWith('.bpf.c'))
  .map(name => name.replace('.bpf.c', '.bpf.o'))

/** Half of what the verifier looks at before it gives up: the next kernel's may look at more. */
const MOST_INSTRUCTIONS = 500_000

interface LoadedObject {
  /** Names with the instructions that the verifier looked at. */
  readonly programs: ReadonlyMap<string, number>
  readonly maps: readonly string[]
}

/** What is off by default is verified, too. */
const SWITCHED_ON: Readonly<Record<string, readonly string[]>> = {
  'tc.bpf.o': ['cfg_adopt_conntrack'],
  'xdp.bpf.o': ['cfg_adopt_conntrack'],
  'tc_flat.bpf.o': ['cfg_adopt_conntrack'],
  'xdp_flat.bpf.o': ['cfg_adopt_conntrack'],
}

/** Small maps: this is about the verifier, and the defaults would cost 100 MB an object. */
function load(name: string, entries: number): LoadedObject {
  const object = loadNative().openObject(join(ROOT, 'build/bpf', name))
  try {
    const declared = new Set(object.mapNames())
    for (const map of Object.values(maps)) {
      if (map.maxEntries > entries && declared.has(map.name)) object.setMaxEntries(map.name, entries)
    }
    for (const constant of SWITCHED_ON[name] ?? []) object.setConstant(constant, Uint8Array.of(1))
    object.load()
    const programs = object.programNames().map(each => {
      const program = object.program(each)
      program.close()
      return [each, program.info.verifiedInstructions] as const
    })
    return { programs: new Map(programs), maps: object.mapNames() }
  } finally {
    object.close()
  }
}

/** The maps of bpf/maps.h, and those of the flow table that an object has. */
function mapsOf(file: string): string[] {
  const all = Object.keys(maps) as (keyof typeof maps)[]
  const none = mapNames(mapNames(all, 'hash'), 'flat')
  const kind = file.includes('_flat') ? 'flat' : 'hash'
  const names = /^(tc|xdp|flows)/.test(file) ? mapNames(all, kind) : none
  return names.map(name => maps[name].name)
}

describeSockets('the verifier', () => {
  test.each(SOURCES)('accepts every program of %s, within half of its limit', name => {
    const loaded = load(name, 1024)
    for (const [program, verified] of loaded.programs) {
      console.log(`Linux ${release()}  ${program.padEnd(16)} ${String(verified).padStart(7)} instructions verified`)
    }
    expect(loaded.maps).toEqual(expect.arrayContaining(mapsOf(name)))
    expect([...loaded.programs].filter(([, verified]) => verified > MOST_INSTRUCTIONS)).toEqual([])
  })

  test('accepts the socket layer with the maps as large as bpf/maps.h says', () => {
    expect([...load('sock.bpf.o', Number.MAX_SAFE_INTEGER).programs.keys()].sort()).toEqual(
      SOCK_HOOKS.map(hook => hook.program).sort(),
    )
    expect([...load('sockegress.bpf.o', 1024).programs.keys()]).toEqual([SOCK_EGRESS_HOOK.program])
  })

  test('names of maps and programs fit into the kernel: at most 15 characters', () => {
    const names = SOURCES.flatMap(name => {
      const object = loadNative().openObject(join(ROOT, 'build/bpf', name))
      const found = [...object.mapNames(), ...object.programNames()]
      object.close()
      return found
    })
    expect(names).toEqual(expect.arrayContaining(Object.values(maps).map(map => map.name)))
    expect(names.filter(name => name.length > 15 && !name.includes('.'))).toEqual([])
  })
})
