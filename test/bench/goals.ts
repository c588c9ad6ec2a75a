import { type Figures, number, ratioText, table } from './figures.js'
import { FAMILIES, type Family } from './paths.js'

/** The goals of the datapath next to what was measured. Pure. */

const TCP = 'TCP connect and close'
const RATE = 'TCP connections a second'
const DATAGRAM = 'UDP datagram, one way'
const FRAME = 'frame of a known flow'
/** A goal that speaks of many Services is held against this many, and of legacy rules against so many. */
const LEGACY_AT = 10_000

interface Goal {
  readonly id: string
  readonly what: string
  readonly goal: string
  /** Figures of the run, and whether they reach the goal; nothing where they were not measured. */
  readonly now: (figures: Figures, family: Family) => { readonly value: number; readonly text: string } | undefined
  readonly reached: (value: number) => boolean
}

const ratioGoal = (
  id: string,
  what: string,
  limit: number,
  ratio: (figures: Figures, family: Family) => number | undefined,
  direction: 'most' | 'least' = 'most',
): Goal => ({
  id,
  what,
  goal: `${direction === 'most' ? '≤' : '≥'} ${limit}`,
  now: (figures, family) => {
    const value = ratio(figures, family)
    return value === undefined ? undefined : { value, text: ratioText(value) }
  },
  reached: value => (direction === 'most' ? value <= limit : value >= limit),
})

const nanosecondGoal = (
  id: string,
  what: string,
  limit: number,
  ns: (figures: Figures, family: Family) => number | undefined,
): Goal => ({
  id,
  what,
  goal: `≤ ${limit} ns`,
  now: (figures, family) => {
    const value = ns(figures, family)
    return value === undefined ? undefined : { value, text: `${number(Math.round(value))} ns` }
  },
  reached: value => value <= limit,
})

function most(figures: Figures): number {
  return figures.sizes('connect', `${TCP}: socket`).at(-1) ?? 0
}

function divided(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a / b
}

const connect = (figures: Figures, family: Family, what: string, n: number) =>
  figures.ratio('connect', `${TCP}: ${what}`, family, n)
const growth = (what: string) => (figures: Figures, family: Family) => {
  const sizes = figures.sizes('connect', `${TCP}: socket`)
  return divided(connect(figures, family, what, sizes.at(-1) ?? 0), connect(figures, family, what, sizes[0] ?? 0))
}
const program = (what: string, n?: number) => (figures: Figures, family: Family) =>
  figures.value('program', what, family, n)
const against = (what: string, rival: string, n: (figures: Figures) => number) => (figures: Figures, family: Family) =>
  divided(connect(figures, family, what, n(figures)), connect(figures, family, rival, n(figures)))
const rate = (figures: Figures, family: Family, what: string) => figures.value('connect', `${RATE}: ${what}`, family)
const frame = (figures: Figures, family: Family, what: string) =>
  figures.value('forward', `${FRAME}: ${what}`, family, 1_024)

/** The part of a frame's time that is not the sender's. */
function nodeTime(figures: Figures, family: Family, what: string): number | undefined {
  const [whole, sender] = [frame(figures, family, what), frame(figures, family, 'the sender alone')]
  return whole === undefined || sender === undefined ? undefined : whole - sender
}

/** A frame that comes without an skb, forwarded by a way. */
const xdp = (figures: Figures, family: Family, what: string, n = 1_024) => figures.value('xdp', what, family, n)

/** What the choice of a backend adds to a program that only sends. */
const xdpShare = (n: number) => (figures: Figures, family: Family) => {
  const [ours, floor] = [xdp(figures, family, 'waggle, native XDP', n), xdp(figures, family, 'XDP, sends only', n)]
  return ours === undefined || floor === undefined ? undefined : ours - floor
}

/** The part of such a frame's time that is not its coming. */
function xdpTime(figures: Figures, family: Family, what: string): number | undefined {
  const [whole, arrival] = [xdp(figures, family, what), xdp(figures, family, 'dropped on arrival')]
  return whole === undefined || arrival === undefined ? undefined : whole - arrival
}

