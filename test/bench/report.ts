import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Figures, type Machine, number, ratioText, table, withRange } from './figures.js'
import { goalTable } from './goals.js'
import { FAMILIES, type Family } from './paths.js'
import { type BarPlot, barPlots, type Line, linePlots } from './plot.js'
import type { Results, Row } from './result.js'

/** From the results of a run to the pages that quote them. */

const TCP = 'TCP connect and close'
const COLUMNS = [
  'direct again',
  'socket, no Service',
  'socket',
  'empty programs',
  'packets, no Service',
  'packets, backend elsewhere',
  'packets, backend here',
  'nft',
  'iptables-legacy',
  'iptables-legacy, last rule',
  'iptables-nft',
  'iptables-nft, last rule',
] as const
const LINES: readonly (readonly [string, string])[] = [
  ['empty programs', 'baseline'],
  ['socket', 'socket'],
  ['packets, backend elsewhere', 'packets'],
  ['packets, backend here', 'here'],
  ['nft', 'nft'],
  ['iptables-legacy', 'legacy'],
  ['iptables-nft', 'iptables-nft'],
]

/** Files that a report writes, by their path in the checkout. */
export type Pages = ReadonlyMap<string, string>

export const KEPT = 'docs/performance.json'

/**
 * The pages of a checkout with the figures of a run in them. Text between
 * `<!-- figures: NAME -->` and `<!-- end -->` is replaced; all else is left as it is.
 * Throws when a page asks for figures that nobody makes.
 */
export function renderReport(results: Results & { machine: Machine }, read: (path: string) => string): Pages {
  const figures = new Figures(results)
  const parts: Readonly<Record<string, string>> = {
    machine: machineText(figures),
    goals: goalTable(figures),
    connect: connectTable(figures),
    'connect-p99': p99Table(figures),
    udp: udpTable(figures),
    rate: rateTable(figures),
    forward: forwardTable(figures),
    frames: framesTable(figures),
    xdp: xdpTable(figures),
    program: programTable(figures),
    count: countTable(figures),
    memory: memoryTable(figures),
    skipped: figures.skips.map(({ bench, what, why }) => `- ${bench}: ${what}: ${why}`).join('\n') || 'Nothing.',
    ratios: readmeTable(figures),
  }
  const pages = ['docs/performance.md', 'README.md'].map((path): [string, string] => [
    path,
    fill(read(path), parts, path),
  ])
  return new Map([
    ...pages,
    ['docs/performance-connect.svg', connectPlot(figures)],
    ['docs/performance-packets.svg', packetPlot(figures)],
  ])
}

/** Writes the pages from a file of results, and keeps a short copy of it. Returns what was written. */
export function writeReport(root: string, file: string): string[] {
  const results = shortened(JSON.parse(readFileSync(file, 'utf8')))
  const pages = renderReport(results, path => readFileSync(join(root, path), 'utf8'))
  for (const [path, content] of pages) writeFileSync(join(root, path), content)
  writeFileSync(join(root, KEPT), kept(results))
  return [...pages.keys(), KEPT]
}

/** Five digits are more than anybody can measure. */
function shortened(results: Results & { machine: Machine }): Results & { machine: Machine } {
  const text = JSON.stringify(results, (_, value) =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value,
  )
  return JSON.parse(text)
}

function kept({ machine, rows, skips }: Results & { machine: Machine }): string {
  const list = (items: readonly unknown[]) => items.map(item => `    ${JSON.stringify(item)}`).join(',\n')
  return `{\n  "machine": ${JSON.stringify(machine)},\n  "rows": [\n${list(rows)}\n  ],\n  "skips": [\n${list(skips)}\n  ]\n}\n`
}

function fill(page: string, parts: Readonly<Record<string, string>>, path: string): string {
  return page.replace(/(<!-- figures: ([a-z0-9-]+) -->\n)[\s\S]*?(<!-- end -->)/g, (_, begin, name, end) => {
    const part = parts[name]
    if (part === undefined) throw new Error(`${path} asks for figures ${name}, which nobody makes`)
    return `${begin}\n${part}\n\n${end}`
  })
}

function machineText({ machine }: Figures): string {
  const quick =
    machine.effort === 'quick'
      ? ' **A quick run beside other work: few rounds, so read the order of magnitude, not the last digit.**'
      : ''
  return (
    `\`${machine.command}\`, ${machine.at.slice(0, 10)}, revision ${machine.commit}: ${machine.cpus} CPUs (${machine.cpu}), ` +
    `Linux ${machine.kernel}, Node.js ${machine.node.slice(1)}; load average at the end ${machine.load.join(', ')}.${quick}`
  )
}

/** One line for each number of Services and family that something was measured with. */
function bySize(figures: Figures, what: string, cells: (n: number, family: Family) => string[]): string[][] {
  const sizes = figures.sizes('connect', `${what}: direct`)
  return FAMILIES.flatMap(family => sizes.map(n => [number(n), family, ...cells(n, family)]))
}

