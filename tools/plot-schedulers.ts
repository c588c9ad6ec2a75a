/**
 * What each scheduler does to load when a backend goes: runs the built programs and
 * writes docs/schedulers.svg, with its numbers on standard output.
 *
 *   make build && node_modules/.bin/tsx tools/plot-schedulers.ts     (root, cgroup v2)
 *
 * Left: packets of 2,000 clients, one connection each, with five backends; the fourth
 * goes, all flows are forgotten, and the same packets come again. Right: sockets that stay
 * open, three backends; the second goes and its clients dial anew, then it comes back
 * empty and half as many clients again dial.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { listTarget, spread } from '../src/dataplane/ebpf/list-target.js'
import { FlowDirection, FrontendKind, Scheduler } from '../src/ebpf/generated/layouts.js'
import { SCHEDULERS, type Scheduler as SchedulerName } from '../src/model/desired.js'
import { udp } from '../test/bpf/packet.js'
import { BACKENDS_V4, type SockHandle, SockRig } from '../test/bpf/sock-rig.js'
import { TcNode } from '../test/bpf/tc-node.js'

const NUMBERS: Readonly<Record<SchedulerName, Scheduler>> = {
  random: Scheduler.RANDOM,
  rr: Scheduler.RR,
  'source-hash': Scheduler.SOURCE_HASH,
  maglev: Scheduler.MAGLEV,
  'least-conn': Scheduler.LEAST_CONN,
}
const SERVICE = 'default/web:http/UDP/IPv4'
const CLIENTS = 2000
const GONE = 3

/** A list as the control plane makes it. */
function slotsOf(scheduler: SchedulerName, members: readonly { index: number; key: string }[]): number[] {
  const target = listTarget(
    scheduler,
    SERVICE,
    members.map(each => ({ ...each, weight: 1 })),
  )
  return target.kind === 'table' ? [...target.slots] : spread(target.counts)
}

/** For each backend: connections before; after, those it had, those of the one that went, those of others. */
interface PacketRun {
  readonly before: readonly number[]
  readonly kept: readonly number[]
  readonly fromGone: readonly number[]
  readonly fromOthers: readonly number[]
}

function packetRun(node: TcNode, scheduler: SchedulerName): PacketRun {
  node.services.clear()
  const members = [1, 2, 3, 4, 5].map(n => ({ at: `10.0.2.${n}:8080` }))
  const vip = '192.168.0.1:30080'
  const service = node.services.add({
    proto: 'UDP',
    frontends: [{ at: vip }],
    backends: members,
    scheduler: NUMBERS[scheduler],
  })
  const use = (positions: readonly number[]) =>
    node.services.setList(
      service,
      slotsOf(
        scheduler,
        positions.map(i => ({ index: service.backends[i] as number, key: `10.0.2.${i + 1}|8080` })),
      ),
    )
  const ask = () => {
    node.services.forgetFlows()
    for (let n = 1; n <= CLIENTS; n++) {
      node.measure('waggle_ingress', udp(`203.0.${n >> 8}.${n & 255}:40000`, vip), 1)
    }
    const flows = node.services.flows().filter(each => each.flow.direction === FlowDirection.FORWARD)
    return new Map(flows.map(({ key, flow }) => [key, service.backends.indexOf(flow.backend)]))
  }
  use([0, 1, 2, 3, 4])
  const before = ask()
  use([0, 1, 2, 3, 4].filter(i => i !== GONE))
  const after = ask()
  const count = (of: (was: number, is: number, backend: number) => boolean) =>
    members.map((_, i) => [...after].filter(([client, is]) => of(before.get(client) ?? -1, is, i)).length)
  return {
    before: count((was, _, i) => was === i),
    kept: count((was, is, i) => is === i && was === i),
    fromGone: count((was, is, i) => is === i && was === GONE),
    fromOthers: count((was, is, i) => is === i && was !== i && was !== GONE),
  }
}

/** Open connections of each backend: at first, with one gone, and when it is back. */
async function socketRun(rig: SockRig, scheduler: SchedulerName, at: number): Promise<number[][]> {
  const addr = `172.30.2.${at}`
  const client = await rig.client()
  const service = rig.addService({
    frontends: [{ addr, port: 80, proto: 'TCP', kind: FrontendKind.CLUSTER_IP }],
    backends: BACKENDS_V4.map(each => ({ addr: each })),
    scheduler: NUMBERS[scheduler],
  })
  const members = service.backends.map((index, i) => ({ index, key: BACKENDS_V4[i] as string }))
  const use = (list: typeof members) => rig.setBackends(service.index, slotsOf(scheduler, list))
  let open: { socket: SockHandle; to: string }[] = []
  const dial = async (n: number) => {
    for (let i = 0; i < n; i++) {
      const socket = await client.socket('tcp4')
      await socket.connect(addr, 80)
      open.push({ socket, to: (await socket.recv()).replace('- ', '') })
    }
  }
  const count = () => BACKENDS_V4.map(backend => open.filter(each => each.to === backend).length)
  use(members)
  await dial(90)
  const phases = [count()]
  use(members.filter((_, i) => i !== 1))
  const lost = open.filter(each => each.to === BACKENDS_V4[1])
  open = open.filter(each => each.to !== BACKENDS_V4[1])
  for (const { socket } of lost) await socket.close()
  await dial(lost.length)
  phases.push(count())
  use(members)
  await dial(45)
  phases.push(count())
  for (const { socket } of open) await socket.close()
  return phases
}

