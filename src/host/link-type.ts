import { readFileSync } from 'node:fs'

/**
 * Types of devices whose packets begin with the IP header (linux/if_arp.h): SLIP and PPP,
 * IP in IP, IPv6 tunnels, SIT, raw IP, and NONE, which is tun and WireGuard.
 */
const WITHOUT_HEADER: ReadonlySet<number> = new Set([256, 512, 519, 768, 769, 776, 0xfffe])

/**
 * Whether packets of a device begin with the IP header, not with Ethernet's. What cannot
 * be read counts as Ethernet: sysfs shows the network namespace that mounted it, which
 * is another one when the index differs.
 */
export function isWithoutEthernet(
  name: string,
  ifindex: number,
  read: (path: string) => string = path => readFileSync(path, 'latin1'),
): boolean {
  try {
    if (Number(read(`/sys/class/net/${name}/ifindex`)) !== ifindex) return false
    return WITHOUT_HEADER.has(Number(read(`/sys/class/net/${name}/type`)))
  } catch {
    return false
  }
}
