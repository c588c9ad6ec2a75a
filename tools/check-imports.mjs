// Imports go one way: base <- model <- {config, state, plan, k8s, host, ebpf} <- dataplane
// <- {health, metrics, inspect} <- daemon <- cli. Folders of one level do not import each
// other, except where a pair is listed. Decisions are pure: no node: import.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const LEVELS = [
  ['base'],
  ['model'],
  ['config', 'state', 'plan', 'k8s', 'host', 'ebpf'],
  ['dataplane'],
  ['health', 'metrics', 'inspect'],
  ['daemon'],
  ['cli'],
]
// plan reads the store; the host asks the kernel for interface indexes.
const SIBLINGS = new Set(['plan>state', 'host>ebpf'])
const PURE = [
  /^plan\//,
  /^state\//,
  /^k8s\/convert/,
  /^dataplane\/memory\//,
  /^dataplane\/ebpf\/(encode|list-delta|slot-allocator|index-pool|service-table|applied)\.ts$/,
]

const src = resolve('src')
const levelOf = folder => LEVELS.findIndex(level => level.includes(folder))
const problems = []
for (const entry of readdirSync(src, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !entry.name.endsWith('.ts')) continue
  const file = relative(src, join(entry.parentPath ?? entry.path, entry.name))
  const from = file.split('/')[0]
  if (levelOf(from) < 0) problems.push(`src/${file}: folder ${from} has no level in tools/check-imports.mjs`)
  for (const [, target] of readFileSync(join(src, file), 'utf8').matchAll(/(?:from|import)\s+'([^']+)'/g)) {
    if (target.startsWith('node:') && PURE.some(pattern => pattern.test(file))) {
      problems.push(`src/${file}: a pure file imports ${target}`)
    }
    if (!target.startsWith('.')) continue
    const to = relative(src, resolve(src, dirname(file), target)).split('/')[0]
    if (to === from || levelOf(to) < levelOf(from) || SIBLINGS.has(`${from}>${to}`)) continue
    problems.push(`src/${file}: ${from} must not import ${to} (${target})`)
  }
}
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exitCode = 1
