import { availableParallelism } from 'node:os'
import type { Effort } from './effort.js'
import { EchoServer, type Target, TimingClient } from './net-client.js'
import { CLIENT, type Family, SERVER, SERVER_PORT } from './paths.js'
import { compare, interleave, type Row, type Variant } from './result.js'
import type { World } from './world.js'

export interface RateTarget {
  readonly what: string
  /** Of the client. */
  readonly cgroup: string
  readonly target: Target
}

/**
 * Whole connections a second, each with a request and its answer, with a client and a server
 * on every CPU. The first target is the baseline.
 */
export async function connectionRate(
  world: World,
  binary: string,
  effort: Effort,
  n: number,
  family: Family,
  targets: readonly RateTarget[],
): Promise<Row[]> {
  const cpus = Array.from({ length: Math.min(availableParallelism(), 4) }, (_, cpu) => cpu)
  const servers: EchoServer[] = []
  for (const cpu of cpus) servers.push(await EchoServer.start(world, binary, SERVER, SERVER_PORT, 0, cpu))
  const clients = cpus.map(cpu => new TimingClient(world, binary, CLIENT, cpu))
  const variants = targets.map(
    ({ what, cgroup, target }): Variant => ({
      what,
      run: async () => {
        for (const client of clients) await client.moveTo(cgroup)
        const timings = await Promise.all(clients.map(client => client.time('crr', target, effort.steps)))
        const rate = timings.reduce((sum, { mean }) => sum + 1e9 / mean, 0)
        return { p50: rate, p99: rate }
      },
    }),
  )
  const samples = await interleave(variants, effort.rounds)
  for (const process of [...clients, ...servers]) await process.stop()
  const rows = compare({ bench: 'connect', n, family, unit: '1/s' }, samples, targets[0]?.what ?? '')
  return rows.map(({ ratioP99: _, ...row }) => ({ ...row, what: `TCP connections a second: ${row.what}` }))
}
