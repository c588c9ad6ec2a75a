import type { Backend, ServicePort } from '../../model/desired.js'
import { nameHash } from '../rules/name-hash.js'

/** Names of chains and sets as kube-proxy's nftables mode has them: a hash to be unique, then words to be read. */

/** Characters of the hash. */
const HASH_LENGTH = 8
/** A name of the kernel has 255 characters; a prefix goes before this, and a timeout behind. */
const MAX_LENGTH = 235

/** `ULMVA6XW-ns1/svc1/tcp/p80` */
export function portName({ namespace, name, protocol, portName: port }: ServicePort): string {
  return hashed(`${namespace}/${name}/${protocol.toLowerCase()}/${port}`)
}

/** `JO2XBXZR-testing/service/tcp/http__10.180.0.1/80`; nft takes no colon in a name. */
export function endpointName({ namespace, name, protocol, portName: port }: ServicePort, backend: Backend): string {
  const where = `${backend.address.replaceAll(':', '.')}/${backend.port}`
  return hashed(`${namespace}/${name}/${protocol.toLowerCase()}/${port}__${where}`)
}

function hashed(text: string): string {
  const name = `${nameHash(text, HASH_LENGTH)}-${text}`
  return name.length > MAX_LENGTH ? `${name.slice(0, MAX_LENGTH - 3)}...` : name
}

/** Prefixes of what belongs to one Service port. */
export const PORT_OBJECT = /^(?:service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-/
