import { readFileSync } from 'node:fs'
import { codeOf } from '../../base/errors.js'

/** `--adopt-conntrack`. */
export type AdoptConntrack = 'auto' | 'on' | 'off'

/** What a machine says of its connection tracking. */
export interface ConntrackFacts {
  /** Entries of this network namespace; undefined: the kernel has no connection tracking, or not yet. */
  readonly entries: number | undefined
  /** Whether programs can ask it (Linux 5.18 or newer, and its types are known). */
  readonly canBeAsked: boolean
}

/** Whether programs leave flows that the kernel's NAT translates to it, and why. */
export interface Adoption {
  readonly on: boolean
  readonly reason: string
  /** What is wrong with that, and what to do about it. */
  readonly warning?: string
}

/**
 * Decides once, when the programs are loaded: a flow that began under another Service proxy
 * has an entry by then. With none there is nothing to adopt. With some, nothing short of a
 * look at each tells whether one leads to a frontend, and the question costs new flows so
 * little that it is not worth the look. Pure.
 */
export function decideAdoption(mode: AdoptConntrack, { entries, canBeAsked }: ConntrackFacts): Adoption {
  if (mode === 'off') return { on: false, reason: '--adopt-conntrack is off' }
  const none = entries === undefined ? 'the kernel tracks no connections' : 'connection tracking holds no entry'
  if (mode === 'auto' && !entries) return { on: false, reason: none }
  if (canBeAsked) {
    return {
      on: true,
      reason: mode === 'on' ? '--adopt-conntrack is on' : `connection tracking holds ${entries} entries`,
    }
  }
  const lacks =
    entries === undefined
      ? `${none}: load nf_conntrack before the agent starts`
      : 'programs cannot ask this kernel about connections: it takes Linux 5.18 with CONFIG_DEBUG_INFO_BTF_MODULES'
  return {
    on: false,
    reason: lacks,
    warning: 'exchanges over UDP that the kernel translates now go on with another backend',
  }
}

const COUNT = '/proc/sys/net/netfilter/nf_conntrack_count'
const TYPES = ['/sys/kernel/btf/vmlinux', '/sys/kernel/btf/nf_conntrack']

/** A type's name in BTF's table of strings: it is there if something has it. */
const NAME = Buffer.from('\0bpf_ct_opts\0')

/** Reads the facts of this machine and of the network namespace of this process. */
export function readConntrackFacts(): ConntrackFacts {
  const count = read(COUNT)
  return {
    entries: count && Number(count.toString()),
    canBeAsked: TYPES.some(path => read(path)?.includes(NAME)),
  }
}

function read(path: string): Buffer | undefined {
  try {
    return readFileSync(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** The constants of the objects that open flows. */
export function adoptionConstants({ on }: Adoption): Readonly<Record<string, Uint8Array>> {
  return { cfg_adopt_conntrack: Uint8Array.of(Number(on)) }
}
