import { createServer as createTcpServer } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { LogFields, Logger } from '../../src/base/log.js'
import { PROTOBUF } from '../../src/k8s/kube-proto.js'
import type { KubeSourceOptions } from '../../src/k8s/kube-source.js'
import {
  errorLine,
  FakeApi,
  line,
  nodesPath,
  sendStatus,
  service,
  servicesPath as services,
  slicesPath,
} from './kube-fake-api.js'
import { encodeStatus } from './kube-proto-encode.js'
import { until, Watched } from './kube-source-kit.js'

let api: FakeApi
const running: Watched[] = []

async function watch(options: Partial<KubeSourceOptions> = {}): Promise<Watched> {
  const watched = await new Watched([api.url], options).start()
  running.push(watched)
  return watched
}

/** A source whose first lists are in and whose watches are open. */
async function synced(options: Partial<KubeSourceOptions> = {}): Promise<Watched> {
  const watched = await watch(options)
  await until(() => expect(api.openWatches).toBe(3))
  return watched
}

/** The source's Services are the server's. */
function same(watched: Watched): void {
  const names = [...watched.state.keys()].filter(key => key.startsWith('Service ')).map(key => key.slice(8))
  expect(names.sort()).toEqual([...api.state(services).keys()].sort())
}

beforeEach(async () => {
  api = await new FakeApi().listen()
})

afterEach(async () => {
  await Promise.all(running.splice(0).map(watched => watched.source.stop()))
  await api.close()
})

describe('the straight way', () => {
  test('first lists, synced once a kind, then changes', async () => {
    api.put(services, service('a'))
    const watched = await synced()
    expect([...watched.synced].sort()).toEqual(['EndpointSlice', 'Node', 'Service'])
    api.put(services, service('b'))
    api.put(services, service('a', 81))
    api.remove(services, 'default/b')
    await until(() => expect(watched.told).toEqual(['+default/a', '+default/b', '+default/a', '-default/b']))
    expect(watched.batches.flat().filter(event => event.type === 'synced')).toHaveLength(3)
    expect(watched.errors).toEqual([])
  })

  test('asks only for what is ours: label selectors, one Node, bookmarks, a time limit of its own', async () => {
    await synced()
    const asked = (path: string, isWatch: boolean) =>
      api.requests.find(request => request.path === path && request.watch === isWatch)?.query ?? new URLSearchParams()
    for (const [path, label] of [
      [services, 'service-proxy-name'],
      [slicesPath, 'headless'],
    ] as const) {
      expect(asked(path, false).get('labelSelector')).toBe(`!service.kubernetes.io/${label}`)
      expect(asked(path, true).get('labelSelector')).toBe(asked(path, false).get('labelSelector'))
      expect(asked(path, true).get('allowWatchBookmarks')).toBe('true')
      expect(Number(asked(path, true).get('timeoutSeconds'))).toBeGreaterThanOrEqual(300)
      expect(Number(asked(path, true).get('timeoutSeconds'))).toBeLessThanOrEqual(600)
    }
    expect(asked(nodesPath, false).get('fieldSelector')).toBe('metadata.name=node-a')
  })

  test('a list of 1,203 objects comes in pages of 500, and in batches that leave room for other work', async () => {
    for (let i = 0; i < 1203; i++) api.put(services, service(`s${i}`))
    const watched = await synced()
    same(watched)
    expect(api.count(services, 'list')).toBe(3)
    const batches = watched.batches.filter(batch => batch.some(event => event.type === 'upsert'))
    expect(batches.map(batch => batch.length)).toEqual([500, 500, 204])
    expect(batches[2]?.at(-1)).toEqual({ type: 'synced', kind: 'Service' })
  })

  test('the events of one chunk are one batch', async () => {
    const watched = await synced()
    const before = watched.batches.length
    const lines = ['a', 'b', 'c'].map((name, i) =>
      line('ADDED', { ...service(name), metadata: { namespace: 'default', name, resourceVersion: `${500 + i}` } }),
    )
    api.send(services, lines.join(''))
    await until(() => expect(watched.told).toHaveLength(3))
    expect(watched.batches.length).toBe(before + 1)
  })

  test('after stop nothing is told any more', async () => {
    const watched = await synced()
    await watched.source.stop()
    api.put(services, service('late'))
    await new Promise(resolve => setTimeout(resolve, 50))
    expect(watched.told).toEqual([])
    expect(api.openWatches).toBe(0)
  })

  test('the status says what is known and when it was last heard of', async () => {
    api.put(services, service('a'))
    const watched = await synced()
    const status = watched.source.status().find(kind => kind.kind === 'Service')
    expect(status).toMatchObject({ synced: true, objects: 1, held: 0, failures: 0, lastError: undefined })
    expect(Date.now() - (status?.lastEventAt?.getTime() ?? 0)).toBeLessThan(5_000)
  })
})