/**
 * Nanoseconds that Katran adds to a program that only transmits, with one flow and with
 * many: measured once, over veth, on another machine (head of 2026-08, 100 backends, with
 * its connection table). It is built from its own source, so it is in no run of this.
 */
const KATRAN = { one: 140, many: 244 } as const
/** Flows where there are many. */
const MANY_FLOWS = 65_536

function cold(figures: Figures): number {
  return figures.sizes('program', 'known flow, backend here').at(-1) ?? 0
}

const GOALS: readonly Goal[] = [
  ratioGoal('D1', 'new connection ÷ direct, socket, most Services', 1.005, (f, family) =>
    connect(f, family, 'socket', most(f)),
  ),
  ratioGoal('D1', 'the same as packets, backend elsewhere', 1.02, (f, family) =>
    connect(f, family, 'packets, backend elsewhere', most(f)),
  ),
  ratioGoal('D1', 'the same as packets, backend here', 1.02, (f, family) =>
    connect(f, family, 'packets, backend here', most(f)),
  ),
  ratioGoal(
    'D1',
    '99th percentile ÷ direct, socket, most Services',
    1.05,
    (f, family) => f.find('connect', `${TCP}: socket`, family, most(f))?.ratioP99?.median,
  ),
  ratioGoal(
    'D1',
    'socket ÷ nft, 10,000 Services',
    0.83,
    against('socket', 'nft', () => LEGACY_AT),
  ),
  ratioGoal(
    'D1',
    'socket ÷ iptables-legacy (last rule), 10,000 Services',
    0.27,
    against('socket', 'iptables-legacy, last rule', () => LEGACY_AT),
  ),
  ratioGoal('D2', 'growth of D1 from fewest to most Services, socket', 1.01, growth('socket')),
  ratioGoal('D2', 'the same as packets, backend elsewhere', 1.01, growth('packets, backend elsewhere')),
  ratioGoal(
    'D3',
    'connections a second ÷ direct, 10 Services, socket',
    1,
    (f, family) => f.ratio('connect', `${RATE}: socket`, family),
    'least',
  ),
  ratioGoal(
    'D3',
    'the same ÷ iptables-legacy',
    1.2,
    (f, family) => divided(rate(f, family, 'socket'), rate(f, family, 'iptables-legacy')),
    'least',
  ),
  nanosecondGoal('D4', 'known flow, a datagram more than routing, backend elsewhere', 0, (f, family) => {
    const [ours, routed] = ['packets, backend elsewhere', 'routed'].map(what =>
      f.value('forward', `${DATAGRAM}: ${what}`, family),
    )
    return ours === undefined || routed === undefined ? undefined : (ours - routed) * 1000
  }),
  ratioGoal('D4', 'the same through a socket ÷ direct', 1.01, (f, family) =>
    f.ratio('forward', `${DATAGRAM}: socket`, family),
  ),
  nanosecondGoal('D5', 'program, packet of no Service', 10, program('no Service: segment of a connection')),
  nanosecondGoal('D5', 'program, known flow, backend here', 25, program('known flow, backend here', 1)),
  nanosecondGoal('D5', 'program, known flow, backend elsewhere', 25, program('known flow, backend elsewhere', 1)),
  nanosecondGoal('D5', 'program, new flow, backend here', 150, program('new flow: TCP, backend here')),
  nanosecondGoal('D5', 'program, new flow, backend elsewhere', 150, program('new flow: TCP, backend elsewhere')),
  nanosecondGoal('D6', 'program, known flow of 65,536, backend here', 130, (f, family) =>
    program('known flow, backend here', cold(f))(f, family),
  ),
  nanosecondGoal('D6', 'the same, backend elsewhere', 130, (f, family) =>
    program('known flow, backend elsewhere', cold(f))(f, family),
  ),
  nanosecondGoal('D7', 'native XDP, more than a program that only sends, 1 flow', 0.25 * KATRAN.one, xdpShare(1)),
  nanosecondGoal('D7', 'the same, 65,536 flows', Math.round(0.35 * KATRAN.many), xdpShare(MANY_FLOWS)),
  ratioGoal(
    'D8',
    'native XDP, rate ÷ that of a program that only sends, 65,536 flows',
    0.85,
    (f, family) =>
      divided(xdp(f, family, 'XDP, sends only', MANY_FLOWS), xdp(f, family, 'waggle, native XDP', MANY_FLOWS)),
    'least',
  ),
  ratioGoal(
    'D9',
    'node port, frames a second ÷ nft',
    5,
    (f, family) => divided(frame(f, family, 'nft'), frame(f, family, 'packets, backend elsewhere')),
    'least',
  ),
  ratioGoal(
    'D9',
    'the same ÷ iptables-legacy',
    6,
    (f, family) => divided(frame(f, family, 'iptables-legacy'), frame(f, family, 'packets, backend elsewhere')),
    'least',
  ),
  ratioGoal('D9', 'CPU a frame ÷ nft, without the sender', 0.125, (f, family) =>
    divided(nodeTime(f, family, 'packets, backend elsewhere'), nodeTime(f, family, 'nft')),
  ),
  ratioGoal(
    'D9',
    'native XDP, frames a second ÷ nft',
    5,
    (f, family) => divided(xdp(f, family, 'nft'), xdp(f, family, 'waggle, native XDP')),
    'least',
  ),
  ratioGoal(
    'D9',
    'the same ÷ iptables-legacy',
    6,
    (f, family) => divided(xdp(f, family, 'iptables-legacy'), xdp(f, family, 'waggle, native XDP')),
    'least',
  ),
  ratioGoal('D9', 'CPU a frame ÷ nft, without its coming', 0.125, (f, family) =>
    divided(xdpTime(f, family, 'waggle, native XDP'), xdpTime(f, family, 'nft')),
  ),
]

