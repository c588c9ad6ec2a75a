/**
 * Types of devices whose packets begin with the IP header (linux/if_arp.h): SLIP and PPP,
 * IP in IP, IPv6 tunnels, SIT, raw IP, and NONE, which is tun and WireGuard.
 */
const WITHOUT_HEADER: ReadonlySet<number> = new Set([256, 512, 519, 768, 769, 776, 0xfffe])

/** Whether packets of a device of this type (ARPHRD_*) begin with the IP header, not with Ethernet's. */
export function isWithoutEthernet(type: number): boolean {
  return WITHOUT_HEADER.has(type)
}
