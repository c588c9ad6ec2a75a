import { expect, test } from 'vitest'
import { type HealthInput, healthz, livez, readyz } from '../../src/health/health.js'

const now = new Date('2026-01-01T00:10:00Z')
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1000)

const good: HealthInput = {
  sync: { synced: true, lastApplied: ago(300), pendingSince: undefined },
  nodeEligible: true,
  now,
  staleAfterMs: 60_000,
  waitingFor: ['the first full apply'],
  heldDeletions: 0,
}
const starting = { ...good, sync: { synced: false, lastApplied: undefined, pendingSince: undefined } }
const waiting = (seconds: number) => ({ ...good, sync: { ...good.sync, pendingSince: ago(seconds) } })

test('readyz tells of deletions that are held back', () => {
  expect(readyz(good).body).not.toHaveProperty('heldDeletions')
  expect(readyz({ ...good, heldDeletions: 7 })).toMatchObject({ code: 200, body: { heldDeletions: 7 } })
})

test.each([
  { name: 'nothing waits, however old the last apply', input: good, want: [200, 200, 200] },
  { name: 'a change waits within the limit', input: waiting(60), want: [200, 200, 200] },
  { name: 'a change waits too long', input: waiting(61), want: [503, 503, 200] },
  { name: 'the node is about to go', input: { ...good, nodeEligible: false }, want: [503, 200, 200] },
  { name: 'starting: healthy as kube-proxy, but not ready', input: starting, want: [200, 200, 503] },
  {
    name: 'starting and the kernel refuses the first change',
    input: { ...starting, sync: { ...starting.sync, pendingSince: ago(90) } },
    want: [503, 503, 503],
  },
])('$name', ({ input, want }) => {
  expect([healthz(input).code, livez(input).code, readyz(input).code]).toEqual(want)
})

test('the body has the fields of kube-proxy', () => {
  expect(healthz(good).body).toEqual({
    lastUpdated: '2026-01-01T00:10:00.000Z',
    currentTime: '2026-01-01T00:10:00.000Z',
    nodeEligible: true,
    healthy: true,
    status: {
      IPv4: { lastUpdated: '2026-01-01T00:10:00.000Z', healthy: true },
      IPv6: { lastUpdated: '2026-01-01T00:10:00.000Z', healthy: true },
    },
  })
  expect(livez(good).body).not.toHaveProperty('nodeEligible')
})

test('while stale, lastUpdated is the last apply, or the zero time', () => {
  expect(healthz(waiting(90)).body).toMatchObject({ lastUpdated: ago(300).toISOString(), healthy: false })
  const never = { ...starting, sync: { ...starting.sync, pendingSince: ago(90) } }
  expect(healthz(never).body).toMatchObject({ lastUpdated: '0001-01-01T00:00:00Z' })
})

test('what readiness waits for is named', () => {
  expect(readyz({ ...starting, waitingFor: ['the list of every Node'] }).body).toMatchObject({
    waitingFor: ['the list of every Node'],
  })
  expect(readyz(good).body).not.toHaveProperty('waitingFor')
})
