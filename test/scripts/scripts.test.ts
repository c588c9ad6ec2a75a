import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { kernelExtension } from './kernel-maps.js'
import { parseScript, withFile } from './script.js'
import { ScriptRun } from './script-run.js'

const FOLDER = new URL('.', import.meta.url)
/** UPDATE=1 writes what came out into the scripts: read the diff before you keep it. */
const UPDATE = process.env.UPDATE === '1'

/** `expect maps` is passed over without root, where no map can be made; never in CI. */
const HAS_KERNEL = process.getuid?.() === 0 || process.env.CI !== undefined

describe('scripts', () => {
  const names = readdirSync(FOLDER).filter(name => name.endsWith('.script'))
  test.each(names)('%s', async name => {
    const url = new URL(name, FOLDER)
    let text = readFileSync(url, 'utf8')
    const kernel = HAS_KERNEL ? kernelExtension() : undefined
    const mismatches = await new ScriptRun(parseScript(text), kernel?.extension).run()
    kernel?.close()
    if (UPDATE) {
      for (const { file, got } of mismatches) if (file !== undefined) text = withFile(text, file, got)
      writeFileSync(url, text)
    }
    for (const { line, file, want, got } of mismatches) {
      if (!UPDATE || file === undefined) expect(got, `${name}:${line}`).toBe(want)
    }
  })
})

describe('the harness', () => {
  const SERVICE =
    'apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: 203.0.113.1, ports: [{port: 80}]}\n'
  const run = (commands: string, extension = {}) =>
    new ScriptRun(parseScript(`${commands}\n-- a.yaml --\n${SERVICE}-- want --\nsomething\n`), extension).run()

  test('finds what differs, with line and both texts', async () => {
    expect(await run('# comment\nadd a.yaml\nexpect desired want\nexpect changed nothing')).toEqual([
      { line: 3, file: 'want', want: 'something', got: 'default/a:/TCP/IPv4 random\n  ClusterIP    203.0.113.1:80' },
      { line: 4, file: undefined, want: '', got: 'default/a:/TCP/IPv4' },
    ])
  })

  test.each([
    'add b.yaml',
    'update a.yaml',
    'delete a.yaml',
    'expect rules want',
    'frobnicate',
    'add a.yaml\noption scheduler rr',
    'option x y',
    'add want',
  ])('refuses: %s', async commands => {
    await expect(run(commands)).rejects.toThrow(/^line \d/)
  })

  test('a dataplane sees each plan and adds its dumps; without one they are passed over', async () => {
    const seen: unknown[] = []
    const extension = {
      onPlan: async (plan: { changed: ReadonlySet<string> }, synced: boolean) =>
        void seen.push([...plan.changed], synced),
      dumps: { maps: () => 'nothing\n' },
    }
    expect(await run('add a.yaml\nsynced\nexpect maps want', extension)).toEqual([
      { line: 3, file: 'want', want: 'something', got: 'nothing' },
    ])
    expect(seen).toEqual([['default/a:/TCP/IPv4'], false, [], true])
    expect(await run('expect maps want')).toEqual([])
  })

  test('writes results into the right file', () => {
    const text = 'expect desired a\n-- a --\nold\nold\n-- b --\nb\n'
    expect(withFile(text, 'a', 'new')).toBe('expect desired a\n-- a --\nnew\n-- b --\nb\n')
    expect(withFile(text, 'b', 'new')).toBe('expect desired a\n-- a --\nold\nold\n-- b --\nnew\n')
  })
})
