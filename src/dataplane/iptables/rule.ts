import type { Cidr } from '../../model/cidr.js'

/**
 * Rules as `iptables-save` prints them, so that what is wanted and what the kernel holds
 * are compared as text, and a person reads the same in both.
 */

/** What a rule asks of a packet, and what it does with it. All parts are as iptables-save writes them. */
export interface RuleParts {
  /** `-s`, after `! ` for its opposite. */
  readonly from?: string
  readonly to?: string
  /** `-i` */
  readonly device?: string
  /** Lower case: `tcp`. */
  readonly protocol?: string
  readonly comment?: string
  /** Further matches, in the order in which they are asked. */
  readonly matches?: readonly string[]
  /** Port of the destination; asked last. */
  readonly port?: number
  /** Target with its arguments; none for a rule that only carries a comment. */
  readonly target?: string
}

/** One line, without its newline. */
export function rule(chain: string, parts: RuleParts): string {
  const { from, to, device, protocol, comment, matches = [], port, target } = parts
  const words = [`-A ${chain}`]
  if (from !== undefined) words.push(option('-s', from))
  if (to !== undefined) words.push(option('-d', to))
  if (device !== undefined) words.push(option('-i', device))
  if (protocol !== undefined) words.push(`-p ${protocol}`)
  if (comment !== undefined) words.push(`-m comment --comment "${comment}"`)
  words.push(...matches)
  if (port !== undefined) words.push(`-m ${protocol} --dport ${port}`)
  if (target !== undefined) words.push(`-j ${target}`)
  return words.join(' ')
}

function option(flag: string, value: string): string {
  return value.startsWith('! ') ? `! ${flag} ${value.slice(2)}` : `${flag} ${value}`
}

/** An address or network as a rule names it; undefined for the network of all, which a rule leaves out. */
export function network(cidr: Cidr): string | undefined {
  return cidr.endsWith('/0') ? undefined : cidr
}

/** Fixed-point bits with which the kernel keeps a probability. */
const PROBABILITY_ONE = 2 ** 31

/**
 * The match for one of `left` equal choices. kube-proxy writes the probability with
 * `digits` decimals; this is what the kernel makes of that and iptables-save prints.
 */
export function probability(left: number, digits: number): string {
  const written = Number((1 / left).toFixed(digits))
  const kept = Math.round(written * PROBABILITY_ONE) / PROBABILITY_ONE
  return `-m statistic --mode random --probability ${kept.toFixed(11)}`
}
