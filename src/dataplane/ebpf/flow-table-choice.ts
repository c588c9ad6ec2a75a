import type { Logger } from '../../base/log.js'
import type { FlowTableKind } from './flow-table.js'
import { MOST_FLAT_FLOWS } from './flow-table-flat.js'
import type { Limits } from './kernel-maps.js'
import { LoadError, pinnedFlowTable } from './loader.js'
import type { Pins } from './pins.js'

/**
 * Which flow table to load. One that an earlier run pinned is kept, whatever is wanted now:
 * open connections are in it.
 */
export function chooseFlowTable(pins: Pins, limits: Limits, wanted: FlowTableKind, logger: Logger): FlowTableKind {
  const pinned = pinnedFlowTable(pins)
  if (pinned) {
    if (wanted !== pinned) {
      logger.warn('keeping the flow table of the pinned maps: open connections are in it', {
        flowTable: pinned,
        wanted,
        remedy: '`waggle cleanup` removes it, connections included; so does a reboot',
      })
    }
    return pinned
  }
  if (wanted === 'flat' && limits.flows > MOST_FLAT_FLOWS) {
    throw new LoadError('FLOW_TABLE', {
      what: `make a flat flow table for ${limits.flows} flows: it has ${MOST_FLAT_FLOWS} at most`,
      remedy: 'lower --max-flows, or use --flow-table hash',
    })
  }
  return wanted
}
