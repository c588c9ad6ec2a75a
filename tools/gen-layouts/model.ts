import type { BtfType } from '../../src/ebpf/native.js'

/**
 * What BTF says about the types in bpf/layout and the maps in bpf/maps.h, in the few
 * shapes that a codec can have. Whatever would be ambiguous in bytes is refused here:
 * unnamed padding, bit-fields, unions, pointers.
 */

export type Shape =
  | { readonly kind: 'uint'; readonly bits: 8 | 16 | 32 | 64; readonly big: boolean }
  | { readonly kind: 'int'; readonly bits: 32 }
  | { readonly kind: 'text'; readonly size: number }
  | { readonly kind: 'address' }
  | { readonly kind: 'array'; readonly of: Shape; readonly count: number }
  | { readonly kind: 'struct'; readonly name: string }

export interface Field {
  readonly name: string
  readonly offset: number
  readonly size: number
  readonly shape: Shape
}

export interface Struct {
  readonly name: string
  readonly size: number
  readonly fields: readonly Field[]
}

export interface Enum {
  readonly name: string
  readonly values: readonly { readonly name: string; readonly value: number }[]
}

export interface MapDeclaration {
  readonly name: string
  readonly type: number
  readonly flags: number
  /** 0 = not declared */
  readonly maxEntries: number
  readonly key: Shape
  readonly value: Shape
}

export interface Layouts {
  readonly enums: readonly Enum[]
  /** A struct stands behind those that it contains. */
  readonly structs: readonly Struct[]
  readonly maps: readonly MapDeclaration[]
}

/** A type in bpf/layout or bpf/maps.h that the generator does not accept. */
export class LayoutError extends Error {
  override readonly name = 'LayoutError'
}

/** Fields of these names are reserved: always zero, and not part of the value in TypeScript. */
export const RESERVED: ReadonlySet<string> = new Set(['zero', 'spare'])

/** Bytes that a shape takes; `structs` holds every struct met so far. */
export function sizeOf(shape: Shape, structs: ReadonlyMap<string, Struct>): number {
  switch (shape.kind) {
    case 'uint':
    case 'int':
      return shape.bits / 8
    case 'text':
      return shape.size
    case 'address':
      return 16
    case 'array':
      return shape.count * sizeOf(shape.of, structs)
    case 'struct':
      return structs.get(shape.name)?.size ?? 0
  }
}

/** Reads all enums, maps and the structs that maps use. Throws {@link LayoutError}. */
export function readLayouts(btf: readonly BtfType[]): Layouts {
  const byId = new Map(btf.map(type => [type.id, type]))
  const structs = new Map<string, Struct>()

  const get = (id: number): BtfType => {
    const type = byId.get(id)
    if (!type) throw new LayoutError(`BTF has no type ${id}`)
    return type
  }

  const fail = (where: string, what: string): never => {
    throw new LayoutError(`${where}: ${what}`)
  }

  /** `big` is set once a typedef of the kernel's big-endian types was passed. */
  const shapeOf = (id: number, where: string, big = false): Shape => {
    const type = get(id)
    switch (type.kind) {
      case 'typedef':
        return shapeOf(type.type, where, big || type.name === '__be16' || type.name === '__be32')
      case 'const':
      case 'volatile':
        return shapeOf(type.type, where, big)
      case 'int':
        return intShape(type, where, big)
      case 'array': {
        const element = get(type.type)
        if (element.kind === 'int' && element.name === 'char') return { kind: 'text', size: type.count }
        return { kind: 'array', of: shapeOf(type.type, where), count: type.count }
      }
      case 'struct':
        if (type.name === 'ip_addr') return { kind: 'address' }
        if (type.name === '') return fail(where, 'a struct without a name')
        readStruct(type)
        return { kind: 'struct', name: type.name }
      default:
        return fail(where, `a ${type.kind} has no place in a layout`)
    }
  }

  const intShape = (type: Extract<BtfType, { kind: 'int' }>, where: string, big: boolean): Shape => {
    if (type.signed) {
      if (type.size === 4) return { kind: 'int', bits: 32 }
      return fail(where, 'signed numbers are not used in layouts')
    }
    const bits = type.size * 8
    if (bits !== 8 && bits !== 16 && bits !== 32 && bits !== 64) return fail(where, `a number of ${bits} bits`)
    return { kind: 'uint', bits, big }
  }

  const readStruct = (type: Extract<BtfType, { kind: 'struct' | 'union' }>): void => {
    if (structs.has(type.name)) return
    const fields: Field[] = []
    let end = 0
    for (const member of type.members) {
      const where = `struct ${type.name}.${member.name || '(unnamed)'}`
      if (member.name === '') fail(where, 'a member without a name')
      if (member.bitSize !== 0 || member.bitOffset % 8 !== 0) fail(where, 'a bit-field')
      const shape = shapeOf(member.type, where)
      const offset = member.bitOffset / 8
      if (offset !== end) fail(where, `${offset - end} unnamed bytes before it; name them zero`)
      const size = sizeOf(shape, structs)
      fields.push({ name: member.name, offset, size, shape })
      end = offset + size
    }
    if (end !== type.size) fail(`struct ${type.name}`, `${type.size - end} unnamed bytes at its end; name them zero`)
    structs.set(type.name, { name: type.name, size: type.size, fields })
  }

  const enums = btf.filter(type => type.kind === 'enum' && type.name !== '').map(readEnum)
  const maps = mapVariables(btf, get).map(variable => readMap(variable, get, shapeOf))
  return { enums, structs: [...structs.values()], maps }
}

function readEnum(type: BtfType): Enum {
  if (type.kind !== 'enum') throw new LayoutError(`${type.name} is no enum`)
  return { name: type.name, values: type.values.map(({ name, value }) => ({ name, value: Number(value) })) }
}

type Variable = Extract<BtfType, { kind: 'var' }>

function mapVariables(btf: readonly BtfType[], get: (id: number) => BtfType): Variable[] {
  const section = btf.find(type => type.kind === 'datasec' && type.name === '.maps')
  if (section?.kind !== 'datasec') throw new LayoutError('the object has no .maps')
  return section.variables.map(entry => get(entry.type)).filter(type => type.kind === 'var')
}

/** libbpf's way of writing maps: numbers are lengths of arrays behind pointers, types are pointees. */
function readMap(
  variable: Variable,
  get: (id: number) => BtfType,
  shapeOf: (id: number, where: string) => Shape,
): MapDeclaration {
  const declaration = get(variable.type)
  if (declaration.kind !== 'struct') throw new LayoutError(`map ${variable.name} is no struct`)
  const pointee = (name: string): number | undefined => {
    const member = declaration.members.find(each => each.name === name)
    const pointer = member && get(member.type)
    return pointer?.kind === 'ptr' ? pointer.type : undefined
  }
  const number = (name: string): number => {
    const id = pointee(name)
    const array = id === undefined ? undefined : get(id)
    return array?.kind === 'array' ? array.count : 0
  }
  const shape = (name: string): Shape => {
    const id = pointee(name)
    if (id === undefined) throw new LayoutError(`map ${variable.name} declares no ${name}`)
    return shapeOf(id, `${name} of ${variable.name}`)
  }
  return {
    name: variable.name,
    type: number('type'),
    flags: number('map_flags'),
    maxEntries: number('max_entries'),
    key: shape('key'),
    value: shape('value'),
  }
}
