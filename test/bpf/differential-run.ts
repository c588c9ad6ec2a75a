import { formatEndpoint } from '../../src/model/address.js'
import type { DesiredState } from '../../src/model/desired.js'
import { Difference, type DifferentialNode, hex, Undecided } from './differential-node.js'
import { randomShot, type Shot, Talk } from './differential-packets.js'
import { Random } from './differential-random.js'
import { RandomState } from './differential-state.js'

/** What happens next, told by one number: the same seed does the same in the same situation. */
interface Action {
  readonly kind: 'packet' | 'change' | 'skip' | 'sweep'
  readonly seed: number
}

/** Actions from an empty table on. */
const EPISODE = 400
/** Sums of these stay away from the timeouts in differential-node.ts. */
const SKIPS = [7, 7, 7, 40, 130, 310]
/** Time is skipped by setting the past back, which cannot go beyond the start of the machine. */
const MOST_SKIPPED = 900
/** Runs that a failure may take to become short. */
const SHRINK_RUNS = 400

/** Runs episodes until `packets` packets went through both; throws with a short reproduction at a difference. */
export function runDifferential(node: DifferentialNode, seed: number, packets: number): void {
  const random = new Random(seed)
  while (node.packets < packets) {
    const episode = random.next()
    const actions = plan(new Random(episode))
    const difference = runEpisode(node, episode, actions)
    if (difference) throw new Error(shrink(node, episode, actions, difference))
  }
}

function plan(random: Random): Action[] {
  return Array.from({ length: EPISODE }, () => ({
    kind: random.weighted([
      [370, 'packet'],
      [8, 'change'],
      [1, 'skip'],
      [1, 'sweep'],
    ] as const),
    seed: random.next(),
  }))
}

function runEpisode(
  node: DifferentialNode,
  episode: number,
  actions: readonly Action[],
  log?: string[],
): Difference | undefined {
  const random = new Random(episode ^ 0x5eed)
  const state = new RandomState(random, node.affinity)
  try {
    node.forget()
    const filled = state.fill(random)
    node.apply(state.desired, filled)
    log?.push(...describe(state.desired))
    node.inside(() => {
      const talk = new Talk()
      let skipped = 0
      for (const { kind, seed } of actions) {
        const now = new Random(seed)
        if (kind === 'packet') shoot(node, randomShot(now, state.desired, talk), talk, log)
        else if (kind === 'change') {
          const changed = state.change(now)
          log?.push('change', ...describe(state.desired, changed))
          node.apply(state.desired, changed)
        } else if (kind === 'sweep') {
          log?.push('sweep')
          node.sweep()
        } else {
          const seconds = now.pick(SKIPS)
          if (skipped + seconds > MOST_SKIPPED) continue
          skipped += seconds
          log?.push(`skip ${seconds} s`)
          node.skip(seconds)
        }
      }
      node.compareFlows()
    })
    return undefined
  } catch (error) {
    if (error instanceof Difference) return error
    if (error instanceof Undecided) {
      node.undecided++
      return undefined
    }
    throw error
  } finally {
    const gone = state.empty()
    node.apply(state.desired, gone)
  }
}

function describe({ services, podNetworks }: DesiredState, ids: Iterable<string> = services.keys()): string[] {
  const lines = [`  pods ${podNetworks?.join(' ')}`]
  for (const id of ids) {
    const port = services.get(id)
    if (!port) {
      lines.push(`  ${id} gone`)
      continue
    }
    const { scheduler, affinitySeconds, internalLocal, externalLocal, sourceRanges, frontends, backends } = port
    lines.push(`  ${id} ${JSON.stringify({ scheduler, affinitySeconds, internalLocal, externalLocal, sourceRanges })}`)
    lines.push(`    ${frontends.map(each => `${each.kind} ${formatEndpoint(each.address, each.port)}`).join(', ')}`)
    for (const { address, port, local, inCluster, inLocal, weight } of backends) {
      const words = [local && 'here', inCluster && 'in cluster', inLocal && 'in local', `weight ${weight}`]
      lines.push(`    -> ${formatEndpoint(address, port)} ${words.filter(Boolean).join(', ')}`)
    }
  }
  return lines
}

function shoot(node: DifferentialNode, shot: Shot, talk: Talk, log?: string[]): void {
  const { frame, side, device } = shot
  log?.push(`${side} ${device} ${hex(frame)}`)
  const seen = node.step(frame, side, device)
  log?.push(`  ${seen.answer.outcome} ${JSON.stringify(seen.answer.becomes) ?? ''}`)
  talk.remember(seen)
}

/** Leaves out what the difference does not need, in ever smaller parts, and describes the rest. */
function shrink(node: DifferentialNode, episode: number, actions: readonly Action[], first: Difference): string {
  let left = actions
  let difference = first
  let runs = 0
  for (
    let part = Math.ceil(left.length / 2);
    part >= 1 && runs < SHRINK_RUNS;
    part = part === 1 ? 0 : Math.ceil(part / 2)
  ) {
    for (let at = 0; at < left.length && runs < SHRINK_RUNS; ) {
      const fewer = [...left.slice(0, at), ...left.slice(at + part)]
      runs++
      const again = runEpisode(node, episode, fewer)
      if (again) {
        left = fewer
        difference = again
      } else at += part
    }
  }
  const log: string[] = []
  // What is random in the kernel may take another way this time.
  const last = runEpisode(node, episode, left, log) ?? difference
  return [`episode ${episode}, ${left.length} of ${actions.length} actions:`, ...log, last.message].join('\n')
}
