/**
 * How a load client talks: `tcp` and `udp` open a socket for every attempt; `tcp-keep`
 * and `udp-keep` hold one connected socket a worker; `udp-sendto` one unconnected one.
 */
export const LOAD_MODES = ['tcp', 'tcp-keep', 'udp', 'udp-keep', 'udp-sendto'] as const
export type LoadMode = (typeof LOAD_MODES)[number]

export interface LoadOptions {
  readonly mode: LoadMode
  /** IP address; no names. */
  readonly address: string
  readonly port: number
  /** Attempts in all; the run also ends after `seconds` or on SIGINT. */
  readonly count: number
  readonly seconds: number
  /** Workers at the same time. */
  readonly concurrency: number
  /** Pause of a worker between two attempts. */
  readonly intervalMs: number
  /** An attempt that takes longer fails with TIMEOUT. */
  readonly timeoutMs: number
  /** `tcp` only: bytes to download and check in each attempt, 0 = the echo line. */
  readonly bytes: number
  /** Bytes a second of such a download, 0 = as fast as it goes. */
  readonly rate: number
}

/** `10.96.0.10:80` or `[2001:db8::1]:80`; throws a RangeError for anything else. */
export function parseTarget(text: string): { address: string; port: number } {
  const match = /^(?:\[([0-9a-f:.]+)\]|([0-9.]+)):([0-9]+)$/i.exec(text)
  const address = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  if (!address || !(port >= 1 && port <= 65_535)) {
    throw new RangeError(`a target is ADDRESS:PORT, with an IPv6 address in brackets, not "${text}"`)
  }
  return { address, port }
}
