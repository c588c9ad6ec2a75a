/** Ports from `min` to `max`, both included. */
export interface PortRange {
  readonly min: number
  readonly max: number
}

/** `1024-29999`, or one port; undefined for anything else. Ports are 1 to 65535. */
export function parsePortRange(text: string): PortRange | undefined {
  const parts = /^([0-9]{1,5})(?:-([0-9]{1,5}))?$/.exec(text)
  if (!parts) return undefined
  const min = Number(parts[1])
  const max = Number(parts[2] ?? parts[1])
  return min >= 1 && min <= max && max <= 65_535 ? { min, max } : undefined
}

/** The inverse. */
export function formatPortRange({ min, max }: PortRange): string {
  return min === max ? String(min) : `${min}-${max}`
}

/** Whether the two have a port in common. */
export function portRangesMeet(a: PortRange, b: PortRange): boolean {
  return a.min <= b.max && b.min <= a.max
}
