import { writeFileSync } from 'node:fs'
import { applyAll, DEFAULT_LIMITS, startDataplane } from './dataplane.js'
import type { Effort } from './effort.js'
import { desiredState, type PortSpec } from './generate.js'
import { EchoServer, type Target, TimingClient } from './net-client.js'
import {
  backendAddress,
  buildPaths,
  CLIENT,
  FAMILIES,
  type Family,
  SERVER,
  SERVER_PORT,
  serviceAddress,
} from './paths.js'
import { programIn } from './program.js'
import { interleave, type Row, type Variant } from './result.js'
import { quantile } from './stats.js'
import { World } from './world.js'

/**
 * Runs inside the machine that count.ts boots, where a nanosecond is an instruction:
 * `counted.mjs COMPILED RESULT` writes the rows as JSON. COMPILED is a folder with the C
 * files of this one, compiled: nobody wants to wait for an emulated compiler.
 */

/** Counts repeat, so rounds are few: the first of anything is what differs. */
const EFFORT: Effort = {
  name: 'tiny',
  rounds: 3,
  steps: 100,
  sizes: [10],
  loadSeconds: 0,
  datagrams: 0,
  runs: 1_000,
  flows: 1,
  manyServices: 1,
  spreadFlows: 0,
}
const LIMITS = { ...DEFAULT_LIMITS, services: 1_024, frontends: 1_024, backends: 8_192, slots: 16_384, flows: 16_384 }
const SERVICE_PORT = 80
const SERVER_PAUSE_US = 20_000

/** Programs, less the empty one. */
async function programs(compiled: string): Promise<Row[]> {
  const rows: Row[] = []
  for (const family of FAMILIES) {
    rows.push(...(await programIn(new World('count', compiled), LIMITS, family, console.log, EFFORT)))
  }
  return rows
    .filter(({ what }) => !what.includes('of many'))
    .map(row => counted(row.what, row.family, row.value.median))
}

/** connect() and close() through the socket layer, less the same without it. */
async function connects(compiled: string): Promise<Row[]> {
  const world = new World('count', compiled)
  try {
    buildPaths(world, 1)
    const [bare, pod] = [world.cgroup('bare'), world.cgroup('pod')]
    const dataplane = await startDataplane(world, { bpffs: world.bpffs(), cgroup: pod }, LIMITS)
    await applyAll(dataplane, desiredState(1, FAMILIES.flatMap(services)))
    const binary = world.compile('netclient.c')
    const server = await EchoServer.start(world, binary, SERVER, SERVER_PORT, SERVER_PAUSE_US)
    const client = new TimingClient(world, binary, CLIENT)
    const rows: Row[] = []
    for (const family of FAMILIES) {
      const [span] = EFFORT.sizes as [number]
      const direct = { address: backendAddress(0, family, 0), port: SERVER_PORT, span }
      const service = { address: serviceAddress(0, family, 0), port: SERVICE_PORT, span }
      for (const [step, name] of [
        ['tcp', 'TCP'],
        ['udp', 'UDP'],
      ] as const) {
        const variant = (what: string, cgroup: string, target: Target): Variant => ({
          what,
          run: async () => {
            await client.moveTo(cgroup)
            return client.time(step, target, EFFORT.steps)
          },
        })
        const samples = await interleave(
          [
            variant('direct', bare, direct),
            variant('to no Service', pod, direct),
            variant('to a Service', pod, service),
          ],
          EFFORT.rounds,
        )
        const of = (what: string) =>
          quantile(
            (samples.get(what) ?? []).map(({ p50 }) => p50),
            0.5,
          )
        rows.push(counted(`${name} connect and close: direct`, family, of('direct')))
        for (const what of ['to no Service', 'to a Service']) {
          rows.push(counted(`${name} connect and close: ${what}, more than direct`, family, of(what) - of('direct')))
        }
      }
    }
    await client.stop()
    await server.stop()
    return rows
  } finally {
    world.close()
  }
}

function services(family: Family): PortSpec[] {
  return Array.from({ length: EFFORT.sizes[0] ?? 0 }, (_, i) => i).flatMap(i =>
    (['TCP', 'UDP'] as const).map(protocol => ({
      name: `svc-${i}`,
      family,
      protocol,
      frontends: [{ kind: 'ClusterIP' as const, address: serviceAddress(0, family, i), port: SERVICE_PORT }],
      backends: [{ address: backendAddress(0, family, i), port: SERVER_PORT }],
    })),
  )
}

function counted(what: string, family: Family | undefined, value: number): Row {
  const spread = { median: value, min: value, max: value }
  return {
    bench: 'count',
    what,
    ...(family === undefined ? {} : { family }),
    unit: 'instructions',
    value: spread,
    rounds: 1,
  }
}

const [compiled, result] = process.argv.slice(2)
if (compiled === undefined || result === undefined) throw new Error('usage: counted.mjs COMPILED RESULT')
const rows = [...(await programs(compiled)), ...(await connects(compiled))]
writeFileSync(result, JSON.stringify(rows))
process.exit(0)