const SIX_TO_FOUR: readonly (readonly [string, (figures: Figures, family: Family) => number | undefined])[] = [
  ['D1 (socket, most Services)', (f, family) => connect(f, family, 'socket', most(f))],
  ['D5 (known flow, backend here)', program('known flow, backend here', 1)],
  ['D5 (known flow, backend elsewhere)', program('known flow, backend elsewhere', 1)],
  ['D5 (new flow, backend here)', program('new flow: TCP, backend here')],
  ['D8 (native XDP, 65,536 flows)', (f, family) => xdp(f, family, 'waggle, native XDP', MANY_FLOWS)],
]

export function goalTable(figures: Figures): string {
  const rows = GOALS.map(({ id, what, goal, now, reached }) => {
    const found = FAMILIES.map(family => now(figures, family))
    const all = found.flatMap(each => each ?? [])
    return [
      id,
      what,
      goal,
      ...found.map(each => each?.text ?? 'not measured'),
      all.length === 0 ? '-' : all.every(each => reached(each.value)) ? 'yes' : 'no',
    ]
  })
  const families = SIX_TO_FOUR.map(([what, value]) => {
    const ratio = divided(value(figures, 'IPv6'), value(figures, 'IPv4'))
    return [
      'D10',
      `IPv6 ÷ IPv4: ${what}`,
      '≤ 1.10',
      '',
      ratioText(ratio),
      ratio === undefined ? '-' : ratio <= 1.1 ? 'yes' : 'no',
    ]
  })
  const busiest = (scheduler: string) =>
    figures.value('spread', `busiest of 100 against the mean: ${scheduler}`, 'IPv4')
  const evenly = ['random', 'rr', 'maglev'].map(scheduler => {
    const value = busiest(scheduler)
    return [
      'D12',
      `busiest backend of 100 ÷ mean, ${scheduler}`,
      '≤ 1.02',
      ratioText(value),
      '',
      value === undefined ? '-' : value <= 1.02 ? 'yes' : 'no',
    ]
  })
  const bytes = figures.value('memory', 'a flow', 'IPv4')
  return table(
    ['', 'measured', 'goal', 'IPv4', 'IPv6', 'reached'],
    [
      ...rows,
      ...families,
      ...evenly,
      [
        'D13',
        'bytes a flow, both directions',
        '≤ 56',
        number(bytes),
        number(bytes),
        bytes === undefined ? '-' : bytes <= 56 ? 'yes' : 'no',
      ],
    ],
  )
}
