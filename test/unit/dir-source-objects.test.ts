import { describe, expect, test } from 'vitest'
import { DirObjects } from '../../src/k8s/dir-source-objects.js'
import { settleMs } from '../../src/k8s/dir-source-settle.js'
import { parseManifest } from '../../src/k8s/manifest.js'
import type { SourceEvent } from '../../src/model/objects.js'

const service = (name: string, ip: string) =>
  `apiVersion: v1\nkind: Service\nmetadata:\n  name: ${name}\nspec:\n  clusterIP: ${ip}\n`

function folder() {
  const objects = new DirObjects('/etc/m')
  return {
    objects,
    write: (file: string, ...documents: string[]) => objects.set(file, parseManifest(documents.join('---\n'))),
    /** Events as short text, sorted. */
    flush: () => objects.flush().map(short).sort(),
  }
}

function short(event: SourceEvent): string {
  if (event.type === 'upsert' && event.object.kind === 'Service')
    return `+${event.object.name} ${event.object.clusterIPs[0]}`
  if (event.type === 'delete') return `-${event.key}`
  if (event.type === 'problem') return `! ${event.where} ${event.field}`
  if (event.type === 'resolved') return `ok ${event.where}`
  throw new TypeError(event.type)
}

test('objects come, change and go with their file', () => {
  const { objects, write, flush } = folder()
  write('a.yaml', service('a', '203.0.113.1'), service('b', '203.0.113.2'))
  expect(flush()).toEqual(['+a 203.0.113.1', '+b 203.0.113.2'])
  write('a.yaml', service('a', '203.0.113.3'))
  expect(flush()).toEqual(['+a 203.0.113.3', '-default/b'])
  write('a.yaml', service('a', 'None'))
  expect(flush()).toEqual(['-default/a'])
  write('a.yaml', service('a', '203.0.113.4'))
  objects.remove('a.yaml')
  expect(flush()).toEqual([])
  objects.remove('a.yaml')
  expect(flush()).toEqual([])
})

test('an object moves to another file without leaving', () => {
  const { objects, write, flush } = folder()
  write('b.yaml', service('a', '203.0.113.1'))
  flush()
  write('a.yaml', service('a', '203.0.113.1'))
  objects.remove('b.yaml')
  expect(flush()).toEqual(['+a 203.0.113.1'])
})

describe('a broken file', () => {
  test('keeps all it said, is reported with its line, and heals', () => {
    const { objects, write, flush } = folder()
    write('a.yaml', service('a', '203.0.113.1'), service('b', '203.0.113.2'))
    flush()
    write('a.yaml', service('a', '203.0.113.9'), 'kind: [\n')
    expect(flush()).toEqual(['! /etc/m/a.yaml:8 syntax'])
    expect(objects.incomplete).toBe(false)
    write('a.yaml', 'kind: [\n')
    expect(flush()).toEqual(['! /etc/m/a.yaml:1 syntax', 'ok /etc/m/a.yaml:8'])
    write('a.yaml', service('a', '203.0.113.9'))
    expect(flush()).toEqual(['+a 203.0.113.9', '-default/b', 'ok /etc/m/a.yaml:1'])
  })

  test('that was never good is incomplete until it is mended or removed', () => {
    const { objects, write, flush } = folder()
    write('a.yaml', 'kind: [\n')
    write('b.yaml', 'kind: [\n')
    expect(objects.incomplete).toBe(true)
    write('a.yaml', service('a', '203.0.113.1'))
    expect(objects.incomplete).toBe(true)
    objects.remove('b.yaml')
    expect(objects.incomplete).toBe(false)
    expect(flush()).toEqual(['+a 203.0.113.1'])
  })
})

describe('an object that is refused', () => {
  const refused = service('a', 'nonsense')
  test('keeps its last good state while the rest of its file goes on', () => {
    const { objects, write, flush } = folder()
    write('a.yaml', service('a', '203.0.113.1'), service('b', '203.0.113.2'))
    flush()
    write('a.yaml', refused, service('b', '203.0.113.3'))
    expect(flush()).toEqual([
      '! /etc/m/a.yaml:6 spec.clusterIP',
      '! /etc/m/a.yaml:6 spec.clusterIP',
      '+a 203.0.113.1',
      '+b 203.0.113.3',
    ])
    expect(objects.incomplete).toBe(false)
  })

  test('and was never good makes the folder incomplete', () => {
    const { objects, write } = folder()
    write('a.yaml', refused)
    expect(objects.incomplete).toBe(true)
    write('a.yaml', service('a', '203.0.113.1'))
    expect(objects.incomplete).toBe(false)
  })
})

describe('one object twice', () => {
  test('the first file by name counts, the other is told, and takes over', () => {
    const { objects, write, flush } = folder()
    write('b.yaml', service('a', '203.0.113.2'))
    expect(flush()).toEqual(['+a 203.0.113.2'])
    write('a.yaml', service('a', '203.0.113.1'))
    expect(flush()).toEqual(['! /etc/m/b.yaml:4 metadata.name', '+a 203.0.113.1'])
    write('b.yaml', service('a', '203.0.113.3'))
    expect(flush()).toEqual(['+a 203.0.113.1'])
    objects.remove('a.yaml')
    expect(flush()).toEqual(['+a 203.0.113.3', 'ok /etc/m/b.yaml:4'])
  })

  test('in one file the first counts', () => {
    const { write, flush } = folder()
    write('a.yaml', service('a', '203.0.113.1'), service('a', '203.0.113.2'))
    expect(flush()).toEqual(['! /etc/m/a.yaml:11 metadata.name', '+a 203.0.113.1'])
  })
})

test.each([
  ['a finished file', 'kind: Service\n', undefined, 100],
  ['no newline at the end', 'kind: Serv', undefined, 500],
  ['JSON needs none', '{"kind": "Service"}', undefined, 100],
  ['the beginning of what was good', 'kind: Service\n', 'kind: Service\nspec: {}\n', 500],
  ['as before', 'kind: Service\n', 'kind: Service\n', 100],
  ['something else', 'kind: Node\n', 'kind: Service\nspec: {}\n', 100],
])('quiet before reading: %s', (_, text, lastGood, ms) => {
  expect(settleMs(text, lastGood)).toBe(ms)
})
