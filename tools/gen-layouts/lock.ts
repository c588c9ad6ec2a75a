import { LayoutError, type Layouts, type MapDeclaration, type Shape, type Struct, sizeOf } from './model.js'

/**
 * bpf/layouts.lock: one block of text per map name, the bytes of its key and value
 * spelled out. Pinned maps outlive the programs, so a name must mean one shape for ever:
 * a block never changes and never goes, new names are added.
 */

const HEADER = `# Shapes of the pinned maps, written by \`make gen\`. A block is never changed: a new
# layout takes a new version in the map's name (bpf/maps.h).
`

/** Map name to its block's lines (without the name). */
export type Lock = ReadonlyMap<string, string>

/** The blocks of all maps that are declared now. */
export function lockOf(layouts: Layouts): Lock {
  const structs = new Map(layouts.structs.map(each => [each.name, each]))
  return new Map(layouts.maps.map(map => [map.name, block(map, structs)]))
}

function block(map: MapDeclaration, structs: ReadonlyMap<string, Struct>): string {
  const line = (what: string, shape: Shape) =>
    `  ${what} ${sizeOf(shape, structs)}: ${fieldsOf(shape, 0, '', structs).join(' ')}`
  return [`  type ${map.type}`, line('key', map.key), line('value', map.value)].join('\n')
}

/** `to.src:address@0 to.sport:be16@32`: nested structs are written flat, so a change inside shows too. */
function fieldsOf(shape: Shape, offset: number, path: string, structs: ReadonlyMap<string, Struct>): string[] {
  const struct = shape.kind === 'struct' ? structs.get(shape.name) : undefined
  if (!struct) return [`${path}${path && ':'}${shapeName(shape)}@${offset}`]
  return struct.fields.flatMap(field =>
    fieldsOf(field.shape, offset + field.offset, path ? `${path}.${field.name}` : field.name, structs),
  )
}

function shapeName(shape: Shape): string {
  switch (shape.kind) {
    case 'uint':
      return `${shape.big ? 'be' : 'u'}${shape.bits}`
    case 'int':
      return `i${shape.bits}`
    case 'text':
      return `text[${shape.size}]`
    case 'address':
      return 'address'
    case 'array':
      return `${shapeName(shape.of)}[${shape.count}]`
    case 'struct':
      return shape.name
  }
}

/** Throws {@link LayoutError} when the text is not what {@link formatLock} writes. */
export function parseLock(text: string): Lock {
  const lock = new Map<string, string>()
  let name: string | undefined
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    if (!line.startsWith(' ')) {
      if (lock.has(line)) throw new LayoutError(`layouts.lock: ${line} stands there twice`)
      name = line
      lock.set(name, '')
      continue
    }
    if (name === undefined) throw new LayoutError(`layouts.lock: "${line.trim()}" belongs to no map`)
    const before = lock.get(name)
    lock.set(name, before ? `${before}\n${line}` : line)
  }
  return lock
}

export function formatLock(lock: Lock): string {
  const names = [...lock.keys()].sort()
  return `${HEADER}\n${names.map(name => `${name}\n${lock.get(name)}\n`).join('\n')}`
}

/**
 * `locked` with the new names of `current` added. Throws {@link LayoutError} naming the
 * map and both shapes when a locked one changed.
 */
export function extendLock(locked: Lock, current: Lock): Lock {
  const changed = [...current].filter(([name, shape]) => (locked.get(name) ?? shape) !== shape)
  if (changed.length > 0) throw new LayoutError(changed.map(([name]) => complaint(name, locked, current)).join('\n'))
  return new Map([...locked, ...current])
}

function complaint(name: string, locked: Lock, current: Lock): string {
  return `the layout of the pinned map ${name} changed; give it a new name (${nextName(name)}) in bpf/maps.h
locked:
${locked.get(name)}
now:
${current.get(name)}`
}

/** `flows_v1` becomes `flows_v2`. */
function nextName(name: string): string {
  return name.replace(/_v(\d+)$/, (_, version: string) => `_v${Number(version) + 1}`)
}
