import { promises as fs, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { DirSource } from '../../src/k8s/dir-source.js'
import type { SourceEvent } from '../../src/model/objects.js'
import { Store } from '../../src/state/store.js'

const service = (name: string, ip: string) =>
  `apiVersion: v1\nkind: Service\nmetadata:\n  name: ${name}\nspec:\n  clusterIP: ${ip}\n`

let root: string
let source: DirSource
let store: Store
let batches: SourceEvent[][]

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'waggle-dir-'))
  open(root)
})

afterEach(async () => {
  await source.stop()
  rmSync(root, { recursive: true, force: true })
})

function open(path: string): void {
  source = new DirSource(path)
  store = new Store()
  batches = []
}

const start = () =>
  source.start(events => {
    batches.push([...events])
    store.apply(events)
  })
const write = (name: string, ...documents: string[]) => fs.writeFile(join(root, name), documents.join('---\n'))
const ip = (name: string) => store.service(`default/${name}`)?.clusterIPs[0]
const wheres = () => store.problems.map(p => `${p.where.replace(`${root}/`, '').replace(root, '.')} ${p.field}`)

/** An edit is applied within a second: `seen` must give `want` by then. */
async function within(want: unknown, seen: () => unknown, ms = 1000): Promise<void> {
  const end = performance.now() + ms
  while (performance.now() < end && JSON.stringify(seen()) !== JSON.stringify(want)) await sleep(10)
  expect(seen()).toEqual(want)
}

/** `seen` must go on giving `want`. */
async function stays(want: unknown, seen: () => unknown, ms = 1300): Promise<void> {
  const end = performance.now() + ms
  while (performance.now() < end) {
    expect(seen()).toEqual(want)
    await sleep(20)
  }
}

test('the first look delivers everything, then synced, in one batch', async () => {
  await fs.mkdir(join(root, 'sub'))
  await write('a.yaml', service('a', '203.0.113.1'), 'apiVersion: v1\nkind: Pod\n')
  await write('sub/b.yml', service('b', '203.0.113.2'))
  await write('c.json', '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}')
  await write('.hidden.yaml', service('hidden', '203.0.113.3'))
  await write('README.md', service('readme', '203.0.113.4'))
  await fs.mkdir(join(root, '.git'))
  await write('.git/d.yaml', service('git', '203.0.113.5'))
  await start()
  await within(true, () => store.synced)
  expect(store.size).toEqual({ Service: 2, EndpointSlice: 0, Node: 1 })
  expect(source.ignored).toBe(1)
  expect(
    batches
      .at(-1)
      ?.slice(-3)
      .map(e => e.type),
  ).toEqual(['synced', 'synced', 'synced'])
})

test('an empty folder is in sync at once', async () => {
  await start()
  expect(store.synced).toBe(true)
})

