import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

const TOOL = join(import.meta.dirname, '../../tools/check-links.mjs')

let tree: string
beforeEach(() => {
  tree = mkdtempSync(join(tmpdir(), 'waggle-links-'))
  execFileSync('git', ['init', '--quiet', tree])
})
afterEach(() => rmSync(tree, { recursive: true, force: true }))

/** What the tool says of a tree with these files. */
function check(files: Record<string, string>): { status: number | null; mistakes: string[] } {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(tree, name)), { recursive: true })
    writeFileSync(join(tree, name), text)
  }
  const { status, stderr } = spawnSync(process.execPath, [TOOL, tree], { encoding: 'utf8' })
  return { status, mistakes: stderr.split('\n').filter(Boolean) }
}

test('links to files, folders and headings, also of headings with code and of the second of one name', () => {
  const { status, mistakes } = check({
    'README.md': [
      '[a](docs/a.md) [code](docs/a.md#the-waggle-show-command) [twice](docs/a.md#same-1)',
      '[folder](docs) [here](#here) [titled](docs/a.md "title") [ref]',
      '',
      '[ref]: docs/a.md#same',
      '# Here',
    ].join('\n'),
    'docs/a.md': '## The `waggle show` command\n## Same\n## Same\n[up](../README.md#here)\n',
  })
  expect({ status, mistakes }).toEqual({ status: 0, mistakes: [] })
})

test('what leads nowhere is named with file and line', () => {
  const { status, mistakes } = check({
    'README.md': 'text\n[a](gone.md) [b](docs/a.md#gone)\n[c](../outside.md)\n\n[d]: gone.txt\n',
    'docs/a.md': '# A\n[e](#a) [f](#b)\n',
  })
  expect(status).toBe(1)
  expect(mistakes.sort()).toEqual([
    'README.md:2: docs/a.md#gone: no such heading',
    'README.md:2: gone.md: no such file',
    'README.md:3: ../outside.md: leads out of the tree',
    'README.md:5: gone.txt: no such file',
    'docs/a.md:2: #b: no such heading',
  ])
})

test('code, other schemes and ignored files are passed over, a heading in code is none', () => {
  const { status, mistakes } = check({
    '.gitignore': 'build/\n',
    'build/x.md': '[a](gone.md)\n',
    'README.md': '`[a](gone.md)` [b](https://example.com/gone)\n```md\n[c](gone.md)\n# Heading\n```\n[d](#heading)\n',
  })
  expect({ status, mistakes }).toEqual({ status: 1, mistakes: ['README.md:6: #heading: no such heading'] })
})
