import type { IptablesProfile } from '../../model/iptables.js'

/** What distinguishes the shapes of kube-proxy's rules. */
export interface Layout {
  /** Decimals of a probability; 10 since 1.17. */
  readonly probabilityDigits: number
  /** An unnamed port is written `ns/name:`, up to 1.18. */
  readonly unnamedColon: boolean
  /** What source ranges leave over is dropped in filter (since 1.25), or by the mark 0x8000 for the kubelet's KUBE-FIREWALL. */
  readonly firewallChain: boolean
}

const NEWEST: Layout = { probabilityDigits: 10, unnamedColon: false, firewallChain: true }

export const LAYOUTS: Readonly<Record<IptablesProfile, Layout>> = {
  '1.25': NEWEST,
  '1.24': { ...NEWEST, firewallChain: false },
}
