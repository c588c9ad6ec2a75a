import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ratioText } from '../bench/figures.js'
import { KEPT, renderReport } from '../bench/report.js'
import type { Row } from '../bench/result.js'
import { iptablesRules, nftRules } from '../bench/rules.js'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

test('the pages quote the figures that are kept, and those only', () => {
  for (const [path, content] of renderReport(JSON.parse(read(KEPT)), read)) {
    expect(read(path), `${path}: run tools/bench report ${KEPT}`).toBe(content)
  }
})

const MACHINE = {
  kernel: '6.18.0',
  cpu: 'a CPU',
  cpus: 2,
  node: 'v20.0.0',
  load: [1, 2, 3],
  command: 'tools/bench datapath',
  effort: 'full' as const,
  commit: 'abc',
  at: '2026-01-02T03:04:05Z',
}
const row = (what: string, median: number, ratio?: number): Row => ({
  bench: 'connect',
  what: `TCP connect and close: ${what}`,
  n: 10,
  family: 'IPv4',
  unit: 'µs',
  value: { median, min: median, max: median },
  rounds: 15,
  ...(ratio === undefined ? {} : { ratio: { to: 'direct', median: ratio, min: ratio - 0.01, max: ratio + 0.01 } }),
})

function render(page: string, rows: readonly Row[]): string {
  const pages = renderReport({ machine: MACHINE, rows, skips: [] }, path => (path === 'README.md' ? page : ''))
  return pages.get('README.md') ?? ''
}

test('figures go between their marks, the rest of a page stays', () => {
  const page = 'before\n<!-- figures: connect -->\nold\n<!-- end -->\nafter\n'
  const rendered = render(page, [row('direct', 20), row('socket', 21, 1.05)])
  expect(rendered).toMatch(/^before\n<!-- figures: connect -->\n\n\| Services \|/)
  expect(rendered).toContain('| 10 | IPv4 | 20 µs | - | - | **1.050** [1.040, 1.060] |')
  expect(rendered).toMatch(/\n<!-- end -->\nafter\n$/)
  expect(render(rendered, [row('direct', 20), row('socket', 21, 1.05)])).toBe(rendered)
})

test('a goal is reached only where both families reach it, and unmeasured ones say so', () => {
  const page = '<!-- figures: goals -->\n<!-- end -->\n'
  const rows = [row('direct', 20), row('socket', 20, 1.004)]
  const goal = (more: readonly Row[]) =>
    render(page, [...rows, ...more])
      .split('\n')
      .find(line => line.includes('new connection ÷ direct, socket')) ?? ''
  expect(goal([])).toMatch(/\| 1\.004 \| not measured \| yes \|$/)
  expect(goal([{ ...row('socket', 22, 1.1), family: 'IPv6' }])).toMatch(/\| 1\.004 \| 1\.10 \| no \|$/)
})

test('XDP is held against a program that only sends, and against nft', () => {
  const xdp = (what: string, n: number, median: number): Row => ({
    ...row('', median),
    bench: 'xdp',
    what,
    n,
    unit: 'ns',
  })
  const rows = [1, 1_024, 65_536].flatMap(n => [
    xdp('dropped on arrival', n, 50),
    xdp('XDP, sends only', n, 90),
    xdp('waggle, native XDP', n, 120),
    xdp('routed', n, 400),
    xdp('nft', n, 800),
  ])
  const rendered = render('<!-- figures: goals -->\n<!-- end -->\n<!-- figures: xdp -->\n<!-- end -->\n', rows)
  const line = (text: string) => rendered.split('\n').find(each => each.includes(text)) ?? ''
  expect(line('more than a program that only sends, 1 flow')).toMatch(/\| ≤ 35 ns \| 30 ns \| not measured \| yes \|$/)
  expect(line('rate ÷ that of a program that only sends')).toMatch(/\| ≥ 0\.85 \| 0\.75 \| not measured \| no \|$/)
  expect(line('native XDP, frames a second ÷ nft')).toMatch(/\| ≥ 5 \| 6\.67 \| not measured \| yes \|$/)
  expect(line('without its coming')).toMatch(/\| ≤ 0\.125 \| 0\.09 \| not measured \| yes \|$/)
  expect(line('| 65,536 | IPv4')).toContain('| 120 ns, 8.33 M/s | 400 ns, 2.50 M/s |')
  expect(render('<!-- figures: count -->\n<!-- end -->\n', rows)).toContain('Not measured in this run.')
})

test('figures that nobody makes are an error', () => {
  expect(() => render('<!-- figures: nothing -->\n<!-- end -->\n', [])).toThrow('asks for figures nothing')
})

test.each([
  [1.0049, '1.005'],
  [1.25, '1.25'],
  [12.34, '12.3'],
  [0.5, '0.50'],
  [undefined, '-'],
])('a ratio of %s reads %s', (value, text) => {
  expect(ratioText(value)).toBe(text)
})

const SERVICE = {
  protocol: 'tcp' as const,
  address: '172.30.0.41',
  port: 80,
  nodePort: 30080,
  backends: ['10.0.0.1', '10.0.0.2'],
  backendPort: 8080,
}

test('iptables rules are laid out as by kube-proxy: Service, then endpoint', () => {
  const rules = iptablesRules([SERVICE], { family: 'IPv4' }).split('\n')
  const service = 'KUBE-SVC-0000000000000000'
  expect(rules).toContain(`-A KUBE-SERVICES -p tcp -m tcp -d 172.30.0.41/32 --dport 80 -j ${service}`)
  expect(rules).toContain(
    `-A ${service} -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-0000000000000000`,
  )
  expect(rules).toContain(`-A ${service} -j KUBE-SEP-0000000000000001`)
  expect(rules).toContain('-A KUBE-SEP-0000000000000001 -p tcp -m tcp -j DNAT --to-destination 10.0.0.2:8080')
  expect(rules).toContain('-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j KUBE-EXT-0000000000000000')
})

test('nft rules are laid out as by kube-proxy: one look-up, then the Service, then the endpoint', () => {
  const rules = nftRules([SERVICE], { family: 'IPv4', nodeAddresses: ['192.168.0.1'] })
  expect(rules).toContain('add element ip kube-proxy service-ips { 172.30.0.41 . tcp . 80 : goto service-0 }')
  expect(rules).toContain('numgen random mod 2 vmap { 0 : goto endpoint-0-0, 1 : goto endpoint-0-1 }')
  expect(rules).toContain(
    'chain endpoint-0-1 { ip saddr 10.0.0.2 jump mark-for-masquerade; meta l4proto tcp dnat to 10.0.0.2:8080; }',
  )
  expect(rules).toContain('set nodeport-ips { type ipv4_addr; elements = { 192.168.0.1 } }')
})
