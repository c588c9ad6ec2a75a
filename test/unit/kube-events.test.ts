import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { silentLogger } from '../../src/base/log.js'
import { eventOf, type KubeEvent, type ServiceNotice } from '../../src/k8s/kube-event.js'
import { KubeEvents } from '../../src/k8s/kube-events.js'
import { FakeClock } from './sync-fake-clock.js'

const at = new Date('2026-01-02T03:04:05.678Z')
const notice = (part: Partial<ServiceNotice> = {}): ServiceNotice => ({
  ...{ namespace: 'shop', name: 'web', uid: 'u-1', reason: 'FrontendRefused', action: 'Plan' },
  ...{ note: 'frontends: 192.0.2.1:80 is taken', ofThisNode: false },
  ...part,
})

test('an event as the API wants it', () => {
  expect(eventOf(notice(), 'node-a', [], at)).toEqual({
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { namespace: 'shop', name: expect.stringMatching(/^web\.[0-9a-f]{16}$/) },
    eventTime: '2026-01-02T03:04:05.678000Z',
    reportingController: 'waggle',
    reportingInstance: 'waggle-node-a',
    type: 'Warning',
    reason: 'FrontendRefused',
    action: 'Plan',
    note: 'frontends: 192.0.2.1:80 is taken',
    regarding: { apiVersion: 'v1', kind: 'Service', namespace: 'shop', name: 'web', uid: 'u-1' },
  })
})

test('what every node says has one name, whatever its own addresses; what one node says has its own', () => {
  const name = (part: Partial<ServiceNotice>, node: string, ...here: string[]) =>
    eventOf(notice(part), node, here, at).metadata.name
  const note = (address: string) => ({ note: `frontends: ${address}:30080 is taken` })
  expect(name(note('192.0.2.10'), 'a', '192.0.2.10')).toBe(name(note('192.0.2.11'), 'b', '192.0.2.11'))
  expect(name(note('192.0.2.1'), 'a')).not.toBe(name(note('192.0.2.2'), 'a'))
  expect(name({}, 'a')).not.toBe(name({ uid: 'u-2' }, 'a'))
  expect(name({ ofThisNode: true }, 'a')).not.toBe(name({ ofThisNode: true }, 'b'))
  expect(eventOf(notice({ ofThisNode: true }), 'a', [], at).note).toMatch(/^node a: frontends/)
})

test('a long note is cut at the limit of the API, between characters', () => {
  const { note } = eventOf(notice({ note: 'é'.repeat(2000) }), 'a', [], at)
  expect(Buffer.byteLength(note)).toBeLessThanOrEqual(1024)
  expect(note).toMatch(/^é+…$/)
})

let clock: FakeClock
let server: Server
let url: string
let status: number
let received: { path: string; type: string; auth: string; event: KubeEvent }[]
let warnings: unknown[]
let events: KubeEvents

beforeEach(async () => {
  clock = new FakeClock()
  received = []
  warnings = []
  status = 201
  server = createServer((request, response) => {
    let body = ''
    request.on('data', data => {
      body += data
    })
    request.on('end', () => {
      const { 'content-type': type = '', authorization: auth = '' } = request.headers
      received.push({ path: `${request.method} ${request.url}`, type, auth, event: JSON.parse(body) })
      response.writeHead(status).end('{}')
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  events = make([url])
})
afterEach(async () => {
  events.stop()
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
})

function make(servers: string[]): KubeEvents {
  return new KubeEvents({
    access: { server: 'http://127.0.0.1:1', options: async () => ({ headers: { Authorization: 'Bearer t' } }) },
    servers,
    nodeName: 'node-a',
    clock,
    logger: { ...silentLogger, warn: (_, fields) => void warnings.push(fields?.error) },
  })
}

/** Lets requests that are due be answered. */
async function pass(ms: number, step = 200): Promise<void> {
  for (let passed = 0; passed <= ms; passed += step) {
    await clock.advanceAsync(step)
    for (let i = 0; i < 5; i++) await new Promise(resolve => setTimeout(resolve, 2))
  }
}

test('a notice is written once, with our credentials, although it comes again', async () => {
  events.tell(notice(), [])
  events.tell(notice(), [])
  await expect.poll(() => pass(200).then(() => events.counts)).toEqual({ sent: 1, known: 0, dropped: 0 })
  expect(received).toMatchObject([
    { path: 'POST /apis/events.k8s.io/v1/namespaces/shop/events', type: 'application/json', auth: 'Bearer t' },
  ])
  await pass(3_600_000, 600_000)
  events.tell(notice(), [])
  await expect.poll(() => pass(200).then(() => received.length)).toBe(2)
})

test('what another node has said is known', async () => {
  status = 409
  events.tell(notice(), [])
  await expect.poll(() => pass(200).then(() => events.counts)).toEqual({ sent: 0, known: 1, dropped: 0 })
  expect(warnings).toEqual([])
})

test('a Service that complains without end is held back; others are not', async () => {
  for (let i = 0; i < 40; i++) events.tell(notice({ note: `${i}` }), [])
  events.tell(notice({ name: 'other' }), [])
  expect(events.counts.dropped).toBe(15)
  await expect.poll(() => pass(1000).then(() => events.counts.sent), { timeout: 10_000 }).toBe(26)
  await clock.advanceAsync(300_000)
  events.tell(notice({ note: 'later' }), [])
  expect(events.counts.dropped).toBe(15)
})

test('a refusal is tried again, told once, and given up after a minute', async () => {
  status = 403
  events.tell(notice(), [])
  await expect.poll(() => pass(10_000, 5000).then(() => events.counts.dropped), { timeout: 10_000 }).toBe(1)
  expect(received.length).toBe(6)
  expect(warnings).toEqual([expect.stringContaining('create of events.events.k8s.io')])
  expect(clock.pending).toBe(0)
})

test('the servers are tried in turn', async () => {
  events = make(['http://127.0.0.1:1', url])
  events.tell(notice(), [])
  await expect.poll(() => pass(200).then(() => events.counts.sent)).toBe(1)
})