function connectTable(figures: Figures): string {
  return table(
    ['Services', 'family', 'direct', ...COLUMNS],
    bySize(figures, TCP, (n, family) => [
      `${number(figures.value('connect', `${TCP}: direct`, family, n))} µs`,
      ...COLUMNS.map(what => {
        const text = withRange(figures.find('connect', `${TCP}: ${what}`, family, n)?.ratio, ratioText)
        return what === 'socket' || what.startsWith('packets, backend') ? `**${text.replace(' ', '** ')}` : text
      }),
    ]),
  )
}

function p99Table(figures: Figures): string {
  const columns = [
    'direct again',
    'socket',
    'packets, backend elsewhere',
    'packets, backend here',
    'nft',
    'iptables-legacy',
  ]
  return table(
    ['Services', 'family', ...columns],
    bySize(figures, TCP, (n, family) =>
      columns.map(what => withRange(figures.find('connect', `${TCP}: ${what}`, family, n)?.ratioP99, ratioText)),
    ),
  )
}

function udpTable(figures: Figures): string {
  return table(
    ['Services', 'family', 'connect: direct', 'connect: socket', 'with a datagram: direct', 'with a datagram: socket'],
    bySize(figures, 'UDP connect and close', (n, family) =>
      ['UDP connect and close', 'UDP connect, one datagram, close'].flatMap(what => [
        `${number(figures.value('connect', `${what}: direct`, family, n))} µs`,
        withRange(figures.find('connect', `${what}: socket`, family, n)?.ratio, ratioText),
      ]),
    ),
  )
}

function rateTable(figures: Figures): string {
  const columns = [
    'direct again',
    'socket',
    'packets, backend elsewhere',
    'packets, backend here',
    'nft',
    'iptables-legacy',
    'iptables-nft',
  ]
  return table(
    ['family', 'direct', ...columns],
    FAMILIES.map(family => [
      family,
      `${number(figures.value('connect', 'TCP connections a second: direct', family))} a second`,
      ...columns.map(what =>
        withRange(figures.find('connect', `TCP connections a second: ${what}`, family)?.ratio, ratioText),
      ),
    ]),
  )
}

const WAYS = [
  'routed again',
  'socket',
  'empty programs',
  'packets, no Service',
  'packets, backend elsewhere',
  'packets, backend here',
  'nft',
  'iptables-legacy',
  'iptables-nft',
]

function forwardTable(figures: Figures): string {
  const lines = ['TCP request on one connection', 'UDP datagram, one way'].flatMap(what =>
    FAMILIES.map(family => [
      what,
      family,
      `${number(figures.value('forward', `${what}: routed`, family))} µs`,
      ...WAYS.map(way => withRange(figures.find('forward', `${what}: ${way}`, family)?.ratio, ratioText)),
    ]),
  )
  return table(['measured', 'family', 'routed', ...WAYS], lines)
}

function framesTable(figures: Figures): string {
  const what = (way: string) => `frame of a known flow: ${way}`
  const ways = ['routed', ...WAYS.filter(way => way !== 'socket' && way !== 'routed again')]
  const lines = figures.sizes('forward', what('routed')).flatMap(n =>
    FAMILIES.map(family => {
      const sender = figures.value('forward', what('the sender alone'), family, n)
      return [
        number(n),
        family,
        `${number((sender ?? 0) * 1000)} ns`,
        ...ways.map(way => {
          const value = figures.value('forward', what(way), family, n)
          if (value === undefined || sender === undefined) return '-'
          return `${number((value - sender) * 1000)} ns, ${number(1e3 / value)} k/s`
        }),
      ]
    }),
  )
  return table(['flows', 'family', 'sender alone', ...ways], lines)
}

const NOT_MEASURED = 'Not measured in this run.'

/** What rows of a bench are of, in their order. */
function namesOf(figures: Figures, bench: string): string[] {
  return [...new Set(figures.rows.filter(row => row.bench === bench).map(row => row.what))]
}

function xdpTable(figures: Figures): string {
  const ways = namesOf(figures, 'xdp')
  const lines = figures.sizes('xdp', 'routed').flatMap(n =>
    FAMILIES.map(family => [
      number(n),
      family,
      ...ways.map(way => {
        const value = figures.value('xdp', way, family, n)
        return value === undefined ? '-' : `${nanoseconds(value)} ns, ${number(1e3 / value)} M/s`
      }),
    ]),
  )
  return lines.length === 0 ? NOT_MEASURED : table(['flows', 'family', ...ways], lines)
}

function countTable(figures: Figures): string {
  const lines = namesOf(figures, 'count').map(what => [
    what,
    ...FAMILIES.map(family => number(figures.value('count', what, family))),
  ])
  return lines.length === 0 ? NOT_MEASURED : table(['instructions', 'IPv4', 'IPv6'], lines)
}

