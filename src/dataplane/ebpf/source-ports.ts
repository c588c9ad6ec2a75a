import type { PortRange } from '../../model/port-range.js'

/** Which source ports flows to backends elsewhere get (bpf/lib/snat_ports.h). */
export interface SourcePorts {
  /** One or two ranges that do not meet. */
  readonly first: readonly PortRange[]
  /** Used beside them when ports are scarce there. */
  readonly last: PortRange | undefined
}

const NONE: PortRange = { min: 1, max: 0 }

/** The constants of tc.bpf.o that hold the ranges. */
export function sourcePortConstants({ first, last }: SourcePorts): Readonly<Record<string, Uint8Array>> {
  const [low = NONE, high = NONE] = first
  const ports = {
    cfg_snat_low_min: low.min,
    cfg_snat_low_max: low.max,
    cfg_snat_high_min: high.min,
    cfg_snat_high_max: high.max,
    cfg_snat_last_min: (last ?? NONE).min,
    cfg_snat_last_max: (last ?? NONE).max,
  }
  return Object.fromEntries(
    Object.entries(ports).map(([name, value]) => [name, Uint8Array.of(value & 0xff, value >> 8)]),
  )
}
