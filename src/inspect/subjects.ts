import type { Inspection } from '../dataplane/inspection.js'
import { filterRows, type RowFilter } from './filter.js'
import {
  backendTable,
  deviceTable,
  flowTable,
  mapTable,
  outcomeTable,
  programTable,
  serviceTable,
  type Table,
} from './tables.js'

/** What `waggle show` can show. */
export interface Subject {
  readonly name: keyof Inspection
  readonly description: string
  /** Rows belong to Services, so --namespace and --service make sense. */
  readonly byService: boolean
  rows(inspection: Inspection, filter: RowFilter): readonly unknown[]
  table(inspection: Inspection, filter: RowFilter): Table
}

export const SUBJECTS: readonly Subject[] = [
  {
    name: 'services',
    description: 'Service ports with their frontends, settings and counters',
    byService: true,
    rows: ({ services }, filter) => filterRows(services, filter),
    table: ({ services }, filter) => serviceTable(filterRows(services, filter)),
  },
  {
    name: 'backends',
    description: 'backends with the lists they are in and their counters',
    byService: true,
    rows: ({ backends }, filter) => filterRows(backends, filter),
    table: ({ backends }, filter) => backendTable(filterRows(backends, filter)),
  },
  {
    name: 'flows',
    description: 'flows through node ports, external and load-balancer addresses',
    byService: true,
    rows: ({ flows }, filter) => filterRows(flows, filter),
    table: ({ flows }, filter) => flowTable(filterRows(flows, filter)),
  },
  {
    name: 'programs',
    description: 'programs, where they are attached and whether they still are',
    byService: false,
    rows: ({ programs }) => programs,
    table: ({ programs }) => programTable(programs),
  },
  {
    name: 'devices',
    description: 'devices whose packets are served, and how',
    byService: false,
    rows: ({ devices }) => devices,
    table: ({ devices }) => deviceTable(devices),
  },
  {
    name: 'outcomes',
    description: 'what became of packets and calls, by program',
    byService: false,
    rows: ({ outcomes }) => outcomes,
    table: ({ outcomes }) => outcomeTable(outcomes),
  },
  {
    name: 'maps',
    description: 'how full the maps are',
    byService: false,
    rows: ({ maps }) => maps,
    table: ({ maps }) => mapTable(maps),
  },
]
