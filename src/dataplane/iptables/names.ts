import { createHash } from 'node:crypto'
import { type Address, formatEndpoint } from '../../model/address.js'
import type { ServicePort } from '../../model/desired.js'

/**
 * Names of kube-proxy's chains. A tool or a person that knows its rules finds them under
 * the same names, and what a kube-proxy left behind becomes ours at the first apply.
 */

/** Chains of one Service port, by what they are for. */
export type PortChain = 'SVC' | 'SVL' | 'EXT' | 'FW' | 'XLB'

/** RFC 4648, upper case. */
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const HASH_LENGTH = 16

/** First 16 characters of base32(SHA-256(text)). */
export function chainHash(text: string): string {
  const digest = createHash('sha256').update(text).digest()
  let name = ''
  let bits = 0
  let held = 0
  for (const byte of digest) {
    held = (held << 8) | byte
    bits += 8
    while (bits >= 5 && name.length < HASH_LENGTH) {
      bits -= 5
      name += BASE32[(held >>> bits) & 31]
    }
    held &= (1 << bits) - 1
    if (name.length === HASH_LENGTH) break
  }
  return name
}

/** `default/web:http` as comments have it; an unnamed port has no colon since kube-proxy 1.20. */
export function portText(
  { namespace, name, portName }: Pick<ServicePort, 'namespace' | 'name' | 'portName'>,
  unnamedColon: boolean,
): string {
  return portName === '' && !unnamedColon ? `${namespace}/${name}` : `${namespace}/${name}:${portName}`
}

/** `KUBE-SVC-V2OKYYMBY3REGZOG`; the chains of one Service port share the hash. */
export function portChain(kind: PortChain, text: string, protocol: string): string {
  return `KUBE-${kind}-${chainHash(text + protocol)}`
}

/** `KUBE-SEP-POZMZY2HDLRATSJV` of one endpoint of a Service port. */
export function endpointChain(text: string, protocol: string, address: Address, port: number): string {
  return `KUBE-SEP-${chainHash(text + protocol + formatEndpoint(address, port))}`
}

/** Chains that belong to one Service port, whoever wrote them: a proxy of any version. */
export const PORT_CHAIN = /^KUBE-(?:SVC|SVL|EXT|FW|XLB|SEP)-[A-Z2-7]{16}$/
