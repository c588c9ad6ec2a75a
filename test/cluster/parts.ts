import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..')

export interface Parts {
  readonly kubeApiserver: string
  readonly kubeProxy: string
  readonly etcd: string
}

/** The programs that an API server needs, or why there are none. Builds nothing. */
export function findParts(): Parts | { readonly missing: string } {
  const found = spawnSync(path.join(ROOT, 'tools/kube-parts'), ['--check'], { encoding: 'utf8' })
  if (found.status !== 0) return { missing: (found.stderr || String(found.error)).trim().replaceAll('\n', '; ') }
  const paths = Object.fromEntries(
    found.stdout
      .trim()
      .split('\n')
      .map(line => line.split('=') as [string, string]),
  )
  const at = (name: string) => paths[name] as string
  return { kubeApiserver: at('kube-apiserver'), kubeProxy: at('kube-proxy'), etcd: at('etcd') }
}

const parts = findParts()

/**
 * Why the tests with a real API server cannot run here; empty = they can. Where CI is set
 * nothing may be missing: the tests run, and fail with the reason.
 */
export const CANNOT_RUN = process.env.CI || !('missing' in parts) ? '' : parts.missing

/** Title of a suite that says why it is skipped, if it is. */
export const titled = (title: string) => (CANNOT_RUN ? `${title} (skipped: ${CANNOT_RUN})` : title)
