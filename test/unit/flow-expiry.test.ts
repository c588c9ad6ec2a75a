import { expect, test } from 'vitest'
import { stateOf, timeoutOf } from '../../src/dataplane/ebpf/flow-expiry.js'
import { FlowSent } from '../../src/ebpf/generated/layouts.js'

const TIMEOUTS = {
  tcpEstablishedSeconds: 7440,
  tcpTransitorySeconds: 240,
  tcpClosedSeconds: 10,
  udpSeconds: 120,
  udpStreamSeconds: 300,
}
const { SENT, ON, FIN, RST } = FlowSent

test.each([
  ['TCP, a SYN alone', 6, SENT, 0, 240],
  ['TCP, answered', 6, SENT, SENT, 240],
  ['TCP, established', 6, SENT | ON, SENT, 7440],
  ['TCP, half-closed', 6, SENT | ON | FIN, SENT, 7440],
  ['TCP, closed', 6, SENT | ON | FIN, SENT | FIN, 10],
  ['TCP, reset', 6, SENT | ON, SENT | RST, 10],
  ['UDP, no reply', 17, SENT, 0, 120],
  ['UDP, a reply', 17, SENT, SENT, 120],
  ['UDP, both ways', 17, SENT | ON, SENT, 300],
])('%s: how long it may be silent', (_, proto, sent, heard, seconds) => {
  expect(timeoutOf(proto, stateOf({ sent, heard }), TIMEOUTS)).toBe(seconds)
})