describe('an edit is applied within a second', () => {
  beforeEach(async () => {
    await write('a.yaml', service('a', '203.0.113.1'), service('b', '203.0.113.2'))
    await start()
    await within('203.0.113.1', () => ip('a'))
  })

  test('written in place', async () => {
    await write('a.yaml', service('a', '203.0.113.9'), service('b', '203.0.113.2'))
    await within('203.0.113.9', () => ip('a'))
  })

  test('renamed over', async () => {
    await write('.a.tmp', service('a', '203.0.113.9'))
    await fs.rename(join(root, '.a.tmp'), join(root, 'a.yaml'))
    await within(['203.0.113.9', undefined], () => [ip('a'), ip('b')])
  })

  test('a document taken off the end', async () => {
    await write('a.yaml', service('a', '203.0.113.1'))
    await within([undefined], () => [ip('b')])
    expect(ip('a')).toBe('203.0.113.1')
  })

  test('a new file, in a new folder, too', async () => {
    await fs.mkdir(join(root, 'new', 'deep'), { recursive: true })
    await write('new/deep/c.yaml', service('c', '203.0.113.3'))
    await within('203.0.113.3', () => ip('c'))
    await write('new/deep/c.yaml', service('c', '203.0.113.4'))
    await within('203.0.113.4', () => ip('c'))
  })

  test('a file removed, a folder removed', async () => {
    await fs.mkdir(join(root, 'sub'))
    await write('sub/c.yaml', service('c', '203.0.113.3'))
    await within('203.0.113.3', () => ip('c'))
    await fs.rm(join(root, 'sub'), { recursive: true })
    await fs.rm(join(root, 'a.yaml'))
    await within(0, () => store.size.Service)
  })

  test('a file behind a link to elsewhere, edited there', async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), 'waggle-dir-'))
    try {
      await fs.writeFile(join(elsewhere, 'c.yaml'), service('c', '203.0.113.3'))
      await fs.symlink(join(elsewhere, 'c.yaml'), join(root, 'c.yaml'))
      await within('203.0.113.3', () => ip('c'))
      await fs.writeFile(join(elsewhere, 'c.yaml'), service('c', '203.0.113.4'))
      await within('203.0.113.4', () => ip('c'))
    } finally {
      rmSync(elsewhere, { recursive: true })
    }
  })

  test('after many of them the last counts', async () => {
    for (let i = 1; i <= 50; i++) {
      await write('a.yaml', service('a', `203.0.113.${i}`))
      await sleep(i % 7)
    }
    await within('203.0.113.50', () => ip('a'))
  })
})

test('a mounted ConfigMap is swapped as a whole', async () => {
  const version = async (name: string, address: string) => {
    await fs.mkdir(join(root, name))
    await write(`${name}/a.yaml`, service('a', address))
    await write(`${name}/b.yaml`, service('b', address))
    await fs.symlink(name, join(root, '..data_tmp'))
    await fs.rename(join(root, '..data_tmp'), join(root, '..data'))
  }
  await version('..2026_1', '203.0.113.1')
  await fs.symlink('..data/a.yaml', join(root, 'a.yaml'))
  await fs.symlink('..data/b.yaml', join(root, 'b.yaml'))
  await start()
  await within(['203.0.113.1', '203.0.113.1'], () => [ip('a'), ip('b')])
  await version('..2026_2', '203.0.113.2')
  await fs.rm(join(root, '..2026_1'), { recursive: true })
  await within(['203.0.113.2', '203.0.113.2'], () => [ip('a'), ip('b')])
  expect(batches.flat().filter(event => event.type === 'delete')).toEqual([])
})

describe('a broken file', () => {
  test('is reported with line and field, keeps what it said, and heals', async () => {
    await write('a.yaml', service('a', '203.0.113.1'), service('b', '203.0.113.2'))
    await start()
    await within('203.0.113.1', () => ip('a'))
    await write('a.yaml', service('a', '203.0.113.9'), 'apiVersion: v1\nkind: [Service\n')
    await within(['a.yaml:9 syntax'], wheres)
    expect([ip('a'), ip('b')]).toEqual(['203.0.113.1', '203.0.113.2'])
    await write('a.yaml', service('a', '203.0.113.9'))
    await within([[], '203.0.113.9', undefined], () => [wheres(), ip('a'), ip('b')])
  })

  test('at the first start holds back synced, while the others serve, until it is mended', async () => {
    await write('a.yaml', 'kind: [\n')
    await write('b.yaml', service('b', '203.0.113.2'))
    await start()
    await within('203.0.113.2', () => ip('b'))
    await within(['a.yaml:1 syntax'], wheres)
    expect(store.synced).toBe(false)
    await write('a.yaml', service('a', '203.0.113.1'))
    await within([true, '203.0.113.1', []], () => [store.synced, ip('a'), wheres()])
  })

  test('or is removed', async () => {
    await write('a.yaml', 'kind: [\n')
    await start()
    await within(['a.yaml:1 syntax'], wheres)
    await fs.rm(join(root, 'a.yaml'))
    await within([true, []], () => [store.synced, wheres()])
  })

  test('that is written piece by piece never shows a part', async () => {
    const text = Array.from({ length: 8 }, (_, i) => service(`s${i}`, `203.0.113.${i + 1}`)).join('---\n')
    await write('a.yaml', text)
    await start()
    await within(8, () => store.size.Service)
    const file = await fs.open(join(root, 'a.yaml'), 'w')
    for (let at = 0; at < text.length; at += 40) {
      await file.write(text.slice(at, at + 40).replaceAll('203.0.113', '203.0.114'))
      await sleep(30)
      expect(store.size.Service).toBe(8)
    }
    await file.close()
    await within('203.0.114.8', () => ip('s7'))
    expect(batches.flat().filter(event => event.type === 'delete')).toEqual([])
  })

  test('that is cut off and stays so keeps what it said', async () => {
    const text = `${service('a', '203.0.113.1')}---\n${service('b', '203.0.113.2')}`
    await write('a.yaml', text)
    await start()
    await within(2, () => store.size.Service)
    await fs.writeFile(join(root, 'a.yaml'), text.slice(0, text.indexOf('name: b')))
    await stays(2, () => store.size.Service)
    await fs.writeFile(join(root, 'a.yaml'), '')
    await stays(2, () => store.size.Service)
    expect(wheres()).toEqual(['a.yaml file'])
  })
})

