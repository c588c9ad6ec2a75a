import type { ServicePortName } from '../dataplane/inspection.js'

/** Which Services somebody wants to see; a missing field means all. */
export interface RowFilter {
  readonly namespace?: string
  /** Name of the Service, or `namespace/name`. */
  readonly service?: string
}

/** The rows that belong to a wanted Service. */
export function filterRows<R extends ServicePortName>(rows: readonly R[], filter: RowFilter): R[] {
  return rows.filter(row => {
    if (filter.namespace !== undefined && row.namespace !== filter.namespace) return false
    if (filter.service === undefined) return true
    return filter.service.includes('/')
      ? filter.service === `${row.namespace}/${row.service}`
      : filter.service === row.service
  })
}
