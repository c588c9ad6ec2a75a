import { existsSync } from 'node:fs'
import type { World } from './world.js'

/**
 * Private paths between one client and one server: client - node - server, with a node
 * namespace for each path, so that a rule set or a program is on its own path only.
 *
 * Path i (0-9): client 10.9.i.2, 2001:db8:9:i::2 · node towards it .1, ::1, towards the
 * server 10.8.i.1, 2001:db8:8:i::1 · server .2, ::2, which also answers on every address of
 * 10.(100+i).0.0/16 and 2001:db8:(100+i)::/64. 172.(16+i).0.0/16 and 2001:db8:(200+i)::/64
 * are routed to the node: Services for whatever translates there.
 */
export type Family = 'IPv4' | 'IPv6'
export const FAMILIES: readonly Family[] = ['IPv4', 'IPv6']
export const SERVER_PORT = 8080

export const CLIENT = 'client'
export const SERVER = 'server'
export const nodeOf = (path: number): string => `node${path}`

/** Device of the node towards the client, and towards the server. */
export const NODE_IN = 'in'
export const NODE_OUT = 'out'
export type NodeDevice = typeof NODE_IN | typeof NODE_OUT

/** The `i`-th server address of a path, counted from 0. */
export function backendAddress(path: number, family: Family, i: number): string {
  return family === 'IPv4' ? ipv4(10, 100 + path, i + 1) : `2001:db8:${100 + path}::${hex(i + 1)}`
}

/** The `i`-th Service address of a path, counted from 0. */
export function serviceAddress(path: number, family: Family, i: number): string {
  return family === 'IPv4' ? ipv4(172, 16 + path, i + 1) : `2001:db8:${200 + path}::${hex(i + 1)}`
}

/** The node's address on one of its devices. */
export function nodeAddress(path: number, family: Family, device: NodeDevice): string {
  const net = device === NODE_IN ? 9 : 8
  return family === 'IPv4' ? `10.${net}.${path}.1` : `2001:db8:${net}:${path}::1`
}

/** The client's address on a path, or the `i`-th one after it: those are only written into frames. */
export function clientAddress(path: number, family: Family, i = 0): string {
  return family === 'IPv4' ? `10.9.${path}.${2 + i}` : `2001:db8:9:${path}::${hex(2 + i)}`
}

/** The server's address on a path, the next hop of the node. */
export function serverAddress(path: number, family: Family): string {
  return family === 'IPv4' ? `10.8.${path}.2` : `2001:db8:8:${path}::2`
}

/** Devices of client and server on a path. */
export const clientDevice = (path: number): string => `p${path}`
export const serverDevice = clientDevice

/** Makes client, server and `count` nodes between them. */
export function buildPaths(world: World, count: number): void {
  for (const name of [CLIENT, SERVER]) {
    world.netns(name)
    world.sysctl(name, 'net.ipv6.conf.default.accept_dad=0', 'net.ipv4.tcp_no_metrics_save=1')
  }
  world.sysctl(SERVER, 'net.core.somaxconn=65535')
  for (let path = 0; path < count; path++) addPath(world, path)
}

function addPath(world: World, path: number): void {
  const node = nodeOf(path)
  const ns = (suffix: string) => world.netnsName(suffix)
  world.netns(node)
  world.sysctl(
    node,
    'net.ipv6.conf.default.accept_dad=0',
    'net.ipv4.conf.all.forwarding=1',
    'net.ipv6.conf.all.forwarding=1',
  )
  world.ip(node, [
    `link add ${NODE_IN} type veth peer name p${path} netns ${ns(CLIENT)}`,
    `link add ${NODE_OUT} type veth peer name p${path} netns ${ns(SERVER)}`,
    `addr add 10.9.${path}.1/24 dev ${NODE_IN}`,
    `addr add 2001:db8:9:${path}::1/64 dev ${NODE_IN} nodad`,
    `addr add 10.8.${path}.1/24 dev ${NODE_OUT}`,
    `addr add 2001:db8:8:${path}::1/64 dev ${NODE_OUT} nodad`,
    `link set ${NODE_IN} up`,
    `link set ${NODE_OUT} up`,
  ])
  world.ip(CLIENT, [
    `addr add 10.9.${path}.2/24 dev p${path}`,
    `addr add 2001:db8:9:${path}::2/64 dev p${path} nodad`,
    `link set p${path} up`,
    `route add 10.${100 + path}.0.0/16 via 10.9.${path}.1`,
    `route add 2001:db8:${100 + path}::/64 via 2001:db8:9:${path}::1`,
    `route add 172.${16 + path}.0.0/16 via 10.9.${path}.1`,
    `route add 2001:db8:${200 + path}::/64 via 2001:db8:9:${path}::1`,
  ])
  world.ip(SERVER, [
    `addr add 10.8.${path}.2/24 dev p${path}`,
    `addr add 2001:db8:8:${path}::2/64 dev p${path} nodad`,
    `link set p${path} up`,
    `route add 10.9.${path}.0/24 via 10.8.${path}.1`,
    `route add 2001:db8:9:${path}::/64 via 2001:db8:8:${path}::1`,
    `route add local 10.${100 + path}.0.0/16 dev lo`,
    `route add local 2001:db8:${100 + path}::/64 dev lo`,
  ])
  world.ip(node, [
    `route add 10.${100 + path}.0.0/16 via 10.8.${path}.2`,
    `route add 2001:db8:${100 + path}::/64 via 2001:db8:8:${path}::2`,
  ])
}

/** Ends the node's conntrack entries soon, so that thousands of connections do not fill its table. */
export function shortenConntrack(world: World, path: number): void {
  const settings = ['tcp_timeout_close=1', 'tcp_timeout_time_wait=1', 'udp_timeout=2', 'udp_timeout_stream=2']
  if (!existsSync('/proc/sys/net/netfilter')) return
  world.sysctl(nodeOf(path), ...settings.map(setting => `net.netfilter.nf_conntrack_${setting}`))
}

function ipv4(a: number, b: number, low: number): string {
  return `${a}.${b}.${low >> 8}.${low & 255}`
}

function hex(low: number): string {
  return low.toString(16)
}
