import fc from 'fast-check'
import { expect, test } from 'vitest'
import { PROTOBUF } from '../../src/k8s/kube-proto.js'
import { FakeApi, initialEnd, sendStatus, service, servicesPath as services } from './kube-fake-api.js'
import { encodeObject, field } from './kube-proto-encode.js'
import { until, Watched } from './kube-source-kit.js'

/** One member a word, so that the word tells the fields. */
type Of<Word extends string, Fields> = Word extends string ? { do: Word } & Fields : never

type Step =
  | Of<'put' | 'putUnheard', { name: string; port: number }>
  | Of<'putCut', { name: string; port: number; bytes: number }>
  | Of<'remove' | 'removeUnheard', { name: string }>
  | Of<'reset' | 'end' | 'compact' | 'bookmark' | 'garbage' | 'gone' | 'error' | 'cutList' | 'emptyList', unknown>
  | Of<'refuse', { status: number }>
  | Of<'repeat', { back: number }>
  | Of<'undecodable', { name: string }>
  | Of<'wait', { ms: number }>

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f')
/** A Service with characters of two, three and four bytes, so that cuts hit them. */
const spoken = (name: string, port: number) => service(name, port, 'größe → 🐝🐝🐝')
const port = fc.integer({ min: 1, max: 65535 })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('put', 'putUnheard'), name, port }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('putCut'), name, port, bytes: fc.integer({ min: 0, max: 400 }) }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('remove', 'removeUnheard'), name }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('reset', 'end', 'compact', 'bookmark', 'garbage', 'gone', 'error', 'cutList', 'emptyList'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('refuse'), status: fc.constantFrom(410, 429, 500, 503) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('repeat'), back: fc.integer({ min: 0, max: 3 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('undecodable'), name }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait'), ms: fc.integer({ min: 1, max: 30 }) }) },
) as fc.Arbitrary<Step>

async function run(api: FakeApi, step: Step): Promise<void> {
  const unheard = (change: () => void) => {
    // The watches never hear of it, as when a link swallows packets and then breaks.
    api.mute(true)
    change()
    api.mute(false)
    api.reset()
  }
  if (step.do === 'put') api.put(services, spoken(step.name, step.port))
  else if (step.do === 'putUnheard') unheard(() => api.put(services, spoken(step.name, step.port)))
  else if (step.do === 'putCut') await api.putCut(services, spoken(step.name, step.port), step.bytes)
  else if (step.do === 'remove') api.remove(services, `default/${step.name}`)
  else if (step.do === 'removeUnheard') unheard(() => api.remove(services, `default/${step.name}`))
  else if (step.do === 'reset') api.reset()
  else if (step.do === 'end') api.endWatches()
  else if (step.do === 'compact') api.compact()
  else if (step.do === 'bookmark') api.bookmark(services)
  else if (step.do === 'garbage') api.send(services, '{"type":"ADD\n')
  else if (step.do === 'gone') api.send(services, failure(api, 410, 'too old'))
  else if (step.do === 'error') api.send(services, failure(api, 500, 'no leader'))
  else if (step.do === 'repeat') api.repeat(services, step.back)
  else if (step.do === 'undecodable') api.send(services, undecodable(api, step.name))
  else if (step.do === 'emptyList') emptyList(api)
  else if (step.do === 'cutList') once(api, undefined)
  else if (step.do === 'refuse') once(api, step.status)
  else await new Promise(resolve => setTimeout(resolve, step.ms))
}

/** The next request is refused with `status`, or answered with half a list. */
function once(api: FakeApi, status: number | undefined): void {
  api.fault = (request, response) => {
    if (request.path !== services || (status === undefined && request.watch)) return false
    api.fault = () => false
    if (status === undefined)
      response.write('{"metadata":{"resourceVersion":"100"},"items":[', () => response.destroy())
    else sendStatus(response, status, 'not now')
    return true
  }
}

function failure(api: FakeApi, code: number, message: string): Buffer {
  return api.event(services, 'ERROR', { kind: 'Status', status: 'Failure', code, message })
}

/** An event for a Service whose name can be read and nothing else. */
function undecodable(api: FakeApi, name: string): Buffer {
  const metadata = { namespace: 'default', name }
  if (!api.abilities.protobuf) return api.event(services, 'MODIFIED', { metadata, spec: 7 })
  const broken = field(2, Buffer.from([0x0a, 0x7f]))
  return api.event(services, 'MODIFIED', Buffer.concat([encodeObject('Service', { metadata }), broken]))
}

/** The next list holds nothing: a server that lost its data, or has not read it yet. */
function emptyList(api: FakeApi): void {
  const version = String(1_000_000)
  api.fault = (request, response) => {
    if (request.path !== services || (request.watch && !request.query.has('sendInitialEvents'))) return false
    api.fault = () => false
    if (!request.watch) api.sendList(services, response, { resourceVersion: version }, [])
    else {
      const type = api.abilities.protobuf ? `${PROTOBUF};stream=watch` : 'application/json'
      response.writeHead(200, { 'content-type': type })
      response.end(api.event(services, 'BOOKMARK', initialEnd(Number(version))))
    }
    return true
  }
  api.compact()
  api.reset()
}

test.each([
  { protobuf: false, streams: false },
  { protobuf: false, streams: true },
  { protobuf: true, streams: false },
  { protobuf: true, streams: true },
])(
  'whatever goes wrong, when and how often: what was told adds up to what the server has ($protobuf, $streams)',
  {
    timeout: 120_000,
  },
  async abilities => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async steps => {
        const api = await new FakeApi(abilities).listen()
        // Enough that losing them all is suspicious, however many of the others are removed.
        const kept = Array.from({ length: 20 }, (_, i) => `kept-${i}`)
        for (const name of [...kept, 'a', 'b']) api.put(services, service(name, 1))
        const timing = { minMs: 1, maxMs: 4 }
        const watched = await new Watched([api.url], { timing, fuse: { confirmMs: 150 } }).start()
        await until(() => expect(watched.synced.size).toBe(3))
        try {
          for (const step of steps) await run(api, step)
          api.fault = () => false
          await until(() => {
            const told = [...watched.state.values()].map(({ object }) => {
              return object.kind === 'Service' ? `${object.name}:${object.ports[0]?.port}` : object.name
            })
            expect(told.sort()).toEqual(api.ports(services))
          })
          // Never a worse state than the last good one: what the server always had was never taken away.
          for (const name of kept) expect(watched.told).not.toContain(`-default/${name}`)
          // No delete without an upsert before it, and nothing twice in a row.
          const alive = new Set<string>()
          for (const word of watched.told) {
            if (word.startsWith('+')) alive.add(word.slice(1))
            else expect(alive.delete(word.slice(1))).toBe(true)
          }
        } finally {
          await watched.source.stop()
          await api.close()
        }
      }),
      { numRuns: 25 },
    )
  },
)
