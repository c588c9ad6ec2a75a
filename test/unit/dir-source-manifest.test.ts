import { describe, expect, test } from 'vitest'
import { parseManifest } from '../../src/k8s/manifest.js'

const SERVICE = `# a comment
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  clusterIP: 203.0.113.10
  ports:
    - name: http
      port: 80
    - name: bad
      port: 99999
`
const SLICE = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
  - addresses: [198.51.100.11]
`

const keys = (text: string) => parseManifest(text).entries.map(e => `${e.kind} ${e.key}${e.refused ? ' refused' : ''}`)
const places = (text: string) => {
  const { broken, entries } = parseManifest(text)
  return [...broken, ...entries.flatMap(e => e.problems)].map(p => `${p.line} ${p.field}`)
}

describe('what a file holds', () => {
  test('several documents, empty ones passed over', () => {
    expect(keys(`---\n${SERVICE}---\n# nothing\n---\n${SLICE}...\n`)).toEqual([
      'Service default/web',
      'EndpointSlice default/web-1',
    ])
  })

  test('lists, also of one kind whose items do not say it, also in JSON', () => {
    const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' }, spec: { clusterIP: '203.0.113.1' } }
    const { apiVersion, kind, ...bare } = service
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' } }
    const list = {
      apiVersion: 'v1',
      kind: 'List',
      items: [service, pod, { apiVersion: 'v1', kind: 'ServiceList', items: [{ ...bare, metadata: { name: 'b' } }] }],
    }
    for (const text of [JSON.stringify(list), JSON.stringify(list, null, 2)]) {
      expect(keys(text)).toEqual(['Service default/a', 'Service default/b'])
      expect(parseManifest(text).ignored).toBe(1)
    }
    expect(keys('apiVersion: v1\nkind: ServiceList\nitems: []\n')).toEqual([])
  })

  test('other kinds and other groups are counted, not read', () => {
    const text =
      'apiVersion: apps/v1\nkind: Deployment\n---\napiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: k}\n'
    expect(parseManifest(text)).toMatchObject({ broken: [], entries: [], ignored: 2 })
  })

  test('anchors and merge keys', () => {
    const text = `apiVersion: v1
kind: List
items:
  - &base
    apiVersion: v1
    kind: Service
    metadata: {name: a}
    spec: {clusterIP: 203.0.113.1}
  - <<: *base
    metadata: {name: b}
`
    expect(keys(text)).toEqual(['Service default/a', 'Service default/b'])
  })

  test('an old or missing version is refused, with the line', () => {
    expect(keys(SLICE.replace('io/v1', 'io/v1beta1'))).toEqual(['EndpointSlice default/web-1 refused'])
    expect(places(`\n${SLICE.replace('io/v1', 'io/v1beta1')}`)).toEqual(['2 apiVersion'])
    expect(places(SERVICE.replace('apiVersion: v1\n', ''))).toEqual(['2 apiVersion'])
  })
})

describe('lines', () => {
  test('of the field, in its document', () => {
    expect(places(SERVICE)).toEqual(['12 spec.ports[1].port'])
    expect(places(`${SLICE}---\n${SERVICE}`)).toEqual([`${8 + 12} spec.ports[1].port`])
    expect(parseManifest(SERVICE).entries[0]?.problems[0]?.message).toBe(
      'Service default/web: is 99999; write a number from 1 to 65535 (port skipped)',
    )
  })

  test('of the nearest ancestor when the field is missing', () => {
    expect(places(SERVICE.replace('      port: 99999\n', ''))).toEqual(['11 spec.ports[1].port'])
    expect(places(SLICE.replace('labels: {kubernetes.io/service-name: web}', 'labels: {}'))).toEqual([
      '3 metadata.labels["kubernetes.io/service-name"]',
    ])
  })

  test('in lists and in JSON', () => {
    const list = {
      apiVersion: 'v1',
      kind: 'List',
      items: [{ apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' }, spec: { clusterIP: 'x' } }],
    }
    expect(places(JSON.stringify(list, null, 1))).toEqual(['12 spec.clusterIP', '12 spec.clusterIP'])
    expect(places(JSON.stringify(list))).toEqual(['1 spec.clusterIP', '1 spec.clusterIP'])
  })
})

describe('a file that nobody can read', () => {
  test.each([
    ['empty', '', '0 file'],
    ['blank', ' \n\n', '0 file'],
    ['bad YAML', `${SLICE}---\nkind: [Service\nmetadata:\n`, '10 syntax'],
    ['a key twice', 'kind: Service\nkind: Service\n', '2 syntax'],
    ['tabs', 'kind: Service\n\tapiVersion: v1\n', '2 syntax'],
    ['cut JSON', '{"kind": "Service",\n "apiVersion": "v', '2 syntax'],
    ['no kind', `${SERVICE}---\nmetadata:\n  name: x\n`, '14 kind'],
    ['text', `${SERVICE}---\njust words\n`, '14 object'],
    ['no name', 'apiVersion: v1\nkind: Service\nmetadata:\n  namespace: x\n', '3 metadata.name'],
    ['an item without kind', 'kind: List\nitems:\n  - {}\n', '3 items[0].kind'],
    ['items that are no list', 'kind: List\nitems: {a: b}\n', '2 items'],
    ['a document that contains itself', 'kind: &a {kind: *a}\n', '1 kind'],
    [
      'aliases that explode',
      `a: &a [x,x,x,x,x,x,x,x,x,x]\n${'bcdef'
        .split('')
        .map((c, i) => `${c}: &${c} [${`*${'abcde'[i]},`.repeat(10)}]`)
        .join('\n')}\n`,
      '1 syntax',
    ],
  ])('%s', (_, text, place) => {
    const { broken, entries } = parseManifest(text)
    expect(broken.map(p => `${p.line} ${p.field}`)).toContain(place)
    expect(entries).toEqual([])
  })

  test('a manifest cut anywhere never throws', () => {
    const text = `${SERVICE}---\n${SLICE}`
    for (let i = 0; i < text.length; i++) parseManifest(text.slice(0, i))
    const json = JSON.stringify({ kind: 'Service', apiVersion: 'v1', metadata: { name: 'x' } })
    for (let i = 0; i < json.length; i++) expect(parseManifest(json.slice(0, i)).broken).not.toEqual([])
  })
})
