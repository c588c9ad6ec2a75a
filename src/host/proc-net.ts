/** Reading the text tables of /proc/self/net and /proc/mounts. Pure. */

/** RTF_* of linux/route.h. */
const RTF_UP = 0x1
const RTF_REJECT = 0x200

/** Names in /proc/net/dev: two lines of heading, then `name: counters`. */
export function deviceNames(dev: string): string[] {
  return dev
    .split('\n')
    .slice(2)
    .flatMap(line => /^\s*(.+):\s/.exec(line)?.[1] ?? [])
}

/** Devices of the usable default routes in /proc/net/route and /proc/net/ipv6_route. */
export function defaultRouteDevices(route: string, ipv6Route: string): Set<string> {
  const devices = new Set<string>()
  for (const line of route.split('\n').slice(1)) {
    const [device, destination, , flags, , , , mask] = line.split('\t')
    if (destination !== '00000000' || mask !== '00000000') continue
    if (device !== undefined && isUsable(flags)) devices.add(device)
  }
  for (const line of ipv6Route.split('\n')) {
    // destination, its length, source, its length, gateway, metric, references, uses, flags, device
    const [destination, length, , , , , , , flags, device] = line.trim().split(/\s+/)
    if (length !== '00' || !/^0{32}$/.test(destination ?? '')) continue
    if (device !== undefined && device !== 'lo' && isUsable(flags)) devices.add(device)
  }
  return devices
}

function isUsable(flags: string | undefined): boolean {
  const bits = Number.parseInt(flags ?? '0', 16)
  return (bits & RTF_UP) !== 0 && (bits & RTF_REJECT) === 0
}

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
