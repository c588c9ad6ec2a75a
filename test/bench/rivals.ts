import { FAMILIES, type Family } from './paths.js'
import { iptablesRules, nftRules, type RuleOptions, type RuleService } from './rules.js'
import { findTool, type World } from './world.js'

/** The kernel's own filters, each with the tool that loads its rules. */
export interface Rival {
  readonly name: 'nft' | 'iptables-legacy' | 'iptables-nft'
  readonly tool: Readonly<Record<Family, string>>
  readonly args: readonly string[]
  readonly rules: (services: readonly RuleService[], options: RuleOptions) => string
  /** Whether the place of a Service in the rules matters. */
  readonly linear: boolean
}

export const RIVALS: readonly Rival[] = [
  { name: 'nft', tool: { IPv4: 'nft', IPv6: 'nft' }, args: ['-f', '-'], rules: nftRules, linear: false },
  ...(['legacy', 'nft'] as const).map(
    (kind): Rival => ({
      name: `iptables-${kind}`,
      tool: { IPv4: `iptables-${kind}-restore`, IPv6: `ip6tables-${kind}-restore` },
      args: [],
      rules: iptablesRules,
      linear: true,
    }),
  ),
]

const EMPTY_TABLES = '*filter\nCOMMIT\n*nat\nCOMMIT\n'

/** Loads a rival's rules in a namespace, in place of all it has there. Returns why that failed, or undefined. */
export function loadRival(
  world: World,
  netns: string,
  rival: Rival,
  services: readonly RuleService[],
  options: RuleOptions,
  seconds: number,
): string | undefined {
  const tool = findTool(rival.tool[options.family])
  if (tool === undefined) return `${rival.tool[options.family]} is not installed`
  try {
    clearRival(world, netns, rival)
    world.inNetns(netns, [tool, ...rival.args], rival.rules(services, options), seconds * 1000)
    return undefined
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ETIMEDOUT') return `loading its rules takes more than ${seconds} s`
    return firstLine(error)
  }
}

/** Removes all rules of both families from a rival's namespace. */
export function clearRival(world: World, netns: string, rival: Rival): void {
  const nft = findTool('nft')
  if (rival.name !== 'iptables-legacy' && nft !== undefined) {
    world.inNetns(netns, [nft, 'flush', 'ruleset'])
    return
  }
  for (const family of FAMILIES) {
    const tool = findTool(rival.tool[family])
    if (tool !== undefined) world.inNetns(netns, [tool], EMPTY_TABLES)
  }
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n').slice(0, 2).join(' ')
}

/** Services whose loading says how long more of them will take. */
const ENOUGH = 5_000

/** Which rivals can be loaded with how many Services, as far as this run has seen. */
export class RivalLoads {
  readonly #seconds = new Map<string, { n: number; took: number }>()

  /**
   * Seconds that loading will take, from how long fewer Services took; 0 when those were too
   * few to tell. Loading grows with more than the number of rules.
   */
  expect(rival: Rival, n: number): number {
    const known = this.#seconds.get(rival.name)
    return known === undefined || known.n < ENOUGH ? 0 : known.took * (n / known.n) ** 1.5
  }

  note(rival: Rival, n: number, took: number): void {
    this.#seconds.set(rival.name, { n, took })
  }
}
