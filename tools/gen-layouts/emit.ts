import {
  type Enum,
  type Field,
  LayoutError,
  type Layouts,
  type MapDeclaration,
  RESERVED,
  type Shape,
  type Struct,
  sizeOf,
} from './model.js'

/** The text of src/ebpf/generated/layouts.ts. Throws {@link LayoutError} when two maps would share a name. */
export function emit(layouts: Layouts): string {
  const structs = new Map(layouts.structs.map(each => [each.name, each]))
  const body = [
    ...layouts.enums.map(emitEnum),
    ...layouts.structs.map(struct => emitStruct(struct, structs)),
    emitMaps(layouts.maps),
  ].join('\n')
  return `${header(body)}\n${body}`
}

/** Imports only what is used, or the compiler refuses the file. */
function header(body: string): string {
  const values = ['checkCount', 'getBytes', 'getText', 'i32', 'putBytes', 'putText', 'putZero', 'u32', 'uint', 'uint64']
  const used = values.filter(name => new RegExp(`\\b${name}\\b`).test(body))
  return `// Written by \`make gen\` from bpf/layout/ and bpf/maps.h (tools/gen-layouts). Do not edit.
import { type Codec, type MapLayout, ${used.join(', ')} } from '../codec.js'
`
}

/** `frontend4_key` becomes `frontend4Key`. */
const camel = (name: string): string => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
const pascal = (name: string): string => camel(`_${name}`)

/** `FRONTEND_FLAG_OWN_ADDRESS` of `frontend_flag` becomes `OWN_ADDRESS`: the words it shares with the enum go. */
function shortName(owner: string, name: string): string {
  const words = name.split('_')
  const shared = owner.toUpperCase().split('_')
  while (words.length > 1 && words[0] === shared.shift()) words.shift()
  return words.join('_')
}

function emitEnum(type: Enum): string {
  const name = pascal(type.name)
  const values = type.values.map(each => ({ name: shortName(type.name, each.name), value: each.value }))
  const labels = values.filter(each => each.name !== 'COUNT')
  return `/** enum ${type.name} */
export const ${name} = {
${values.map(each => `  ${each.name}: ${each.value},\n`).join('')}} as const
export type ${name} = (typeof ${name})[keyof typeof ${name}]

/** Labels of enum ${type.name} by value. */
export const ${camel(type.name)}Names: Readonly<Record<number, string>> = {
${labels.map(each => `  ${each.value}: '${each.name.toLowerCase()}',\n`).join('')}}
`
}

function emitStruct(struct: Struct, structs: ReadonlyMap<string, Struct>): string {
  const type = pascal(struct.name)
  const visible = struct.fields.filter(field => !RESERVED.has(field.name))
  const lines = (fields: readonly Field[], text: (field: Field) => string) => fields.map(text).join('')
  return `/** struct ${struct.name} */
export interface ${type} {
${lines(visible, field => `  readonly ${camel(field.name)}: ${typeText(field.shape)}\n`)}}

/** struct ${struct.name}, ${struct.size} bytes */
export const ${camel(struct.name)} = {
  name: '${struct.name}',
  size: ${struct.size},
  offsets: {
${lines(visible, field => `    ${camel(field.name)}: ${field.offset},\n`)}  },
  encode(view: DataView, at: number, value: ${type}): void {
${lines(struct.fields, field => encodeField(struct, field, structs))}  },
  decode(view: DataView, at: number): ${type} {
    return {
${lines(visible, field => `      ${camel(field.name)}: ${read(field.shape, position(field.offset), structs)},\n`)}    }
  },
} as const satisfies Codec<${type}> & { offsets: Readonly<Record<string, number>> }
`
}

const position = (offset: number): string => (offset === 0 ? 'at' : `at + ${offset}`)

function typeText(shape: Shape): string {
  switch (shape.kind) {
    case 'uint':
      return shape.bits === 64 ? 'bigint' : 'number'
    case 'int':
      return 'number'
    case 'text':
      return 'string'
    case 'address':
      return 'Uint8Array'
    case 'array':
      return `readonly ${typeText(shape.of)}[]`
    case 'struct':
      return pascal(shape.name)
  }
}

