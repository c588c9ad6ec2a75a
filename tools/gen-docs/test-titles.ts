import { parseSync } from 'vite'

/** A test that says which rows of the packet table it proves. */
export interface RowTest {
  /** Path of its file, from the root of the tree. */
  readonly file: string
  /** As in the source, with the titles of the suites around it that name rows. */
  readonly title: string
  readonly rows: readonly number[]
  readonly families: readonly Family[]
  readonly hook: Hook
}

export type Family = 'IPv4' | 'IPv6'
export type Hook = 'tc' | 'XDP' | 'sockets' | 'lab'

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

interface Suite {
  readonly title: string
  readonly rows: readonly number[]
  /** Source of what its title and body are repeated for (`.each`). */
  readonly each: string
}

/** The titles of all tests and suites of one file, as in its source. */
export function titlesOf(file: string, source: string): string[] {
  const { program, errors } = parseSync(file, source)
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`)
  const titles: string[] = []
  const visit = (node: Node): void => {
    if (node.type === 'CallExpression') {
      const call = callOf(node, source)
      if (call !== undefined) titles.push(call.title)
    }
    for (const child of childrenOf(node)) visit(child)
  }
  visit(program as unknown as Node)
  return titles
}

/** "row 7", "rows 12, 26 and 27" anywhere in a title. */
export function rowsIn(title: string): number[] {
  return [...title.matchAll(/\brows? (\d+(?:(?:,| and|, and) \d+)*)/g)].flatMap(([, list = '']) =>
    [...list.matchAll(/\d+/g)].map(([number]) => Number(number)),
  )
}

/**
 * The tests of one file that name rows, found in its source: asking vitest for the list
 * takes half a minute. Families are those that its title names, else those that it is
 * repeated for, else those of the addresses in it and in what it uses.
 */
export function rowTests(file: string, source: string): RowTest[] {
  if (rowsIn(source).length === 0) return []
  const { program, errors } = parseSync(file, source)
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`)
  const declared = declarations(program as unknown as Node, source)
  const found: RowTest[] = []

  const visit = (node: Node, around: readonly Suite[]): void => {
    const call = node.type === 'CallExpression' ? callOf(node, source) : undefined
    if (call === undefined) {
      for (const child of childrenOf(node)) visit(child, around)
      return
    }
    const chain = [...around, call]
    if (call.kind === 'describe') {
      for (const child of childrenOf(node)) visit(child, chain)
      return
    }
    const rows = [...new Set(chain.flatMap(each => each.rows))].sort((a, b) => a - b)
    if (rows.length === 0) return
    const repeated = resolve(chain.map(({ title, each }) => `${title} ${each}`).join(' '), declared)
    const families = [chain.map(each => each.title).join(' '), repeated, call.body, resolve(call.body, declared)]
      .map(familiesIn)
      .find(found => found.length > 0)
    found.push({
      file,
      title: chain
        .filter(each => each.rows.length > 0)
        .map(({ title }) => title)
        .join(' > '),
      rows,
      families: families ?? [],
      hook: hookOf(file, repeated),
    })
  }
  visit(program as unknown as Node, [])
  return found
}

/** `test(title, …)`, `test.each(list)(title, …)`, `describe.skipIf(x)(title, …)` and the like. */
function callOf(node: Node, source: string): (Suite & { kind: 'test' | 'describe'; body: string }) | undefined {
  const [title, ...rest] = node.arguments as Node[]
  const callee = node.callee as Node
  const text = source.slice(callee.start, callee.end)
  const kind = /^(test|describe)\b/.exec(text)?.[1] as 'test' | 'describe' | undefined
  // The inner call of test.each(list)(title) has no title of its own.
  if (!kind || !title || (callee.type !== 'Identifier' && callee.type !== 'CallExpression')) return undefined
  // titled('…') says in the title why a suite is skipped, if it is.
  const said = title.type === 'CallExpression' ? ((title.arguments as Node[])[0] ?? title) : title
  const words =
    said.type === 'Literal' && typeof said.value === 'string' ? said.value : source.slice(said.start + 1, said.end - 1)
  if (title.type !== 'Literal' && title.type !== 'TemplateLiteral' && title.type !== 'CallExpression') return undefined
  const body = rest.map(({ start, end }) => source.slice(start, end)).join(' ')
  return { kind, title: words, rows: rowsIn(words), each: text.replace(/^(test|describe)/, ''), body }
}

function childrenOf(node: Node): Node[] {
  return Object.values(node)
    .flatMap(value => (Array.isArray(value) ? value : [value]))
    .filter((value): value is Node => typeof value === 'object' && value !== null && 'type' in value)
}

/** Source of what each constant and function of the file is made of. */
function declarations(program: Node, source: string): Map<string, string> {
  const texts = new Map<string, string>()
  const visit = (node: Node): void => {
    const { id, init } = node as { id?: Node; init?: Node }
    if (node.type === 'VariableDeclarator' && id?.type === 'Identifier' && init) {
      texts.set(id.name as string, source.slice(init.start, init.end))
    }
    if (node.type === 'FunctionDeclaration' && id) texts.set(id.name as string, source.slice(node.start, node.end))
    for (const child of childrenOf(node)) visit(child)
  }
  visit(program)
  return texts
}

/** The text, and behind it that of the constants that it names, and of those that they name. */
function resolve(text: string, declared: ReadonlyMap<string, string>): string {
  const names = new Set<string>()
  let all = text
  for (let fresh = text; fresh !== ''; ) {
    const next = [...fresh.matchAll(/\b[A-Za-z_]\w*\b/g)].map(([name]) => name)
    const known = [...new Set(next)].filter(name => declared.has(name) && !names.has(name))
    for (const name of known) names.add(name)
    fresh = known.map(name => declared.get(name) ?? '').join(' ')
    all += ` ${fresh}`
  }
  return all
}

function familiesIn(text: string): Family[] {
  const ipv4 = /IPv4|\b\d{1,3}(?:\.\d{1,3}){3}\b/.test(text)
  const ipv6 = /IPv6|\b2001:db8|::1\b/.test(text)
  return [...(ipv4 ? (['IPv4'] as const) : []), ...(ipv6 ? (['IPv6'] as const) : [])]
}

function hookOf(file: string, repeated: string): Hook {
  if (/\/netns\//.test(file)) return 'lab'
  if (/\/sock-/.test(file)) return 'sockets'
  return /\bxdp\b/i.test(repeated) ? 'XDP' : 'tc'
}
