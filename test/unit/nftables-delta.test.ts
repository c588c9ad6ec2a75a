import { describe, expect, test } from 'vitest'
import type { PortContent } from '../../src/dataplane/nftables/content.js'
import { type Applied, ownerOfLine, portsDelta, straysDelta } from '../../src/dataplane/nftables/delta.js'
import { type HeldTable, stampOf, transaction, writesOf } from '../../src/dataplane/nftables/transaction.js'
import type { ServicePort } from '../../src/model/desired.js'

const chain = (...rules: string[]) => ({ hook: '', rules })
const SERVICE = (letter: string) => `service-${letter.repeat(8)}-default/web/tcp/${letter}`

/** A Service port whose list is `rules`; it shares the ClusterIP with others. */
const port = (letter: string, rules: string[], key = `10.0.0.1 . tcp . ${letter}`): Applied => ({
  port: { id: letter } as ServicePort,
  content: {
    sets: new Map(),
    chains: new Map([[SERVICE(letter), chain(...rules)]]),
    elements: [
      { container: 'cluster-ips', key: '10.0.0.1', verdict: '' },
      { container: 'service-ips', key, verdict: `goto ${SERVICE(letter)}` },
    ],
  } satisfies PortContent,
})

/** The table after these Service ports were written, and who asks for what. */
function written(...ports: Applied[]) {
  const applied = new Map(ports.map(each => [each.port.id, each]))
  const held: HeldTable = { sets: new Set(), chains: new Map(), elements: new Map() }
  const asked = new Map<string, number>()
  for (const { content } of ports) {
    for (const [name, each] of content.chains) held.chains.set(name, stampOf(each))
    for (const { container, key, verdict } of content.elements) {
      held.elements.set(container, (held.elements.get(container) ?? new Map<string, string>()).set(key, verdict))
      asked.set(`${container} ${key}`, (asked.get(`${container} ${key}`) ?? 0) + 1)
    }
  }
  return { held, applied, asked }
}

describe('what changes in a table', () => {
  test('nothing, when a Service port is as it was', () => {
    const { held, applied, asked } = written(port('A', ['x']))
    const { delta } = portsDelta(held, applied, asked, new Map([['A', port('A', ['x'])]]))
    expect(writesOf(delta)).toBe(0)
    expect(transaction('ip waggle', delta)).toEqual([])
  })

  test('its list, when the backends change', () => {
    const { held, applied, asked } = written(port('A', ['x']), port('B', ['x']))
    const { delta } = portsDelta(held, applied, asked, new Map([['A', port('A', ['y'])]]))
    expect(transaction('ip waggle', delta)).toEqual([
      `add chain ip waggle ${SERVICE('A')}`,
      `flush chain ip waggle ${SERVICE('A')}`,
      expect.stringMatching(/^add rule ip waggle service-A+-\S+ y comment "#[A-Z2-7]{10}"$/),
    ])
  })

  test('a Service port that goes takes along what nobody else asks for', () => {
    const { held, applied, asked } = written(port('A', ['x']), port('B', ['x']))
    const change = portsDelta(held, applied, asked, new Map([['B', undefined]]))
    expect(transaction('ip waggle', change.delta)).toEqual([
      'delete element ip waggle service-ips { 10.0.0.1 . tcp . B }',
      `flush chain ip waggle ${SERVICE('B')}`,
    ])
    expect(change.asked.get('cluster-ips 10.0.0.1')).toBe(1)
    const last = portsDelta(
      held,
      applied,
      asked,
      new Map([
        ['A', undefined],
        ['B', undefined],
      ]),
    )
    expect(transaction('ip waggle', last.delta)).toContain('delete element ip waggle cluster-ips { 10.0.0.1 }')
  })

  test('a frontend that changes hands leads to its new chain, in one transaction', () => {
    const { held, applied, asked } = written(port('A', ['x'], 'same'))
    const candidates = new Map([
      ['A', undefined],
      ['B', port('B', ['x'], 'same')],
    ])
    const lines = transaction('ip waggle', portsDelta(held, applied, asked, candidates).delta)
    const removed = lines.indexOf('delete element ip waggle service-ips { same }')
    const added = lines.indexOf(`add element ip waggle service-ips { same : goto ${SERVICE('B')} }`)
    expect(removed).toBeGreaterThan(lines.indexOf(`add chain ip waggle ${SERVICE('B')}`))
    expect(added).toBeGreaterThan(removed)
    expect(lines.indexOf(`flush chain ip waggle ${SERVICE('A')}`)).toBeGreaterThan(added)
  })

  test('what an earlier run left and nobody asks for goes; what is not ours by name stays', () => {
    const { held, applied, asked } = written(port('A', ['x']))
    held.chains.set(SERVICE('Z'), 'old')
    held.chains.set('somebody-elses', '')
    held.elements.get('service-ips')?.set('old', 'drop')
    const { delta } = straysDelta(held, applied, asked)
    expect(transaction('ip waggle', delta)).toEqual([
      'delete element ip waggle service-ips { old }',
      `flush chain ip waggle ${SERVICE('Z')}`,
    ])
  })
})

test('a refused line is traced to its Service port', () => {
  const candidates = new Map([
    ['A', port('A', ['x'])],
    ['B', port('B', ['x'])],
    ['C', undefined],
  ])
  expect(ownerOfLine(`add rule ip waggle ${SERVICE('B')} x`, candidates)).toBe('B')
  expect(ownerOfLine(`add element ip waggle service-ips { 10.0.0.1 . tcp . A : goto x }`, candidates)).toBe('A')
  expect(ownerOfLine('add chain ip waggle services', candidates)).toBeUndefined()
})
