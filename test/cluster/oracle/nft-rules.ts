/**
 * What the rules of kube-proxy's nftables mode do with a new connection: reads the table as
 * `nft -j list table` prints it and follows the chains. Whatever it does not understand is
 * an error, never passed over.
 */

/** Who dials: a pod of this cluster, a process of this node, anybody else. */
export const CLIENTS = ['pod', 'node', 'outside'] as const
export type Client = (typeof CLIENTS)[number]

export interface Outcome {
  /** `backends` are chosen from; `drop` and `reject` are what the client gets instead. */
  readonly verdict: 'backends' | 'drop' | 'reject'
  /** `ADDRESS PORT`, sorted. */
  readonly backends: readonly string[]
  /** Seconds that a client stays with its backend; 0 = no affinity. */
  readonly affinity: number
  /** Whether the backends see the node instead of the client. */
  readonly masquerade: boolean
}

// biome-ignore lint/suspicious/noExplicitAny: nft's JSON is a tree of many shapes; each is checked where it is read.
type Json = any

interface Walk {
  readonly client: Client
  readonly protocol: string
  masquerade: boolean
  affinity: number
  readonly backends: Set<string>
}

export class NftRules {
  readonly #chains = new Map<string, Json[]>()
  readonly #sets = new Map<string, Json>()

