/**
 * What a table holds, apart from how it gets there: declarations, rules and elements as
 * nft reads them. Equal contents are equal texts.
 */

/** Declared sets and maps of a table, with the text behind their name; `{ type ipv4_addr ; }`. */
export interface Declaration {
  readonly kind: 'set' | 'map'
  readonly text: string
}

/** A chain: what a base chain hangs on, empty for others, and its rules. */
export interface Chain {
  /** `{ type nat hook prerouting priority -100 ; }` */
  readonly hook: string
  readonly rules: readonly string[]
}

/** An element of a set, or of a map with the verdict that it leads to. */
export interface Element {
  readonly container: string
  /** `10.96.0.1 . tcp . 443` */
  readonly key: string
  /** `goto service-…`, `drop`; empty in a set. */
  readonly verdict: string
}

/** The part of a table that one Service port asks for. */
export interface PortContent {
  readonly sets: ReadonlyMap<string, Declaration>
  readonly chains: ReadonlyMap<string, Chain>
  /** Some are asked for by several Service ports, such as an address of a Service with two ports. */
  readonly elements: readonly Element[]
}

/** A rule with the words of its Service, cut to what the kernel takes. */
export function commented(rule: string, comment: string): string {
  const MAX_COMMENT = 128
  return `${rule} comment "${comment.slice(0, MAX_COMMENT)}"`
}
