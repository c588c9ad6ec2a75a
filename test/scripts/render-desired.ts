import { formatEndpoint } from '../../src/model/address.js'
import type { Backend, DesiredState, ServicePort } from '../../src/model/desired.js'

/**
 * A desired state as text: one block a Service port, sorted by id. After a backend stand
 * the lists it is in; `-` means it only keeps the flows it has. Weight 1 is not shown.
 *
 *   default/web:http/TCP/IPv4 random external=Local
 *     ClusterIP    203.0.113.10:80
 *     backend      198.51.100.11:8080 cluster local
 */
export function renderDesired(state: DesiredState): string {
  const ports = [...state.services.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  return ports.map(renderPort).join('\n')
}

function renderPort(port: ServicePort): string {
  const head = [port.id, port.scheduler]
  if (port.affinitySeconds > 0) head.push(`affinity=${port.affinitySeconds}s`)
  if (port.internalLocal) head.push('internal=Local')
  if (port.externalLocal) head.push('external=Local')
  return [
    head.join(' '),
    ...port.frontends.map(f => row(f.kind, formatEndpoint(f.address, f.port))),
    ...port.backends.map(b =>
      row('backend', `${formatEndpoint(b.address, b.port)} ${lists(b)}${b.weight === 1 ? '' : ` weight=${b.weight}`}`),
    ),
  ].join('\n')
}

function lists(backend: Backend): string {
  const names = [...(backend.inCluster ? ['cluster'] : []), ...(backend.inLocal ? ['local'] : [])]
  return names.length > 0 ? names.join(' ') : '-'
}

function row(what: string, text: string): string {
  return `  ${what.padEnd(12)} ${text}`
}
