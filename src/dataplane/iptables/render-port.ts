import type { ServicePort } from '../../model/desired.js'
import { PortSince124 } from './port-since-124.js'
import { PortUntil123 } from './port-until-123.js'
import type { PortContext, PortRules } from './port-writer.js'

/** A Service port's rules in the shape of the layout; pure. */
export function renderPort(port: ServicePort, context: PortContext): PortRules {
  const Shape = context.layout.externalChain === 'XLB' ? PortUntil123 : PortSince124
  return new Shape(port, context).render()
}
