import { type Address, formatEndpoint } from '../../model/address.js'
import type { ServicePort } from '../../model/desired.js'
import { nameHash } from '../rules/name-hash.js'

/**
 * Names of kube-proxy's chains. A tool or a person that knows its rules finds them under
 * the same names, and what a kube-proxy left behind becomes ours at the first apply.
 */

/** Chains of one Service port, by what they are for. */
export type PortChain = 'SVC' | 'SVL' | 'EXT' | 'FW' | 'XLB'

/** Characters of a hash in a chain's name; names end at 28. */
const HASH_LENGTH = 16

/** `default/web:http` as comments have it; an unnamed port has no colon since kube-proxy 1.20. */
export function portText(
  { namespace, name, portName }: Pick<ServicePort, 'namespace' | 'name' | 'portName'>,
  unnamedColon: boolean,
): string {
  return portName === '' && !unnamedColon ? `${namespace}/${name}` : `${namespace}/${name}:${portName}`
}

/** `KUBE-SVC-V2OKYYMBY3REGZOG`; the chains of one Service port share the hash. */
export function portChain(kind: PortChain, text: string, protocol: string): string {
  return `KUBE-${kind}-${nameHash(text + protocol, HASH_LENGTH)}`
}

/** `KUBE-SEP-POZMZY2HDLRATSJV` of one endpoint of a Service port. */
export function endpointChain(text: string, protocol: string, address: Address, port: number): string {
  return `KUBE-SEP-${nameHash(text + protocol + formatEndpoint(address, port), HASH_LENGTH)}`
}

/** Chains that belong to one Service port, whoever wrote them: a proxy of any version. */
export const PORT_CHAIN = /^KUBE-(?:SVC|SVL|EXT|FW|XLB|SEP)-[A-Z2-7]{16}$/
