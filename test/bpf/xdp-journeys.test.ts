import { describe } from 'vitest'
import { putXdpInFront } from './tc-node.js'

/**
 * The journeys and packet tables of tc once more, with XDP in front on the same maps:
 * whichever program has the last word, the packet becomes the same.
 */
putXdpInFront()

describe('XDP before tc', async () => {
  await import('./tc-journeys.test.js')
  await import('./tc-parse.test.js')
  await import('./tc-filter.test.js')
  await import('./tc-client.test.js')
  await import('./tc-hairpin.test.js')
  await import('./tc-snat.test.js')
  await import('./tc-snat-conntrack.test.js')
  await import('./tc-adopt.test.js')
  await import('./tc-sctp.test.js')
  await import('./tc-outcomes.test.js')
})
