import type { Device } from '../../src/dataplane/ebpf/device-links.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import { parseAddress } from '../../src/model/address.js'
import { applyAll, DEFAULT_LIMITS, startDataplane } from './dataplane.js'
import { desiredState, PORT_KINDS } from './generate.js'
import { EchoServer, type Step, type Target, TimingClient } from './net-client.js'
import {
  backendAddress,
  buildPaths,
  CLIENT,
  FAMILIES,
  type Family,
  NODE_IN,
  NODE_OUT,
  nodeAddress,
  nodeOf,
  SERVER,
  SERVER_PORT,
  shortenConntrack,
} from './paths.js'
import { compare, interleave, type Results, type Row, type Skip } from './result.js'
import { nftNodePort } from './rules.js'
import { findTool, World } from './world.js'

const BENCH = 'packet'
const ROUNDS = 21
const NODE_PORT = 30080
const BACKENDS = 8
const ROUTED = 'routed'
const PATHS = { routed: 0, nft: 1, waggle: 2 } as const

const SUITES: readonly {
  readonly step: Step
  readonly what: string
  readonly count: number
  readonly pauseUs: number
}[] = [
  { step: 'crr', what: 'TCP connect, request, close', count: 150, pauseUs: 0 },
  { step: 'rr', what: 'TCP request on one connection', count: 300, pauseUs: 0 },
  { step: 'flood', what: 'UDP datagram, one way', count: 5_000, pauseUs: 2_000 },
]

/**
 * What traffic from outside pays at a node port whose backends are on another node, against
 * the same packets merely routed through the node, and against nft (DNAT, masquerade).
 */
export async function packet(progress: (line: string) => void): Promise<Results> {
  const world = new World(BENCH)
  try {
    return await measure(world, progress)
  } finally {
    world.close()
  }
}

async function measure(world: World, progress: (line: string) => void): Promise<Results> {
  buildPaths(world, Object.keys(PATHS).length)
  const binary = world.compile('netclient.c')
  const client = new TimingClient(world, binary, CLIENT)
  await startNode(world)
  const rows: Row[] = []
  const skips: Skip[] = []
  for (const family of FAMILIES) {
    const why = loadNft(world, family)
    if (why !== undefined) skips.push({ bench: BENCH, what: `nft, ${family}`, why })
    for (const { step, what, count, pauseUs } of SUITES) {
      progress(`${family}, ${what}: ${ROUNDS} rounds`)
      const server = await EchoServer.start(world, binary, SERVER, SERVER_PORT, pauseUs)
      const variants = targets(family, why === undefined).map(({ name, target }) => ({
        what: name,
        run: () => client.time(step, target, count),
      }))
      const samples = await interleave(variants, ROUNDS)
      if (step === 'flood') await expectArrived(server, count * (ROUNDS + 1) * variants.length)
      await server.stop()
      const rowsHere = compare({ bench: BENCH, family, unit: 'µs' }, samples, ROUTED, 1e-3)
      rows.push(...rowsHere.map(row => ({ ...row, what: `${what}: ${row.what}` })))
    }
  }
  return { rows, skips }
}

function targets(family: Family, nft: boolean): { name: string; target: Target }[] {
  const backends = (path: number) => ({ address: backendAddress(path, family, 0), port: SERVER_PORT, span: BACKENDS })
  const nodePort = (path: number) => ({ address: nodeAddress(path, family, NODE_IN), port: NODE_PORT, span: 1 })
  return [
    { name: ROUTED, target: backends(PATHS.routed) },
    { name: 'waggle, no Service', target: backends(PATHS.waggle) },
    { name: 'waggle', target: nodePort(PATHS.waggle) },
    ...(nft ? [{ name: 'nft', target: nodePort(PATHS.nft) }] : []),
  ]
}

/** Attaches the packet layer to both devices of its node. */
async function startNode(world: World): Promise<void> {
  const place = { bpffs: world.bpffs(), cgroup: world.cgroup('unused') }
  const dataplane = await startDataplane(world, place, DEFAULT_LIMITS)
  const native = loadNative()
  native.inNetns(`/run/netns/${world.netnsName(nodeOf(PATHS.waggle))}`, () => {
    const devices = ([NODE_IN, NODE_OUT] as const).map((name): Device => {
      const [address4, address6] = FAMILIES.map(family => parseAddress(nodeAddress(PATHS.waggle, family, name)))
      if (!address4 || !address6) throw new TypeError(`${name} has no address`)
      return { name, ifindex: native.ifNameToIndex(name), address4, address6 }
    })
    dataplane.setDevices(devices)
  })
  const ports = PORT_KINDS.map(({ family, protocol }) => ({
    name: 'web',
    family,
    protocol,
    frontends: [{ kind: 'NodePort' as const, address: nodeAddress(PATHS.waggle, family, NODE_IN), port: NODE_PORT }],
    backends: Array.from({ length: BACKENDS }, (_, i) => ({
      address: backendAddress(PATHS.waggle, family, i),
      port: SERVER_PORT,
    })),
  }))
  await applyAll(dataplane, desiredState(1, ports))
}

/** Why nft cannot take part, or undefined. */
function loadNft(world: World, family: Family): string | undefined {
  const tool = findTool('nft')
  if (tool === undefined) return 'nft is not installed'
  const backends = Array.from({ length: BACKENDS }, (_, i) => backendAddress(PATHS.nft, family, i))
  const rules = nftNodePort(nodeAddress(PATHS.nft, family, NODE_IN), NODE_PORT, backends, SERVER_PORT, family)
  try {
    world.inNetns(nodeOf(PATHS.nft), [tool, '-f', '-'], rules)
  } catch (error) {
    return error instanceof Error ? error.message.split('\n').slice(0, 2).join(' ') : String(error)
  }
  shortenConntrack(world, PATHS.nft)
  return undefined
}

/** Fast is only what arrives: throws when more than one datagram in a hundred was lost. */
async function expectArrived(server: EchoServer, expected: number): Promise<void> {
  let received = 0
  for (let tries = 0; tries < 50; tries++) {
    received = await server.received()
    if (received >= expected) return
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  if (received < expected * 0.99) throw new Error(`${expected - received} of ${expected} datagrams were lost`)
}
