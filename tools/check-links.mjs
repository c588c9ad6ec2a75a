// Every relative link in a Markdown file of the tree leads to a file that exists, and
// every anchor to a heading. Links to elsewhere (a scheme) are not followed.
//
//   node tools/check-links.mjs [DIR]      default: the tree this file is in
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const root = realpathSync(resolve(process.argv[2] ?? join(import.meta.dirname, '..')))

/** What git would commit: what it ignores is no part of the documentation. */
const listed = execFileSync(
  'git',
  ['-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', '*.md'],
  { encoding: 'utf8' },
)
const files = [...new Set(listed.split('\0').filter(Boolean))].filter(file => existsSync(join(root, file)))

/** Lines outside of code blocks, without the code in them, each with its number. */
function textLines(text) {
  let fence = ''
  return text.split('\n').flatMap((line, i) => {
    const mark = /^\s*(`{3,}|~{3,})/.exec(line)?.[1]
    if (fence !== '') {
      if (mark?.startsWith(fence) && line.trim() === mark) fence = ''
      return []
    }
    if (mark !== undefined) {
      fence = mark
      return []
    }
    return [{ number: i + 1, line }]
  })
}

/** The anchor that GitHub gives to a heading: words and dashes, in lower case. */
function slug(heading) {
  const text = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '')
  return text
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}

const anchorsOf = new Map()
function anchors(path) {
  const known = anchorsOf.get(path)
  if (known !== undefined) return known
  const found = new Set()
  for (const { line } of textLines(readFileSync(path, 'utf8'))) {
    for (const [, id] of line.matchAll(/<a\s+(?:id|name)="([^"]+)"/g)) found.add(id)
    const heading = /^#{1,6}\s+(.*?)\s*#*$/.exec(line)?.[1]
    if (heading === undefined) continue
    const base = slug(heading)
    let anchor = base
    for (let n = 1; found.has(anchor); n++) anchor = `${base}-${n}`
    found.add(anchor)
  }
  anchorsOf.set(path, found)
  return found
}

/** Why a link of `file` leads nowhere, or undefined. */
function mistake(file, target) {
  const [path, anchor] = target.split('#')
  const to = path === '' ? join(root, file) : resolve(join(root, dirname(file)), decodeURI(path))
  if (relative(root, to).startsWith('..')) return 'leads out of the tree'
  if (!existsSync(to)) return 'no such file'
  if (anchor === undefined || !to.endsWith('.md') || statSync(to).isDirectory()) return undefined
  return anchors(to).has(decodeURIComponent(anchor)) ? undefined : 'no such heading'
}

let links = 0
let mistakes = 0
for (const file of files) {
  for (const { number, line } of textLines(readFileSync(join(root, file), 'utf8'))) {
    const text = line.replace(/(`+)(?:(?!\1).)+\1/g, '')
    const inline = [...text.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)]
    const reference = /^\s*\[[^\]]+\]:\s*<?([^\s>]+)/.exec(text)
    for (const [, target] of reference === null ? inline : [...inline, reference]) {
      if (/^[a-z][a-z0-9+.-]*:/i.test(target)) continue
      links++
      const reason = mistake(file, target)
      if (reason === undefined) continue
      console.error(`${file}:${number}: ${target}: ${reason}`)
      mistakes++
    }
  }
}
if (mistakes > 0) process.exitCode = 1
else console.log(`${links} links in ${files.length} Markdown files`)
