import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config/config.js'
import { DirSource } from '../k8s/dir-source.js'
import type { Address } from '../model/address.js'
import type { DesiredState } from '../model/desired.js'
import type { SourceEvent } from '../model/objects.js'
import { Planner } from '../plan/planner.js'
import { Problems } from '../state/problems.js'
import { Store } from '../state/store.js'
import { DaemonError } from './errors.js'
import { plannerOptions } from './planner-options.js'

/** Files that are still being written are read after a second. */
const PATIENCE_MS = 10_000

/** A desired state and what is wrong with the manifests that it comes from. */
export interface OfflinePlan {
  readonly state: DesiredState
  /** One line each. */
  readonly problems: readonly string[]
}

/**
 * Plans for a node from a folder of manifests, without a kernel. The machine's addresses
 * count where they are given; else what a node port is reached at comes from the Node object.
 *
 * @throws DaemonError when the folder cannot be read
 */
export async function planFromDir(
  path: string,
  config: Config,
  hostAddresses: readonly Address[] = [],
): Promise<OfflinePlan> {
  const source = new DirSource(path)
  const store = new Store()
  const planner = new Planner(plannerOptions(config))
  planner.setHostAddresses(hostAddresses)
  const planProblems = new Problems()
  let synced = false
  const take = (events: readonly SourceEvent[]) => {
    const change = store.apply(events)
    synced ||= change.synced
    planProblems.apply(planner.update(store, change).problems)
  }
  try {
    await source.start(take)
    for (let waited = 0; !synced && waited < PATIENCE_MS; waited += 50) await sleep(50)
  } finally {
    await source.stop()
  }
  const problems = [...store.problems, ...planProblems.list()]
  if (!synced) {
    const [first] = problems
    const why = first === undefined ? '' : `: ${first.where}: ${first.message}`
    throw new DaemonError('UNREADABLE', {
      what: `read the manifests in ${path}${why}`,
      remedy: 'name a readable folder with --source dir:PATH',
    })
  }
  return {
    state: planner.state,
    problems: problems.map(({ where, field, message }) => `${where} ${field}: ${message}`),
  }
}
