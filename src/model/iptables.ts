/**
 * The shapes that kube-proxy's iptables rules had from version to version, each named
 * after the first version with that shape.
 */
export const IPTABLES_PROFILES = ['1.25', '1.24', '1.22', '1.20', '1.17', '1.16'] as const
export type IptablesProfile = (typeof IPTABLES_PROFILES)[number]

/** Which of the two kernel interfaces `iptables` writes to. */
export const IPTABLES_VARIANTS = ['legacy', 'nft'] as const
export type IptablesVariant = (typeof IPTABLES_VARIANTS)[number]
