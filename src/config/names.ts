import { environmentName, OPTION_KEYS, optionOf } from './options.js'

/** Environment variables of ours that are no settings of the table. */
export const OTHER_VARIABLES: Readonly<Record<string, string>> = {
  WAGGLE_CACHE: 'Where the tools of a checkout keep what they fetch and build for tests; the agent has no use for it.',
  WAGGLE_CONFIG: 'Path of the configuration file, as `--config`.',
  WAGGLE_NATIVE: 'Path of the native addon, where it is not beside the program.',
  WAGGLE_NODE: 'Path of the Node.js binary that `bin/waggle` starts.',
}

/** What the kubelet sets in pods for a Service called waggle or waggle-something. */
const SERVICE_LINK =
  /^WAGGLE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)$/

/** True for a WAGGLE_* variable that nothing of ours reads. */
export function isUnknownVariable(name: string): boolean {
  if (!name.startsWith('WAGGLE_') || name in OTHER_VARIABLES || SERVICE_LINK.test(name)) return false
  return !OPTION_KEYS.some(key => environmentName(optionOf(key).flag) === name)
}

/** "did you mean X?" for the known name nearest to `name`, undefined when none is near. */
export function didYouMean(name: string, known: readonly string[]): string | undefined {
  const scored = known.map(candidate => ({
    candidate,
    distance: editDistance(name.toLowerCase(), candidate.toLowerCase()),
  }))
  const best = scored.reduce((a, b) => (b.distance < a.distance ? b : a))
  return best.distance <= Math.max(2, name.length / 4) ? `did you mean ${best.candidate}?` : undefined
}

/** Levenshtein's distance: single-character insertions, deletions and replacements. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
