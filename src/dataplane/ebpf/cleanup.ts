import { existsSync } from 'node:fs'
import type { Native } from '../../ebpf/native.js'
import { detachIfAlive, openLink } from './cgroup-links.js'
import { CLSACT_HANDLE, CLSACT_PRIORITY, detachOurClsact } from './device-links.js'
import { Pins } from './pins.js'

/** One removed object: `link sock_connect4`, `map flows_v1`, `clsact filter on eth0`. */
export type Removed = string

/** Removes what is pinned below `pinDir` and our clsact filters, links first; `dryRun` only lists them. */
export function cleanupEbpf(native: Native, pinDir: string, dryRun: boolean): Removed[] {
  return cleanupPinned(native, new Pins(pinDir), dryRun)
}

export function cleanupPinned(native: Native, pins: Pins, dryRun: boolean): Removed[] {
  const removed: Removed[] = []
  for (const name of pins.list('links')) {
    removed.push(`link ${name}`)
    if (dryRun) continue
    const link = openLink(native, pins, name)
    if (link) {
      detachIfAlive(link)
      link.close()
    }
    pins.remove('links', name)
  }
  removed.push(...cleanupClsact(native, dryRun))
  for (const kind of ['programs', 'maps'] as const) {
    for (const name of pins.list(kind)) {
      removed.push(`${kind === 'maps' ? 'map' : 'program'} ${name}`)
      if (!dryRun) pins.remove(kind, name)
    }
  }
  if (!dryRun && existsSync(pins.dir)) {
    pins.removeLeftovers()
    pins.removeFolders()
  }
  return removed
}

/** Our filters on the devices of this network namespace, known by priority, handle and program name. */
function cleanupClsact(native: Native, dryRun: boolean): Removed[] {
  const removed: Removed[] = []
  for (const { name, ifindex } of native.readNetwork()) {
    for (const direction of ['ingress', 'egress'] as const) {
      if (!native.queryClsact(ifindex, direction, CLSACT_PRIORITY, CLSACT_HANDLE)) continue
      if (!dryRun && !detachOurClsact(native, ifindex, direction)) continue
      removed.push(`clsact ${direction} filter on ${name}`)
    }
  }
  return removed
}