function encodeField(struct: Struct, field: Field, structs: ReadonlyMap<string, Struct>): string {
  const where = position(field.offset)
  if (RESERVED.has(field.name)) return `    putZero(view, ${where}, ${field.size})\n`
  const value = `value.${camel(field.name)}`
  const name = `'${struct.name}.${field.name}'`
  if (field.shape.kind !== 'array') return `    ${write(field.shape, where, value, name)}\n`
  const step = sizeOf(field.shape.of, structs)
  return `    checkCount(${value}, ${field.shape.count}, ${name})
    ${value}.forEach((element, i) => {
      ${write(field.shape.of, `${where} + i * ${step}`, 'element', name)}
    })
`
}

/** The statement that writes `value` of `shape` at `where`. */
function write(shape: Shape, where: string, value: string, name: string): string {
  switch (shape.kind) {
    case 'uint': {
      if (shape.bits === 64) return `view.setBigUint64(${where}, uint64(${value}, ${name}), true)`
      const max = `0x${'f'.repeat(shape.bits / 4)}`
      return `view.setUint${shape.bits}(${where}, uint(${value}, ${max}, ${name})${littleArgument(shape)})`
    }
    case 'int':
      return `i32.encode(view, ${where}, ${value})`
    case 'text':
      return `putText(view, ${where}, ${shape.size}, ${value}, ${name})`
    case 'address':
      return `putBytes(view, ${where}, 16, ${value}, ${name})`
    case 'struct':
      return `${camel(shape.name)}.encode(view, ${where}, ${value})`
    case 'array':
      throw new LayoutError(`${name}: an array of arrays`)
  }
}

/** The expression that reads `shape` at `where`. */
function read(shape: Shape, where: string, structs: ReadonlyMap<string, Struct>): string {
  switch (shape.kind) {
    case 'uint':
      if (shape.bits === 64) return `view.getBigUint64(${where}, true)`
      return `view.getUint${shape.bits}(${where}${littleArgument(shape)})`
    case 'int':
      return `i32.decode(view, ${where})`
    case 'text':
      return `getText(view, ${where}, ${shape.size})`
    case 'address':
      return `getBytes(view, ${where}, 16)`
    case 'struct':
      return `${camel(shape.name)}.decode(view, ${where})`
    case 'array': {
      const element = read(shape.of, `${where} + i * ${sizeOf(shape.of, structs)}`, structs)
      return `Array.from({ length: ${shape.count} }, (_, i) => ${element})`
    }
  }
}

const littleArgument = (shape: { bits: number; big: boolean }): string => (shape.bits > 8 && !shape.big ? ', true' : '')

function emitMaps(maps: readonly MapDeclaration[]): string {
  const names = maps.map(map => camel(map.name.replace(/_v\d+$/, '')))
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice) throw new LayoutError(`two maps are called ${twice}: one version of a map at a time`)
  const entries = maps.map((map, i) => {
    const type = `MapLayout<${typeText(map.key)}, ${typeText(map.value)}>`
    return `  ${names[i]}: {
    name: '${map.name}',
    type: ${map.type},
    flags: ${map.flags},
    maxEntries: ${map.maxEntries},
    key: ${codecName(map.key)},
    value: ${codecName(map.value)},
  } satisfies ${type},
`
  })
  return `/** Every map of bpf/maps.h, by its name without the version. */
export const maps = {
${entries.join('')}} as const

/** Names of {@link maps}. */
export type MapId = keyof typeof maps
`
}

function codecName(shape: Shape): string {
  if (shape.kind === 'struct') return camel(shape.name)
  if (shape.kind === 'int') return 'i32'
  if (shape.kind === 'uint' && shape.bits === 32 && !shape.big) return 'u32'
  throw new LayoutError(`a ${shape.kind} cannot be a whole key or value`)
}