function programTable(figures: Figures): string {
  const names = namesOf(figures, 'program')
  const lines = names.flatMap(what => {
    const sizes = figures.sizes('program', what)
    return (sizes.length === 0 ? [undefined] : sizes).map(n => [
      n === undefined
        ? what
        : `${what}, ${number(n)} ${what.startsWith('new') ? 'backends' : n === 1 ? 'flow' : 'flows'}`,
      ...FAMILIES.map(family => withRange(figures.find('program', what, family, n)?.value, nanoseconds)),
    ])
  })
  return table(['packet', 'IPv4', 'IPv6'], lines)
}

function memoryTable(figures: Figures): string {
  const rows = figures.rows.filter(row => row.bench === 'memory')
  return table(
    ['what', 'with Services', 'size'],
    rows.map(row => [
      row.what,
      row.n === undefined ? '' : number(row.n),
      `${number(row.value.median)} ${row.unit}`.trim(),
    ]),
  )
}

function nanoseconds(value: number): string {
  return number(Math.round(value))
}

function readmeTable(figures: Figures): string {
  const most = figures.sizes('connect', `${TCP}: socket`).at(-1)
  const [few, many] = [10, most ?? 10]
  const connect = (what: string, n: number) => ratioText(figures.ratio('connect', `${TCP}: ${what}`, 'IPv4', n))
  const datagram = (what: string) => ratioText(figures.ratio('forward', `UDP datagram, one way: ${what}`, 'IPv4'))
  const line = (what: string, cells: readonly string[]) => [what, ...cells]
  const columns = ['socket', 'packets, backend elsewhere', 'nft', 'iptables-legacy'] as const
  return table(
    [
      'time, direct or routed = 1 (IPv4)',
      ...columns.map(what => (what === 'socket' ? 'waggle, socket' : what.replace('packets', 'waggle, packets'))),
    ],
    [
      line(
        'new connection, 10 Services',
        columns.map(what => connect(what, few)),
      ),
      line(
        'new connection, 10,000 Services',
        columns.map(what => connect(what, 10_000)),
      ),
      line(
        `new connection, ${number(many)} Services`,
        columns.map(what => connect(what, many)),
      ),
      line('datagram of a known flow', columns.map(datagram)),
    ],
  )
}

function connectPlot(figures: Figures): string {
  const plots = FAMILIES.map(family => ({
    title: `New TCP connections, ${family}`,
    yLabel: 'time against a direct connection, random Service',
    lines: LINES.map(
      ([what, colour]): Line => ({
        name: what,
        colour,
        points: figures.sizes('connect', `${TCP}: ${what}`).flatMap(n => {
          const y = figures.ratio('connect', `${TCP}: ${what}`, family, n)
          return y === undefined ? [] : [{ x: n, y }]
        }),
      }),
    ).filter(line => line.points.length > 0),
  }))
  return linePlots(plots, 'Services')
}

function packetPlot(figures: Figures): string {
  const bar = (row: Row | undefined, name: string, colour: string, scale: number, less: number) =>
    row === undefined
      ? []
      : [
          {
            name,
            colour,
            value: row.value.median * scale - less,
            min: row.value.min * scale - less,
            max: row.value.max * scale - less,
          },
        ]
  const forwarding: BarPlot = {
    title: 'What a datagram of a known flow costs beyond plain routing',
    unit: 'ns',
    groups: FAMILIES.map(family => {
      const routed = (figures.value('forward', 'UDP datagram, one way: routed', family) ?? 0) * 1000
      return {
        name: family,
        bars: LINES.flatMap(([what, colour]) =>
          bar(figures.find('forward', `UDP datagram, one way: ${what}`, family), what, colour, 1000, routed),
        ),
      }
    }),
  }
  const most = figures.sizes('program', 'known flow, backend here').at(-1)
  const programs: BarPlot = {
    title: 'One run of the ingress program, beyond an empty one',
    unit: 'ns',
    groups: FAMILIES.map(family => ({
      name: family,
      bars: [
        ...bar(figures.find('program', 'no Service: segment of a connection', family), 'no Service', 'baseline', 1, 0),
        ...bar(figures.find('program', 'known flow, backend here', family, 1), 'known flow, here', 'here', 1, 0),
        ...bar(figures.find('program', 'known flow, backend here', family, most), `of ${number(most)}`, 'here', 1, 0),
        ...bar(
          figures.find('program', 'known flow, backend elsewhere', family, 1),
          'known flow, elsewhere',
          'packets',
          1,
          0,
        ),
        ...bar(
          figures.find('program', 'known flow, backend elsewhere', family, most),
          `of ${number(most)}`,
          'packets',
          1,
          0,
        ),
        ...bar(figures.find('program', 'new flow: TCP, backend here', family), 'new flow, here', 'here', 1, 0),
        ...bar(
          figures.find('program', 'new flow: TCP, backend elsewhere', family),
          'new flow, elsewhere',
          'packets',
          1,
          0,
        ),
      ],
    })),
  }
  return barPlots([forwarding, programs])
}
