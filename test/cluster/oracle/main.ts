import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import fc from 'fast-check'
import { NODE_ADDRESS } from './health.js'
import { runOracle } from './run.js'

/**
 * Compares waggle's plan with the rules of the real kube-proxy, in a network namespace of
 * its own: `unshare --net` starts it, and everything is gone with its last process.
 *
 *   SEED=number     of the histories; one for each run if not set
 *   N=number        of histories
 *   HISTORY=number  only this one of them and its neighbour
 */
const seed = Number(process.env.SEED || Date.now() % 1_000_000)
const count = Number(process.env.N || 2000)
const only = process.env.HISTORY ? Number(process.env.HISTORY) : undefined

// The addresses of the Node must be the machine's, or kube-proxy serves no node port there.
const ip = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'inherit', 'inherit'] })
ip('link', 'set', 'lo', 'up')
ip('link', 'add', 'oracle0', 'type', 'veth', 'peer', 'oracle1')
ip('addr', 'add', `${NODE_ADDRESS.IPv4}/24`, 'dev', 'oracle0')
ip('addr', 'add', `${NODE_ADDRESS.IPv6}/64`, 'dev', 'oracle0', 'nodad')
ip('link', 'set', 'oracle0', 'up')

const dir = mkdtempSync(path.join(tmpdir(), 'waggle-oracle-'))
console.log(`SEED=${seed} N=${count}${only === undefined ? '' : ` HISTORY=${only}`}`)
const start = performance.now()
try {
  const { histories, steps, frontends, healthChecks, decided, noticed } = await runOracle({
    dir,
    seed,
    count,
    only,
    sample: fc.sample,
  })
  const seconds = ((performance.now() - start) / 1000).toFixed(0)
  const decisions = Object.entries(decided).map(([name, times]) => `${name} ${times}`)
  console.log(
    `${histories} histories in ${steps} settled steps, ${frontends} frontends and ${healthChecks} health checks compared, in ${seconds} s`,
  )
  console.log(`decided otherwise: ${decisions.join(', ')}; mistakes noticed: ${noticed.join(', ')}`)
} catch (error) {
  console.error(error instanceof Error ? (error.stack ?? error.message) : error)
  process.exitCode = 1
} finally {
  rmSync(dir, { recursive: true, force: true })
}