describe('faults', () => {
  test('a reset in the middle of a line: resumes, loses nothing, tells nothing twice', async () => {
    const watched = await synced()
    for (const [i, name] of ['a', 'b', 'c'].entries()) {
      await api.putCut(services, service(name), 1 + i * 40)
      await until(() => same(watched))
      await until(() => expect(api.openWatches).toBe(3))
    }
    expect(watched.told).toEqual(['+default/a', '+default/b', '+default/c'])
    expect(api.count(services, 'list')).toBe(1)
    expect(watched.kinds()).toEqual(['cut'])
  })

  test('410 as a status: lists again and tells what was deleted meanwhile', async () => {
    for (const name of ['a', 'b', 'c']) api.put(services, service(name))
    const watched = await synced()
    api.mute(true)
    api.remove(services, 'default/a')
    api.put(services, service('d'))
    api.mute(false)
    api.compact()
    api.reset()
    await until(() => same(watched))
    expect(watched.told.slice(3).sort()).toEqual(['+default/d', '-default/a'])
    expect(watched.batches.at(-1)).toHaveLength(2)
    expect(watched.kinds()).toContain('expired')
  })

  test('410 as an event: the same', async () => {
    for (const name of ['a', 'b', 'c']) api.put(services, service(name))
    const watched = await synced()
    api.mute(true)
    api.remove(services, 'default/a')
    api.mute(false)
    api.send(services, errorLine(410, 'too old resource version: 3 (100)'))
    await until(() => same(watched))
    expect(api.count(services, 'list')).toBe(2)
    expect(watched.errors).toHaveLength(1)
    expect(watched.errors[0]?.error).toMatchObject({ code: 'KUBE_EXPIRED', status: 410 })
  })

  test('a watch that lived is gone on with at once when the server ends it', async () => {
    const watched = await synced({ timing: { minMs: 60_000, maxMs: 60_000, healthyMs: 50 } })
    await new Promise(resolve => setTimeout(resolve, 60))
    api.endWatches()
    await until(() => expect(api.count(services, 'watch')).toBe(2))
    expect(watched.errors).toEqual([])
  })

  test('a server that ends every watch at once is not asked in a tight loop', async () => {
    api.fault = (request, response) => {
      if (request.watch) response.end()
      return request.watch
    }
    await watch({ timing: { minMs: 50, maxMs: 100 } })
    await new Promise(resolve => setTimeout(resolve, 600))
    expect(api.count(services, 'watch')).toBeGreaterThan(3)
    expect(api.count(services, 'watch')).toBeLessThanOrEqual(12)
    expect(api.count(services, 'list')).toBe(1)
  })

  test('another ERROR event: drops the watch and resumes without a list', async () => {
    const watched = await synced()
    api.send(services, errorLine(500, 'etcd has no leader'))
    await until(() => expect(watched.errors).toHaveLength(1))
    await until(() => expect(api.openWatches).toBe(3))
    api.put(services, service('a'))
    await until(() => same(watched))
    expect(watched.errors[0]?.error.message).toContain('etcd has no leader')
    expect(api.count(services, 'list')).toBe(1)
  })

  test('a watch that is refused again and again from the same place leads to a list', async () => {
    const watched = await synced()
    api.fault = (request, response) => {
      if (!request.watch || request.path !== services || api.count(services, 'list') > 1) return false
      sendStatus(response, 400, 'invalid resourceVersion')
      return true
    }
    api.put(services, service('a'))
    api.reset()
    await until(() => expect(api.count(services, 'list')).toBe(2))
    await until(() => same(watched))
  })

  test('a continue token that expired: lists again in one piece', async () => {
    for (let i = 0; i < 600; i++) api.put(services, service(`s${i}`))
    api.fault = request => {
      if (request.query.has('continue')) api.compact()
      return false
    }
    const watched = await synced()
    same(watched)
    expect(watched.state.size).toBe(600)
    const last = api.requests.filter(request => request.path === services && !request.watch).at(-1)
    expect(last?.query.has('limit')).toBe(false)
  })

  test('429 with Retry-After: waits as long as asked', async () => {
    let first = 0
    let second = 0
    api.fault = (request, response) => {
      if (request.watch || request.path !== services) return false
      if (first === 0) {
        first = performance.now()
        sendStatus(response, 429, 'too many requests', { 'retry-after': '1' })
        return true
      }
      second ||= performance.now()
      return false
    }
    const watched = await synced()
    expect(second - first).toBeGreaterThanOrEqual(995)
    expect(watched.errors).toHaveLength(1)
    expect(watched.errors[0]?.error).toMatchObject({ kind: 'busy', retryAfterMs: 1000 })
  })

  test.each([
    { status: 401, kind: 'denied', remedy: /token or client certificate/ },
    { status: 403, kind: 'denied', remedy: /role must allow/ },
    { status: 500, kind: 'refused', remedy: /status 500: no/ },
    { status: 503, kind: 'busy', remedy: /status 503: no/ },
  ])('$status to a list: goes on trying', async ({ status, kind, remedy }) => {
    let tries = 0
    api.fault = (request, response) => {
      if (request.watch || request.path !== services || ++tries > 3) return false
      sendStatus(response, status, 'no')
      return true
    }
    const watched = await synced()
    expect(watched.errors.map(({ error }) => error.kind)).toEqual([kind, kind, kind])
    expect(watched.errors[0]?.error.message).toMatch(remedy)
  })

  test('silence: gives the connection up at the deadline and resumes', async () => {
    const watched = await synced({ timing: { idleMs: 120 } })
    api.mute(true)
    api.put(services, service('a'))
    api.mute(false)
    await until(() => same(watched))
    expect(watched.silent).toBeGreaterThan(0)
    expect(watched.errors).toEqual([]) // a quiet server is no failure
    expect(watched.told).toEqual(['+default/a'])
  })

  test('a silent server that went back in time: found out by a look at its version', async () => {
    api.put(services, service('a'))
    const watched = await synced({ timing: { idleMs: 120 } })
    api.rewind(50)
    await until(() => expect(watched.told).toEqual(['+default/a', '+default/a']))
    expect(watched.errors).toEqual([])
  })

  test('a silent server that is gone: the look at its version fails, and that is told', async () => {
    const watched = await synced({ answerMs: 50, timing: { idleMs: 120 } })
    api.fault = () => true
    await until(() => expect(watched.kinds()).toEqual(['silent']))
  })

  test('an answer that never begins, a list that stops in the middle', async () => {
    api.put(services, service('a'))
    const faults = ['head', 'body']
    api.fault = (request, response) => {
      if (request.watch || request.path !== services) return false
      const fault = faults.shift()
      if (fault === 'body') response.write('{"metadata":')
      return fault !== undefined
    }
    const watched = await synced({ answerMs: 60, timing: { idleMs: 60 } })
    same(watched)
    expect(watched.errors.slice(0, 2).map(({ error }) => error.kind)).toEqual(['silent', 'silent'])
  })

  test('bookmarks alone keep a watch alive and move its place on', async () => {
    const watched = await synced({ timing: { idleMs: 500 } })
    for (let i = 0; i < 20; i++) {
      api.put(nodesPath, { metadata: { name: `other-${i}` } })
      for (const path of [services, slicesPath, nodesPath]) api.bookmark(path)
      await new Promise(resolve => setTimeout(resolve, 40))
    }
    expect(watched.errors).toEqual([])
    expect(api.count(services, 'watch')).toBe(1)
    api.reset()
    await until(() => expect(api.openWatches).toBe(3))
    const versions = api.requests.filter(r => r.path === services && r.watch).map(r => r.query.get('resourceVersion'))
    expect(versions).toEqual(['100', '120'])
  })

  test.each([
    { name: 'no JSON', bytes: '<html>gateway</html>\n' },
    { name: 'no event', bytes: '42\n' },
    { name: 'an unknown type', bytes: line('RENAMED', service('x')) },
    { name: 'no object', bytes: line('ADDED', null) },
    { name: 'an object without name', bytes: line('MODIFIED', { metadata: {} }) },
    { name: 'broken UTF-8', bytes: Buffer.from([0xff, 0xfe, 0x0a]) },
  ])('a line that is $name: keeps what came before, drops the watch, resumes', async ({ bytes }) => {
    const watched = await synced()
    api.put(services, service('a'))
    api.send(services, bytes)
    await until(() => expect(watched.errors).toHaveLength(1))
    await until(() => expect(api.openWatches).toBe(3))
    api.put(services, service('b'))
    await until(() => same(watched))
    expect(watched.told).toEqual(['+default/a', '+default/b'])
    expect(watched.kinds()).toEqual(['garbled'])
    expect(api.count(services, 'list')).toBe(1)
  })

  test.each([
    { name: 'HTML', body: '<html></html>' },
    { name: 'an object', body: '{}' },
    { name: 'items that are none', body: '{"metadata":{"resourceVersion":"1"},"items":{}}' },
  ])('a list that is $name is no empty list', async ({ body }) => {
    api.put(services, service('a'))
    const watched = await synced()
    let wrong = 3
    api.fault = (request, response) => {
      if (request.watch || request.path !== services || wrong-- <= 0) return false
      response.end(body)
      return true
    }
    api.compact()
    api.put(services, service('b'))
    api.compact()
    api.reset()
    await until(() => same(watched))
    expect(watched.told).toEqual(['+default/a', '+default/b'])
    expect(watched.kinds()).toContain('garbled')
  })

  test('nothing is removed on the word of a list with an object without name', async () => {
    api.put(services, service('a'))
    const watched = await synced()
    let wrong = 1
    api.fault = (request, response) => {
      if (request.watch || request.path !== services || wrong-- <= 0) return false
      response.end('{"metadata":{"resourceVersion":"102"},"items":[{}]}')
      return true
    }
    api.compact()
    api.put(services, service('b'))
    api.compact()
    api.reset()
    const problems = () => watched.batches.flat().filter(({ type }) => type === 'problem')
    await until(() => expect(problems()).toHaveLength(1))
    expect(problems()[0]).toMatchObject({ where: 'list of every Service', field: 'items' })
    expect(watched.told).toEqual(['+default/a'])
    // Once the server answers properly, the next list tells the rest and takes the problem back.
    api.put(services, service('c'))
    api.compact()
    api.reset()
    await until(() => same(watched))
    expect(watched.told.sort()).toEqual(['+default/a', '+default/b', '+default/c'])
    expect(watched.batches.flat()).toContainEqual({ type: 'resolved', where: 'list of every Service' })
  })

  test.each([{ how: 'a status' }, { how: 'an event' }, { how: 'silence' }, { how: 'an early end' }])(
    'a server that streams no list says so by $how: lists in pages, and watches',
    async ({ how }) => {
      const able = await new FakeApi({ protobuf: true, streams: true }).listen()
      able.put(services, service('a'))
      able.fault = ({ path, query }, response) => {
        if (path !== services || !query.has('sendInitialEvents')) return false
        if (how === 'a status') sendStatus(response, 422, 'sendInitialEvents is forbidden')
        else {
          response.writeHead(200, { 'content-type': `${PROTOBUF};stream=watch` })
          response.flushHeaders()
          if (how === 'an event') response.end(able.event(path, 'ERROR', { kind: 'Status', code: 500, message: 'no' }))
          if (how === 'an early end') response.end(able.event(path, 'ADDED', service('a')))
        }
        return true
      }
      const watched = await new Watched([able.url]).start()
      try {
        await until(() => expect(watched.synced.size).toBe(3))
        expect(able.count(services, 'list')).toBe(1)
        expect(watched.noStreams).toBe(1)
        expect(watched.errors).toHaveLength(how === 'an early end' ? 1 : 0)
        await until(() => expect(watched.opened).toBe(3))
        able.put(services, service('b'))
        await until(() => expect(watched.told).toEqual(['+default/a', '+default/b']))
      } finally {
        await watched.source.stop()
        await able.close()
      }
    },
  )

  test('an error of the server in protobuf is told in its own words', async () => {
    const refuse = { kind: 'Status', code: 403, message: 'services is forbidden' }
    api.fault = (_, response) => {
      response.writeHead(403, { 'content-type': PROTOBUF })
      response.end(encodeStatus(refuse))
      return true
    }
    const watched = new Watched([api.url])
    await watched.start()
    try {
      await until(() => expect(watched.errors.length).toBeGreaterThan(0))
      expect(watched.errors[0]?.error.message).toMatch(/status 403: services is forbidden; the role/)
    } finally {
      await watched.source.stop()
    }
  })

  test('an invalid object is reported, keeps its last good state and does not stop the others', async () => {
    api.put(services, service('a'))
    const watched = await synced()
    api.put(services, { ...service('a'), spec: { clusterIPs: 7 } })
    api.put(services, service('b'))
    await until(() => same(watched))
    const problems = watched.batches.flat().filter(event => event.type === 'problem')
    expect(problems[0]).toMatchObject({ where: 'Service default/a' })
    expect(watched.told).toEqual(['+default/a', '+default/b'])
  })

  test('a server that went back in time: lists again and tells everything', async () => {
    api.put(services, service('a'))
    api.put(services, service('b'))
    const watched = await synced()
    api.rewind(50)
    api.bookmark(services)
    await until(() => expect(watched.told).toEqual(['+default/a', '+default/b', '+default/a', '+default/b']))
  })

  test('a receiver that throws: everything is told again', async () => {
    const watched = await synced()
    let thrown = false
    watched.onBatch = () => {
      if (thrown) return
      thrown = true
      throw new Error('a bug behind us')
    }
    api.put(services, service('a'))
    await until(() => same(watched))
    expect(watched.kinds()).toEqual(['handler'])
  })

  test('a server that loses everything: deletions wait for a second list', async () => {
    for (let i = 0; i < 40; i++) api.put(services, service(`s${i}`))
    const watched = await synced({ fuse: { confirmMs: 200 } })
    api.lose(services)
    api.reset()
    await until(() => expect(watched.source.status().find(k => k.kind === 'Service')?.held).toBe(40))
    api.put(services, service('new'))
    await until(() => expect(watched.state.size).toBe(41))
    await until(() => same(watched))
    expect(watched.told.filter(told => told.startsWith('-'))).toHaveLength(40)
    expect(api.count(services, 'list')).toBe(3)
  })
})

