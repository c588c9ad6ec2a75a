/** Small plots as SVG text. Pure. */

const COLOURS: Readonly<Record<string, string>> = {
  socket: '#2b8a3e',
  packets: '#4c78a8',
  here: '#8ab4d8',
  nft: '#f2b04c',
  legacy: '#d6453d',
  'iptables-nft': '#a05195',
  baseline: '#9aa5b1',
}

export interface Line {
  readonly name: string
  /** Key of a colour. */
  readonly colour: string
  readonly points: readonly { readonly x: number; readonly y: number }[]
}

export interface LinePlot {
  readonly title: string
  readonly yLabel: string
  readonly lines: readonly Line[]
}

export interface Bar {
  readonly name: string
  readonly colour: string
  readonly value: number
  readonly min: number
  readonly max: number
}

export interface BarPlot {
  readonly title: string
  readonly unit: string
  readonly groups: readonly { readonly name: string; readonly bars: readonly Bar[] }[]
}

const WIDTH = 440
const HEIGHT = 300
const LEFT = 56
const BOTTOM = 46
const TOP = 44

/** Plots side by side with one legend; both axes of line plots are logarithmic. */
export function linePlots(plots: readonly LinePlot[], xLabel: string): string {
  const names = [...new Map(plots.flatMap(plot => plot.lines).map(line => [line.name, line.colour]))]
  const width = plots.length * WIDTH
  return svg(width, HEIGHT + 26 + 18 * Math.ceil(names.length / 4), [
    ...plots.map((plot, i) => linePlot(plot, xLabel, i * WIDTH)),
    ...legend(names, HEIGHT + 18, width),
  ])
}

function linePlot({ title, yLabel, lines }: LinePlot, xLabel: string, left: number): string {
  const points = lines.flatMap(line => line.points)
  const xs = [...new Set(points.map(point => point.x))].sort((a, b) => a - b)
  const low = 0.9
  const high = Math.max(1.5, ...points.map(point => point.y)) * 1.1
  const [first = 1, last = 10] = [xs[0], xs.at(-1)]
  const share = (value: number, from: number, to: number) => Math.log(value / from) / Math.log(to / from || 10)
  const x = (value: number) => left + LEFT + share(value, first, Math.max(last, first * 10)) * (WIDTH - LEFT - 24)
  const y = (value: number) => HEIGHT - BOTTOM - share(Math.max(value, low), low, high) * (HEIGHT - BOTTOM - TOP)
  const ticks = [1, 1.2, 1.5, 2, 3, 5, 10, 20, 50].filter(tick => tick <= high)
  return [
    text(left + LEFT, 24, title, 'class="head"'),
    text(left + LEFT, 38, yLabel, 'class="axis"'),
    ...ticks.map(
      tick =>
        line(x(first), y(tick), left + WIDTH - 24, y(tick), tick === 1 ? '#888' : '#ddd') +
        text(left + LEFT - 6, y(tick) + 4, String(tick), 'class="axis" text-anchor="end"'),
    ),
    ...xs.map(value => text(x(value), HEIGHT - BOTTOM + 16, count(value), 'class="axis" text-anchor="middle"')),
    text(left + LEFT + (WIDTH - LEFT) / 2, HEIGHT - BOTTOM + 32, xLabel, 'class="axis" text-anchor="middle"'),
    ...lines.map(({ points: own, colour }) => {
      const path = own.map((point, i) => `${i ? 'L' : 'M'}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`).join(' ')
      const dots = own.map(
        point =>
          `<circle cx="${x(point.x).toFixed(1)}" cy="${y(point.y).toFixed(1)}" r="3" fill="${COLOURS[colour]}"/>`,
      )
      return `<path d="${path}" fill="none" stroke="${COLOURS[colour]}" stroke-width="2"/>${dots.join('')}`
    }),
  ].join('\n')
}

/** Plots one above the other: horizontal bars with the extremes as a line, zero where it falls. */
export function barPlots(plots: readonly BarPlot[]): string {
  const parts: string[] = []
  let top = 0
  for (const plot of plots) {
    const drawn = barPlot(plot, top)
    parts.push(drawn.text)
    top += drawn.height
  }
  return svg(2 * WIDTH, top + 10, parts)
}

function barPlot({ title, unit, groups }: BarPlot, top: number): { text: string; height: number } {
  const bars = groups.flatMap(group => group.bars)
  const high = Math.max(0, ...bars.map(bar => bar.value)) * 1.25
  const low = Math.min(0, ...bars.map(bar => bar.value)) * 1.25
  const left = 220
  const x = (value: number) => left + ((Math.min(value, high) - low) / (high - low || 1)) * (2 * WIDTH - left - 90)
  const parts = [text(16, top + 24, title, 'class="head"')]
  let y = top + 40
  for (const group of groups) {
    parts.push(text(16, y + 13, group.name, 'font-weight="bold"'))
    for (const bar of group.bars) {
      const [from, to] = [Math.min(x(0), x(bar.value)), Math.max(x(0), x(bar.value))]
      parts.push(
        text(left - 6, y + 13, bar.name, 'text-anchor="end"'),
        `<rect x="${from.toFixed(1)}" y="${y + 2}" width="${(to - from).toFixed(1)}" height="14" fill="${COLOURS[bar.colour]}"/>`,
        line(x(Math.max(bar.min, low)), y + 9, x(bar.max), y + 9, '#333'),
        text(
          Math.max(x(bar.max), to) + 6,
          y + 13,
          `${Math.round(bar.value).toLocaleString('en-US')} ${unit}`,
          'class="axis"',
        ),
      )
      y += 20
    }
    y += 8
  }
  return { text: parts.join('\n'), height: y - top }
}

function legend(names: readonly [string, string][], top: number, width: number): string[] {
  const step = (width - 32) / 4
  return names.map(([name, colour], i) => {
    const [x, y] = [16 + (i % 4) * step, top + 18 * Math.floor(i / 4)]
    return `<rect x="${x}" y="${y - 9}" width="12" height="12" fill="${COLOURS[colour]}"/>${text(x + 18, y + 2, name)}`
  })
}

function svg(width: number, height: number, parts: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#333">
<style>.head{font-size:15px}.axis{font-size:11px}</style>
<rect width="${width}" height="${height}" fill="#fff"/>
${parts.join('\n')}
</svg>
`
}

function line(x1: number, y1: number, x2: number, y2: number, colour: string): string {
  return `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" stroke="${colour}"/>`
}

function text(x: number, y: number, content: string, more = ''): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${content}</text>`
}

function count(value: number): string {
  return value.toLocaleString('en-US')
}
