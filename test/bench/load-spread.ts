import { SCHEDULERS } from '../../src/model/desired.js'
import { ETH_LENGTH, udp } from '../bpf/packet.js'
import { DEFAULT_LIMITS } from './dataplane.js'
import { addressIn, DrivenNode, endpoint, FRAME_OFFSET, MAX_FRAMES, packFrames } from './driven-node.js'
import type { Effort } from './effort.js'
import type { PortSpec } from './generate.js'
import { plainRow, type Results, type Row } from './result.js'
import { World } from './world.js'

const BENCH = 'spread'
const BACKENDS = 100
/** 100.0.0.1 */
const FIRST_CLIENT = 0x64000001
/** Offsets in what the driver keeps of a frame. */
const SOURCE_AT = ETH_LENGTH + 12 - FRAME_OFFSET
const SOURCE_PORT_AT = ETH_LENGTH + 20 - FRAME_OFFSET
const PODS = { IPv4: '10.0', IPv6: '' }
const frontend = (scheduler: number) => `198.51.100.${scheduler + 1}`

/** How evenly new flows of as many clients are spread over backends of equal weight: the busiest one against the mean. */
export async function loadSpread(progress: (line: string) => void, effort: Effort): Promise<Results> {
  const world = new World(BENCH)
  try {
    // Maglev's table alone takes a quarter of the default.
    const node = await DrivenNode.create(world, { ...DEFAULT_LIMITS, slots: 1_048_576 })
    await node.apply(
      1,
      SCHEDULERS.map(
        (scheduler, i): PortSpec => ({
          name: scheduler,
          family: 'IPv4',
          protocol: 'UDP',
          scheduler,
          frontends: [{ kind: 'ExternalIP', address: frontend(i), port: 53 }],
          backends: Array.from({ length: BACKENDS }, (_, k) => ({
            address: addressIn('IPv4', PODS, k),
            port: 53,
            local: true,
          })),
        }),
      ),
    )
    const rows = SCHEDULERS.map((scheduler, i): Row => {
      progress(`${effort.spreadFlows} flows, ${scheduler}`)
      const before = node.opened()
      openFlows(node, endpoint(frontend(i), 53), effort.spreadFlows)
      const shares = node
        .opened()
        .map((value, k) => value - (before[k] as number))
        .filter(value => value > 0)
      const total = shares.reduce((sum, each) => sum + each, 0)
      if (total !== effort.spreadFlows) throw new Error(`${effort.spreadFlows} datagrams opened ${total} flows`)
      const most = (Math.max(...shares) * BACKENDS) / total
      return plainRow(
        { bench: BENCH, n: effort.spreadFlows, family: 'IPv4', unit: '' },
        `busiest of ${BACKENDS} against the mean: ${scheduler}`,
        [most],
      )
    })
    return { rows, skips: [] }
  } finally {
    world.close()
  }
}

/** A datagram each of `count` clients, each with an address and a port of its own. */
function openFlows(node: DrivenNode, to: string, count: number): void {
  const template = packFrames([udp('100.0.0.1:1024', to)])
  const size = template.bytes.length
  for (let at = 0; at < count; at += MAX_FRAMES) {
    const now = Math.min(MAX_FRAMES, count - at)
    const bytes = new Uint8Array(now * size)
    const view = new DataView(bytes.buffer)
    for (let i = 0; i < now; i++) {
      bytes.set(template.bytes, i * size)
      view.setUint32(i * size + SOURCE_AT, FIRST_CLIENT + at + i)
      view.setUint16(i * size + SOURCE_PORT_AT, 1024 + ((at + i) % 50_000))
    }
    node.run('waggle_ingress', { count: now, bytes, first: template.first }, now)
  }
}
