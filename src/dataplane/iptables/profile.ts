import type { IptablesProfile } from '../../model/iptables.js'

/** What distinguishes the shapes of kube-proxy's rules. */
export interface Layout {
  /** Decimals of a probability; 10 since 1.17. */
  readonly probabilityDigits: number
  /** An unnamed port is written `ns/name:`, up to 1.18. */
  readonly unnamedColon: boolean
  /** Chain of the frontends that outside clients dial: EXT since 1.24; before, XLB for the policy Local alone. */
  readonly externalChain: 'EXT' | 'XLB'
  /** Where masquerading is decided: in the chains of the Service since 1.22, before that beside the jump to them. */
  readonly masqueradeBeside: boolean
  /** Rules of endpoints name them in their comments, since 1.24. */
  readonly endpointsNamed: boolean
  /** What source ranges leave over is dropped in filter (since 1.25), or by the mark 0x8000 and the kubelet's KUBE-FIREWALL. */
  readonly firewallChain: boolean
  /** Health check node ports are let in, since 1.21. */
  readonly healthChecks: boolean
  /** The mark is taken off before a packet leaves, since 1.19. */
  readonly markCleared: boolean
  /** Answers are let through by the cluster's pod network alone, up to 1.16. */
  readonly forwardByPodNetwork: boolean
}

const SINCE_125: Layout = {
  probabilityDigits: 10,
  unnamedColon: false,
  externalChain: 'EXT',
  masqueradeBeside: false,
  endpointsNamed: true,
  firewallChain: true,
  healthChecks: true,
  markCleared: true,
  forwardByPodNetwork: false,
}
const SINCE_124: Layout = { ...SINCE_125, firewallChain: false }
const SINCE_122: Layout = { ...SINCE_124, externalChain: 'XLB', endpointsNamed: false }
const SINCE_120: Layout = { ...SINCE_122, masqueradeBeside: true, healthChecks: false }
const SINCE_117: Layout = { ...SINCE_120, unnamedColon: true, markCleared: false }
const UNTIL_116: Layout = { ...SINCE_117, probabilityDigits: 5, forwardByPodNetwork: true }

export const LAYOUTS: Readonly<Record<IptablesProfile, Layout>> = {
  '1.25': SINCE_125,
  '1.24': SINCE_124,
  '1.22': SINCE_122,
  '1.20': SINCE_120,
  '1.17': SINCE_117,
  '1.16': UNTIL_116,
}
