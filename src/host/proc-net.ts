/** Reading the text tables of /proc/self/net and /proc/mounts. Pure. */

/** Where /proc/mounts shows the first cgroup v2, undefined when there is none. */
export function findCgroup2(mounts: string): string | undefined {
  for (const line of mounts.split('\n')) {
    const [, target, type] = line.split(' ')
    // The kernel writes blanks in paths as octal escapes.
    if (type === 'cgroup2' && target) {
      return target.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
    }
  }
  return undefined
}

/** Devices that VLAN devices are on, from /proc/net/vlan/config: lines `eth0.5 | 5 | eth0` below a heading. */
export function vlanParents(text: string): Set<string> {
  const rows = text.split('\n').map(line => line.split('|').map(cell => cell.trim()))
  return new Set(rows.flatMap(([, id, parent]) => (parent && /^\d+$/.test(id ?? '') ? [parent] : [])))
}
