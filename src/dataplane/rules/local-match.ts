import type { Family } from '../../model/address.js'
import { type Cidr, familyOfCidr } from '../../model/cidr.js'
import type { DesiredState } from '../../model/desired.js'

/** How rules tell a pod of the cluster from others: by its source network, or by the device (`+` = any ending). */
export type LocalMatch = { readonly from: Cidr } | { readonly device: string }

/** The match for a family: `local` where it is set, else the pod network of the plan; undefined = there is none. */
export function localOf(
  state: DesiredState,
  { family, local }: { readonly family: Family; readonly local?: LocalMatch },
): LocalMatch | undefined {
  // One rule can name one network; kube-proxy takes one of each family, too.
  const from = state.podNetworks?.find(each => familyOfCidr(each) === family)
  return local ?? (from === undefined ? undefined : { from })
}
