import { expect, test } from 'vitest'
import { isExpired, type WholeFlow } from '../../src/dataplane/ebpf/flow-expiry.js'
import { type Flow, FlowDirection, FlowSent, type Tuple } from '../../src/ebpf/generated/layouts.js'

const SECOND = 1_000_000_000n
const TIMEOUTS = {
  tcpEstablishedSeconds: 7440,
  tcpTransitorySeconds: 240,
  tcpClosedSeconds: 10,
  udpSeconds: 120,
  udpStreamSeconds: 300,
}
const { SENT, ON, FIN, RST } = FlowSent

/** A flow whose last packet, of the forward or the reply half, came at second 1000. */
function flow(proto: number, sent: number, heard: number, replySeen = 0n): WholeFlow {
  const address = new Uint8Array(16)
  const key: Tuple = { src: address, dst: address, sport: 1, dport: 2, proto }
  const half: Flow = {
    to: key,
    seenNs: replySeen ? 0n : 1000n * SECOND,
    backend: 1,
    generation: 1,
    service: 1,
    slot: 0,
    direction: FlowDirection.FORWARD,
    flags: 0,
    sent,
    heard,
  }
  return { key, forward: half, reply: { ...half, seenNs: replySeen, direction: FlowDirection.REPLY } }
}

test.each([
  ['TCP, a SYN alone', flow(6, SENT, 0), false, 240n],
  ['TCP, established', flow(6, SENT | ON, SENT), false, 7440n],
  ['TCP, half-closed', flow(6, SENT | ON | FIN, SENT), false, 7440n],
  ['TCP, closed', flow(6, SENT | ON | FIN, SENT | FIN), false, 10n],
  ['TCP, reset', flow(6, SENT | ON, SENT | RST), false, 10n],
  ['TCP to a removed backend is left to its peers', flow(6, SENT | ON, SENT), true, 7440n],
  ['UDP, no reply', flow(17, SENT, 0), false, 120n],
  ['UDP, both ways', flow(17, SENT | ON, SENT), false, 300n],
  ['UDP, the reply came last', flow(17, SENT | ON, SENT, 1000n * SECOND), false, 300n],
  ['UDP to a removed backend waits for the last answers', flow(17, SENT | ON, SENT), true, 5n],
])('%s', (_, each, retired, seconds) => {
  expect(isExpired(each, (1000n + seconds) * SECOND, retired, TIMEOUTS)).toBe(false)
  expect(isExpired(each, (1000n + seconds) * SECOND + 1n, retired, TIMEOUTS)).toBe(true)
})
