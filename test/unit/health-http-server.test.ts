import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { silentLogger } from '../../src/base/log.js'
import { type HttpRoute, HttpServer, json, plain } from '../../src/daemon/http-server.js'
import { FakeClock } from './sync-fake-clock.js'

const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

/** A port that nothing listens on now. */
async function freePort(): Promise<{ port: number; hold(): Promise<void>; release(): Promise<void> }> {
  let holder = createServer()
  await new Promise<void>(resolve => holder.listen(0, '127.0.0.1', resolve))
  const { port } = holder.address() as AddressInfo
  const release = () => new Promise<void>(resolve => holder.close(() => resolve()))
  await release()
  return {
    port,
    release,
    hold: () => {
      holder = createServer()
      return new Promise(resolve => holder.listen(port, '127.0.0.1', resolve))
    },
  }
}

function server(port: number, routes: Record<string, HttpRoute>, clock = new FakeClock()) {
  const lines: string[] = []
  const logger = {
    ...silentLogger,
    error: (message: string) => void lines.push(message),
    info: (message: string) => void lines.push(message),
  }
  const server = new HttpServer({
    name: 'test',
    address: { host: '127.0.0.1', port },
    routes: new Map(Object.entries(routes)),
    clock,
    logger,
  })
  stops.push(() => void server.stop())
  return { server, lines }
}

test('routes, other paths, other methods, and a route that throws', async () => {
  const { port } = await freePort()
  const { server: http } = server(port, {
    '/a': () => json(503, { x: 1 }),
    '/b': () => {
      throw new Error('no')
    },
  })
  await http.start()
  const get = (path: string, method = 'GET') => fetch(`http://127.0.0.1:${port}${path}`, { method })
  const a = await get('/a?verbose')
  expect([a.status, await a.text(), a.headers.get('content-type'), a.headers.get('x-content-type-options')]).toEqual([
    503,
    '{"x":1}\n',
    'application/json',
    'nosniff',
  ])
  expect((await get('/b')).status).toBe(500)
  expect(await (await get('/c')).text()).toBe('not found; known paths: /a /b\n')
  expect((await get('/a', 'POST')).status).toBe(405)
  const head = await get('/a', 'HEAD')
  expect([head.status, await head.text(), head.headers.get('content-length')]).toEqual([503, '', '8'])
})

test('a taken port is tried again until it is free, and logged once', async () => {
  const place = await freePort()
  await place.hold()
  const clock = new FakeClock()
  const { server: http, lines } = server(place.port, { '/': () => plain(200, 'ok') }, clock)
  await http.start()
  await clock.advanceAsync(20_000)
  expect(lines).toEqual(['cannot listen; trying again'])
  await place.release()
  await clock.advanceAsync(10_000)
  expect(lines).toEqual(['cannot listen; trying again', 'listening'])
  expect(await (await fetch(`http://127.0.0.1:${place.port}/`)).text()).toBe('ok')
})

test('a server that is stopped while the port is taken tries no more', async () => {
  const place = await freePort()
  await place.hold()
  const clock = new FakeClock()
  const { server: http } = server(place.port, {}, clock)
  await http.start()
  void http.stop()
  expect(clock.pending).toBe(0)
  await place.release()
})