test('a file that an editor removes and writes anew never leaves', async () => {
  await write('a.yaml', service('a', '203.0.113.1'))
  await start()
  await within('203.0.113.1', () => ip('a'))
  await fs.rename(join(root, 'a.yaml'), join(root, 'a.yaml~'))
  await sleep(40)
  await write('a.yaml', service('a', '203.0.113.2'))
  await within('203.0.113.2', () => ip('a'))
  expect(batches.flat().filter(event => event.type === 'delete')).toEqual([])
})

describe('the folder itself', () => {
  test('is missing: reported, not in sync; found once it is there', async () => {
    open(join(root, 'later'))
    await start()
    expect([store.synced, wheres()]).toEqual([false, ['later file']])
    await fs.mkdir(join(root, 'later'))
    await write('later/a.yaml', service('a', '203.0.113.1'))
    await within([true, '203.0.113.1', []], () => [store.synced, ip('a'), wheres()])
  })

  test('goes away: everything stays, and comes back with another content', async () => {
    await fs.mkdir(join(root, 'm'))
    await write('m/a.yaml', service('a', '203.0.113.1'))
    open(`${join(root, 'm')}/`)
    await start()
    await within('203.0.113.1', () => ip('a'))
    await fs.rename(join(root, 'm'), join(root, 'away'))
    await within(['m file'], wheres)
    await stays('203.0.113.1', () => ip('a'), 600)
    await fs.mkdir(join(root, 'm'))
    await write('m/b.yaml', service('b', '203.0.113.2'))
    await within([undefined, '203.0.113.2', []], () => [ip('a'), ip('b'), wheres()])
    await write('m/b.yaml', service('b', '203.0.113.3'))
    await within('203.0.113.3', () => ip('b'))
  })

  test('is a file', async () => {
    await write('a.yaml', service('a', '203.0.113.1'))
    open(join(root, 'a.yaml'))
    await start()
    expect(store.problems.map(p => p.message)).toEqual([
      'is not a folder; name one that holds manifests; what it said before stays',
    ])
    expect(store.synced).toBe(false)
  })

  test('has a loop of links', async () => {
    await fs.symlink('.', join(root, 'loop'))
    await write('a.yaml', service('a', '203.0.113.1'))
    await start()
    await within('203.0.113.1', () => ip('a'))
  })
})

test('after stop nothing is delivered any more', async () => {
  await write('a.yaml', service('a', '203.0.113.1'))
  await start()
  await within('203.0.113.1', () => ip('a'))
  await source.stop()
  await write('a.yaml', service('a', '203.0.113.2'))
  await stays('203.0.113.1', () => ip('a'), 800)
})
