import fc from 'fast-check'
import { expect, test } from 'vitest'
import { errorLine, FakeApi, sendStatus, service, servicesPath as services } from './kube-fake-api.js'
import { until, Watched } from './kube-source-kit.js'

/** One member a word, so that the word tells the fields. */
type Of<Word extends string, Fields> = Word extends string ? { do: Word } & Fields : never

type Step =
  | Of<'put' | 'putUnheard', { name: string; port: number }>
  | Of<'putCut', { name: string; port: number; bytes: number }>
  | Of<'remove' | 'removeUnheard', { name: string }>
  | Of<'reset' | 'end' | 'compact' | 'bookmark' | 'garbage' | 'gone' | 'error' | 'cutList', unknown>
  | Of<'refuse', { status: number }>
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
      do: fc.constantFrom('reset', 'end', 'compact', 'bookmark', 'garbage', 'gone', 'error', 'cutList'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('refuse'), status: fc.constantFrom(410, 429, 500, 503) }) },
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
  else if (step.do === 'gone') api.send(services, errorLine(410, 'too old'))
  else if (step.do === 'error') api.send(services, errorLine(500, 'no leader'))
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

test('whatever is cut, when and how often: what was told adds up to what the server has', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async steps => {
      const api = await new FakeApi().listen()
      api.put(services, service('a', 1))
      api.put(services, service('b', 2))
      const watched = await new Watched([api.url], { timing: { minMs: 1, maxMs: 4 } }).start()
      try {
        for (const step of steps) await run(api, step)
        api.fault = () => false
        await until(() => {
          const told = [...watched.state.values()].map(({ object }) => {
            return object.kind === 'Service' ? `${object.name}:${object.ports[0]?.port}` : object.name
          })
          expect(told.sort()).toEqual(api.ports(services))
        })
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
    { numRuns: 60 },
  )
})