  /** `listing` is the parsed output of `nft -j list table FAMILY kube-proxy`. */
  constructor(listing: { readonly nftables: readonly Json[] }) {
    for (const entry of listing.nftables) {
      const { chain, rule, set, map } = entry
      if (chain !== undefined) this.#chains.set(chain.name, [])
      else if (rule !== undefined) (this.#chains.get(rule.chain) as Json[]).push(rule.expr)
      else if (set !== undefined) this.#sets.set(set.name, set)
      else if (map !== undefined) this.#sets.set(map.name, map)
    }
  }

  /** Active cluster IPs. */
  get clusterIPs(): readonly string[] {
    return this.#elements('cluster-ips').map(([key]) => String(key))
  }

  /** Addresses of this node that serve node ports. */
  get nodePortAddresses(): readonly string[] {
    return this.#elements('nodeport-ips').map(([key]) => String(key))
  }

  /** `ADDRESS PORT PROTOCOL` of every frontend that is served, refused or dropped. */
  get frontends(): ReadonlySet<string> {
    const found = new Set<string>()
    for (const map of ['service-ips', 'no-endpoint-services']) {
      for (const [key] of this.#elements(map)) {
        const [address, protocol, port] = key.concat
        found.add(`${address} ${port} ${String(protocol).toUpperCase()}`)
      }
    }
    for (const map of ['service-nodeports', 'no-endpoint-nodeports']) {
      for (const [key] of this.#elements(map)) {
        const [protocol, port] = key.concat
        for (const address of this.nodePortAddresses) {
          found.add(`${address} ${port} ${String(protocol).toUpperCase()}`)
        }
      }
    }
    return found
  }

  /** The networks that may use a frontend, as kube-proxy writes them; undefined = everybody. */
  sources(address: string, port: number, protocol: string): readonly string[] | undefined {
    const chain = this.#verdict('firewall-ips', [address, protocol.toLowerCase(), port])
    if (chain === undefined) return undefined
    const [rule] = this.#chain(chain)
    const [match, drop] = rule
    if (match?.match?.op !== '!=' || !isField(match.match.left, 'saddr') || !('drop' in drop)) throw odd(rule)
    const { right } = match.match
    return (right.set ?? [right]).map(networkText).sort()
  }

  /** What becomes of a connection to a frontend; undefined when kube-proxy does not know it. */
  outcome(client: Client, address: string, port: number, protocol: string): Outcome | undefined {
    const l4 = protocol.toLowerCase()
    const walk: Walk = { client, protocol: l4, masquerade: false, affinity: 0, backends: new Set() }
    const cluster = this.clusterIPs.includes(address)
    if (cluster && client !== 'pod') walk.masquerade = true
    const own = this.nodePortAddresses.includes(address)
    const chain =
      this.#verdict('service-ips', [address, l4, port]) ??
      (own ? this.#verdict('service-nodeports', [l4, port]) : undefined)
    if (chain !== undefined && this.#walk(chain, walk)) {
      const { masquerade, affinity } = walk
      return { verdict: 'backends', backends: [...walk.backends].sort(), affinity, masquerade }
    }
    const refusal =
      this.#verdict('no-endpoint-services', [address, l4, port]) ??
      (own ? this.#verdict('no-endpoint-nodeports', [l4, port]) : undefined)
    if (refusal === undefined) {
      if (chain !== undefined) throw new Error(`${chain} chooses nothing and nothing refuses ${address}:${port}/${l4}`)
      return undefined
    }
    const verdict = refusal === 'reject-chain' ? 'reject' : 'drop'
    if (verdict === 'drop' && refusal !== 'drop') throw odd(refusal)
    return { verdict, backends: [], affinity: 0, masquerade: false }
  }

  /** Follows a chain; true once a backend was chosen, false when its end is reached. */
  #walk(name: string, walk: Walk): boolean {
    for (const rule of this.#chain(name)) {
      let applies = true
      for (const expr of rule) {
        if (expr.match !== undefined) {
          const { op, left, right } = expr.match
          if (op === '==' && isField(left, 'saddr') && right?.prefix !== undefined) applies = walk.client === 'pod'
          else if (op === '==' && left?.fib !== undefined && right === 'local') applies = walk.client === 'node'
          else if (op === '==' && left?.meta?.key === 'l4proto' && typeof right === 'string') {
            if (right !== walk.protocol) throw odd(rule)
          } else if (op === '==' && isField(left, 'saddr') && String(right).startsWith('@affinity-')) {
            this.#remember(right.slice(1), walk)
            // Only clients that came before; where they go is looked at with the others.
            applies = false
          } else throw odd(rule)
          if (!applies) break
        } else if (expr.mangle?.key?.meta?.key === 'mark') walk.masquerade = true
        else if (expr.goto !== undefined) return this.#walk(expr.goto.target, walk)
        else if (expr.dnat !== undefined) {
          for (const target of targets(expr.dnat)) walk.backends.add(target)
          return true
        } else if (expr.vmap?.key?.numgen !== undefined) {
          const choices: Json[] = expr.vmap.data.set
          if (choices.length !== expr.vmap.key.numgen.mod) throw odd(rule)
          return choices.map(([, { goto }]) => this.#walk(goto.target, walk)).every(Boolean)
        } else if (expr.set?.op === 'update') this.#remember(String(expr.set.set).slice(1), walk)
        else throw odd(rule)
      }
    }
    return false
  }

  #remember(name: string, walk: Walk): void {
    const seconds = this.#sets.get(name)?.timeout
    if (typeof seconds !== 'number') throw new Error(`the set ${name} has no timeout`)
    if (walk.affinity !== 0 && walk.affinity !== seconds)
      throw new Error(`${name}: ${seconds} s beside ${walk.affinity} s`)
    walk.affinity = seconds
  }

  #chain(name: string): Json[] {
    const chain = this.#chains.get(name)
    if (chain === undefined) throw new Error(`there is no chain ${name}`)
    return chain
  }

  readonly #verdicts = new Map<string, Map<string, string>>()

  /** What a verdict map says of a key: a chain, `drop`, or nothing. */
  #verdict(map: string, key: readonly (string | number)[]): string | undefined {
    let verdicts = this.#verdicts.get(map)
    if (verdicts === undefined) {
      verdicts = new Map(
        this.#elements(map).map(([{ concat }, verdict]) => [
          concat.join(' '),
          'drop' in verdict ? 'drop' : String(verdict.goto.target),
        ]),
      )
      this.#verdicts.set(map, verdicts)
    }
    return verdicts.get(key.join(' '))
  }

  /** Key and value (undefined in a set) of the elements, without their comments. */
  #elements(name: string): [Json, Json][] {
    const set = this.#sets.get(name)
    if (set === undefined) throw new Error(`kube-proxy has no set ${name}`)
    const bare = (key: Json) => key?.elem?.val ?? key
    return (set.elem ?? []).map((element: Json) => {
      const isPair = set.map !== undefined
      return isPair ? [bare(element[0]), element[1]] : [bare(element), undefined]
    })
  }
}

function isField(left: Json, field: string): boolean {
  return left?.payload?.field === field && /^ip6?$/.test(left.payload.protocol)
}

/** `ADDRESS PORT` of a dnat statement: one, or a random one of several. */
function targets({ addr, port }: Json): string[] {
  if (typeof addr === 'string' && typeof port === 'number') return [`${addr} ${port}`]
  const { key, data } = addr?.map ?? {}
  if (key?.numgen === undefined || data.set.length !== key.numgen.mod) throw odd({ addr, port })
  return data.set.map(([, { concat }]: Json) => concat.join(' '))
}

/** `192.0.2.0/24`; a host as `/32` or `/128`. */
function networkText(right: Json): string {
  if (typeof right === 'string') return `${right}/${right.includes(':') ? 128 : 32}`
  if (right?.prefix === undefined) throw odd(right)
  return `${right.prefix.addr}/${right.prefix.len}`
}

function odd(rule: Json): Error {
  return new Error(`kube-proxy has a rule that this reader does not know: ${JSON.stringify(rule)}`)
}