// --- drawing -------------------------------------------------------------------

const COLOURS = { kept: '#4c78a8', gone: '#f2b04c', others: '#d6453d', before: '#c9d3de' } as const
const ROW = 118
const TOP = 78

function rect(x: number, bottom: number, width: number, height: number, fill: string): string {
  return `<rect x="${x}" y="${(bottom - height).toFixed(1)}" width="${width}" height="${height.toFixed(1)}" fill="${fill}"/>`
}

function text(x: number, y: number, content: string, more = ''): string {
  return `<text x="${x}" y="${y}" ${more}>${content}</text>`
}

function packetRow(name: string, run: PacketRun, top: number): string {
  const bottom = top + 84
  const parts = [text(16, top + 14, name, 'class="name"')]
  const moved = run.fromOthers.reduce((a, b) => a + b, 0)
  const others = CLIENTS - (run.before[GONE] as number)
  parts.push(text(16, top + 32, `${((100 * moved) / others).toFixed(1)} % of the`), text(16, top + 48, 'others moved'))
  for (const [i, before] of run.before.entries()) {
    const x = 130 + i * 62
    const scale = 84 / 700
    const [kept = 0, gone = 0, others = 0] = [run.kept[i], run.fromGone[i], run.fromOthers[i]]
    parts.push(rect(x, bottom, 20, before * scale, COLOURS.before))
    parts.push(rect(x + 22, bottom, 20, kept * scale, COLOURS.kept))
    parts.push(rect(x + 22, bottom - kept * scale, 20, gone * scale, COLOURS.gone))
    parts.push(rect(x + 22, bottom - (kept + gone) * scale, 20, others * scale, COLOURS.others))
    parts.push(text(x + 21, bottom + 13, i === GONE ? 'gone' : `${i + 1}`, 'class="axis"'))
  }
  return parts.join('\n')
}

function socketRow(name: string, phases: readonly (readonly number[])[], top: number): string {
  const bottom = top + 84
  const parts = [text(480, top + 14, name, 'class="name"')]
  for (const [p, counts] of phases.entries()) {
    const x = 580 + p * 112
    for (const [i, n] of counts.entries()) {
      parts.push(rect(x + i * 28, bottom, 24, n * 1.1, i === 1 ? COLOURS.gone : COLOURS.kept))
      parts.push(text(x + i * 28 + 12, bottom - n * 1.1 - 3, `${n}`, 'class="axis"'))
    }
    parts.push(text(x + 40, bottom + 13, ['three', 'the second gone', 'back, 45 more'][p] as string, 'class="axis"'))
  }
  return parts.join('\n')
}

function draw(packets: ReadonlyMap<SchedulerName, PacketRun>, sockets: ReadonlyMap<SchedulerName, number[][]>): string {
  const height = TOP + packets.size * ROW + 10
  const legend = [
    [16, COLOURS.before, 'before'],
    [86, COLOURS.kept, 'kept'],
    [146, COLOURS.gone, 'of the one that went'],
    [296, COLOURS.others, 'moved without need'],
  ] as const
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 930 ${height}" font-family="sans-serif" font-size="12" fill="#333">
<style>.name{font-weight:bold;font-size:14px}.head{font-size:15px}.axis{font-size:10px;text-anchor:middle}</style>
<rect width="930" height="${height}" fill="#fff"/>
${text(16, 24, 'Packets: 2,000 connections before and after a backend goes', 'class="head"')}
${text(480, 24, 'Sockets: open connections of each backend', 'class="head"')}
${legend.map(([x, colour, label]) => rect(x, 52, 12, 12, colour) + text(x + 16, 51, label)).join('\n')}
${[...packets].map(([name, run], i) => packetRow(name, run, TOP + i * ROW)).join('\n')}
${[...sockets].map(([name, phases], i) => socketRow(name, phases, TOP + i * ROW)).join('\n')}
</svg>
`
}

const packets = new Map<SchedulerName, PacketRun>()
const node = new TcNode({ flows: 8192, slots: 65536 })
try {
  for (const name of SCHEDULERS) packets.set(name, packetRun(node, name))
} finally {
  node.close()
}
const sockets = new Map<SchedulerName, number[][]>()
const rig = await SockRig.create()
try {
  // One pod is one client of source-hash: there is nothing to see.
  const shown = SCHEDULERS.filter(name => name !== 'source-hash')
  for (const [at, name] of shown.entries()) sockets.set(name, await socketRun(rig, name, at + 1))
} finally {
  await rig.close()
}
writeFileSync(join(import.meta.dirname, '../docs/schedulers.svg'), draw(packets, sockets))
for (const [name, run] of packets) console.log(name, JSON.stringify(run))
for (const [name, phases] of sockets) console.log(name, JSON.stringify(phases))