test('the log says once that the server is away, counts, and says when it is back', async () => {
  const lines: string[] = []
  const write = (level: string) => (message: string, fields?: LogFields) => {
    if (fields?.kind === 'Service') lines.push(`${level} ${message} ${fields?.failures ?? ''}`.trim())
  }
  const log: Logger = { ...levels(write), child: () => log }
  let refusals = 45
  api.fault = (request, response) => {
    if (request.path !== services || refusals-- <= 0) return false
    sendStatus(response, 503, 'not ready')
    return true
  }
  const watched = await synced({ log, timing: { minMs: 1, maxMs: 2 } })
  expect(watched.errors).toHaveLength(45)
  expect(lines.filter(text => !text.startsWith('debug'))).toEqual([
    'info the API server streams no lists; they are read in pages',
    'warn the API server cannot be read 1',
    'warn the API server cannot be read 21',
    'warn the API server cannot be read 41',
    'info the API server answers again 45',
    'info listed',
  ])
})

function levels(write: (level: string) => Logger['info']): Omit<Logger, 'child'> {
  return { error: write('error'), warn: write('warn'), info: write('info'), debug: write('debug') }
}

describe('several servers', () => {
  test('one that cannot be reached makes way for the next in the same try', async () => {
    const dead = createTcpServer()
    await new Promise<void>(resolve => dead.listen(0, '127.0.0.1', resolve))
    const { port } = dead.address() as { port: number }
    await new Promise(resolve => dead.close(resolve))
    api.put(services, service('a'))
    const watched = await synced({ servers: [`http://127.0.0.1:${port}`, api.url] })
    same(watched)
    expect(watched.errors).toEqual([])
  })

  test('one that hangs while connecting', async () => {
    // TEST-NET-1: nobody answers, or the route refuses it.
    const watched = await synced({ servers: ['http://192.0.2.1:6443', api.url], connectMs: 100 })
    expect(watched.errors).toEqual([])
  })

  test('when the one in use goes away, the next one is resumed at', async () => {
    const second = await new FakeApi().listen()
    try {
      const watched = await synced({ servers: [api.url, second.url] })
      second.rewind(100)
      await api.close()
      second.put(services, service('from-second'))
      await until(() => expect(watched.told).toEqual(['+default/from-second']))
      expect(second.count(services, 'list')).toBe(0)
    } finally {
      await Promise.all(running.splice(0).map(watched => watched.source.stop()))
      await second.close()
      api = await new FakeApi().listen()
    }
  })

  test('no server at all: no event, growing waits, and all is well once it is back', async () => {
    const url = api.url
    await api.close()
    const watched = await new Watched([url]).start()
    running.push(watched)
    await until(() => expect(watched.errors.length).toBeGreaterThan(12))
    expect(watched.batches).toEqual([])
    expect(watched.kinds()).toEqual(['unreachable'])
    for (const { retryMs } of watched.errors) {
      expect(retryMs).toBeGreaterThanOrEqual(5)
      expect(retryMs).toBeLessThanOrEqual(40)
    }
    api = await new FakeApi().listen(Number(new URL(url).port))
    await until(() => expect(watched.synced.size).toBe(3))
    expect(watched.source.status().every(kind => kind.failures === 0)).toBe(true)
  })
})
