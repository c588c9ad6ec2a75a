import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { portChain, portText } from '../../../src/dataplane/iptables/names.js'
import { LAYOUTS } from '../../../src/dataplane/iptables/profile.js'
import { type RenderOptions, render, TABLES } from '../../../src/dataplane/iptables/render.js'
import { chainOf, readSave } from '../../../src/dataplane/iptables/save-text.js'
import { parseCidr } from '../../../src/model/cidr.js'
import { ApiServer } from '../api-server.js'
import { findParts } from '../parts.js'
import { NODE_ADDRESS } from './health.js'
import { history, NAMESPACES, render as renderHistory, type State, statesOf } from './history.js'
import { KubeProxy } from './kube-proxy.js'
import { OurPlan } from './our-plan.js'
import { HistoryWriter } from './writer.js'

/**
 * Compares the rules of --dataplane iptables with those that the real kube-proxy writes in
 * iptables mode for the same objects of the same API server, line by line, in a network
 * namespace of its own. SEED and N (Services) as in main.ts.
 */
const seed = Number(process.env.SEED || Date.now() % 1_000_000)
const count = Number(process.env.N || 300)
const NODE = 'node-a'
const CLUSTER = { IPv4: '10.244.0.0/16', IPv6: '2001:db8:244::/48' } as const
const SETTLE_MS = 120_000
const STEPS = 3
const MOST_SHOWN = 40
/** kube-proxy counts what two of its rules meet, by a match that decides nothing. */
const COUNTER = / -m nfacct --nfacct-name {2}\S+/

const ip = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'inherit', 'inherit'] })
ip('link', 'set', 'lo', 'up')
ip('link', 'add', 'oracle0', 'type', 'veth', 'peer', 'oracle1')
ip('addr', 'add', `${NODE_ADDRESS.IPv4}/24`, 'dev', 'oracle0')
ip('addr', 'add', `${NODE_ADDRESS.IPv6}/64`, 'dev', 'oracle0', 'nodad')
ip('link', 'set', 'oracle0', 'up')

const dir = mkdtempSync(path.join(tmpdir(), 'waggle-rules-'))
console.log(`SEED=${seed} N=${count}`)
const start = performance.now()
try {
  const parts = findParts()
  if ('missing' in parts) throw new Error(parts.missing)
  const api = await ApiServer.up(path.join(dir, 'api'))
  const objects = api.objects()
  let proxy: KubeProxy | undefined
  let ours: OurPlan | undefined
  try {
    for (const name of NAMESPACES) await objects.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    await objects.apply({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: NODE },
      status: { addresses: Object.values(NODE_ADDRESS).map(address => ({ type: 'InternalIP', address })) },
    })
    ours = await OurPlan.start(api.agentKubeconfig, NODE)
    proxy = KubeProxy.start({
      binary: parts.kubeProxy,
      dir,
      kubeconfig: api.adminKubeconfig,
      nodeName: NODE,
      clusterCIDR: Object.values(CLUSTER).join(),
      mode: 'iptables',
      modeSettings: { localhostNodePorts: false },
    })
    const lives = fc
      .sample(history(STEPS), { seed, numRuns: count })
      .map((each, index) => ({ states: statesOf(each), index, writer: new HistoryWriter(objects) }))
    let compared = 0
    for (let step = 0; step < STEPS; step++) {
      for (const { states, index, writer } of lives) await writer.become(renderHistory(states[step] as State, index))
      compared += await settle(proxy, ours, step)
    }
    const seconds = ((performance.now() - start) / 1000).toFixed(0)
    console.log(`${compared} rules of ${count} Services in ${STEPS} states are the same, in ${seconds} s`)
  } finally {
    await ours?.stop()
    await proxy?.stop()
    objects.close()
    await api.down()
  }
} catch (error) {
  console.error(error instanceof Error ? (error.stack ?? error.message) : error)
  process.exitCode = 1
} finally {
  rmSync(dir, { recursive: true, force: true })
}

/** Resolves with the number of equal rules once both sides agree. */
async function settle(proxy: KubeProxy, ours: OurPlan, step: number): Promise<number> {
  const deadline = performance.now() + SETTLE_MS
  for (;;) {
    proxy.check()
    const { rules, differences } = compare(ours)
    if (differences.length === 0 && rules > 0) return rules
    if (performance.now() > deadline) {
      const shown = differences.slice(0, MOST_SHOWN).join('\n')
      throw new Error(`step ${step}: ${differences.length} rules differ:\n${shown}\n${proxy.logTail()}`)
    }
    await sleep(500)
  }
}

function compare(ours: OurPlan): { rules: number; differences: string[] } {
  const differences: string[] = []
  const ambiguous = ours.ambiguous()
  let rules = 0
  for (const family of ['IPv4', 'IPv6'] as const) {
    const from = parseCidr(CLUSTER[family])
    if (from === undefined) throw new TypeError(CLUSTER[family])
    const options: RenderOptions = {
      family,
      layout: LAYOUTS['1.25'],
      masqueradeAll: false,
      randomFully: true,
      anyNodeAddress: true,
      localhostNodePorts: false,
      liberalConntrack: false,
      local: { from },
    }
    const wanted = render(ours.desired, options)
    const chains = new Set<string>()
    for (const port of ours.desired.services.values()) {
      if (!ambiguous.has(`${port.namespace}/${port.name}`)) continue
      for (const kind of ['SVC', 'SVL', 'EXT', 'FW'] as const)
        chains.add(portChain(kind, portText(port, false), port.protocol.toLowerCase()))
    }
    const counts = (line: string) => {
      const service = /--comment "(?:.* )?([a-z0-9-]+\/[a-z0-9-]+)(?::\S*)?(?: .*)?"/.exec(line)?.[1]
      return !chains.has(chainOf(line)) && (service === undefined || !ambiguous.has(service))
    }
    const clear = (lines: readonly string[] | undefined) => lines?.map(line => line.replace(COUNTER, '')).filter(counts)
    const tool = family === 'IPv6' ? 'ip6tables-save' : 'iptables-save'
    const saved = readSave(execFileSync(tool, { encoding: 'utf8', maxBuffer: 1 << 28 }))
    for (const table of TABLES) {
      const theirs = new Map(saved.get(table)?.chains)
      for (const [chain, lines] of wanted[table].chains) {
        const there = clear(theirs.get(chain))
        theirs.delete(chain)
        const here = clear(lines) ?? []
        rules += here.length
        if (lines.length > 0 && here.length === 0) continue
        differences.push(...lineDifferences(`${family} ${table} ${chain}`, here, there))
      }
      for (const [chain, lines] of theirs) {
        // KUBE-FIREWALL guards loopback addresses where route_localnet is set, which waggle never does.
        if (!chain.startsWith('KUBE-') || chain === 'KUBE-FIREWALL') continue
        const there = clear(lines) ?? []
        if (lines.length > 0 && there.length === 0) continue
        differences.push(...lineDifferences(`${family} ${table} ${chain}`, undefined, there))
      }
    }
  }
  return { rules, differences }
}

/** Order counts only where kube-proxy has one: not between Services. */
function lineDifferences(
  where: string,
  ours: readonly string[] | undefined,
  theirs: readonly string[] | undefined,
): string[] {
  const a = new Set(ours)
  const b = new Set(theirs)
  return [
    ...(ours === undefined || theirs === undefined ? [`${where}: ${ours ? 'ours' : 'theirs'} alone`] : []),
    ...[...a].filter(line => !b.has(line)).map(line => `${where} + ${line}`),
    ...[...b].filter(line => !a.has(line)).map(line => `${where} - ${line}`),
  ]
}
