/**
 * What the health endpoints answer. The rules and field names are kube-proxy's
 * (pkg/proxy/healthcheck), which load balancers and probes already know. Pure.
 */

/** Where the sync loop stands, as far as health depends on it. */
export interface SyncHealth {
  /** Everything was applied once after all lists were in. */
  readonly synced: boolean
  readonly lastApplied: Date | undefined
  /** When the oldest change that is not applied yet was reported. */
  readonly pendingSince: Date | undefined
}

export interface HealthInput {
  readonly sync: SyncHealth
  /** False once the Node object is gone or about to go: load balancers shall look elsewhere. */
  readonly nodeEligible: boolean
  readonly now: Date
  /** A change that waits longer makes the answer 503. */
  readonly staleAfterMs: number
  /** What the first full sync still waits for; for people. */
  readonly waitingFor: readonly string[]
  /** Objects that a list lacked and that stay until another list lacks them, too. */
  readonly heldDeletions: number
}

export interface HealthAnswer {
  readonly code: 200 | 503
  readonly body: Readonly<Record<string, unknown>>
}

/** May new traffic come to this node? For load balancers. */
export function healthz(input: HealthInput): HealthAnswer {
  const healthy = isFresh(input) && input.nodeEligible
  return answer(healthy, { ...times(input), nodeEligible: input.nodeEligible, healthy, ...perFamily(input) })
}

/** Does the agent do its work? For liveness probes; a node that is about to go still lives. */
export function livez(input: HealthInput): HealthAnswer {
  const healthy = isFresh(input)
  return answer(healthy, { ...times(input), healthy, ...perFamily(input) })
}

/** Has everything been written once? kube-proxy says 200 before that; this does not. */
export function readyz(input: HealthInput): HealthAnswer {
  const ready = input.sync.synced
  const { heldDeletions, waitingFor } = input
  const held = heldDeletions > 0 ? { heldDeletions } : {}
  return answer(ready, { ...times(input), ready, ...held, ...(ready ? {} : { waitingFor }) })
}

/**
 * May a load balancer send to this node what one Service gets? Whether the node is about
 * to go does not count: that is {@link healthz}'s answer (KEP-3836).
 */
export function serviceHealth(
  service: { readonly namespace: string; readonly name: string },
  localEndpoints: number,
  input: HealthInput,
): HealthAnswer & { readonly headers: Readonly<Record<string, string>> } {
  const proxyHealthy = isFresh(input)
  const { namespace, name } = service
  const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy: proxyHealthy }
  return {
    ...answer(localEndpoints > 0 && proxyHealthy, body),
    headers: { 'X-Load-Balancing-Endpoint-Weight': String(localEndpoints) },
  }
}

/** Before the first change nothing can be late, so a starting agent is healthy. */
function isFresh({ sync, now, staleAfterMs }: HealthInput): boolean {
  return sync.pendingSince === undefined || now.getTime() - sync.pendingSince.getTime() <= staleAfterMs
}

function times(input: HealthInput): { lastUpdated: string; currentTime: string } {
  return { lastUpdated: lastUpdated(input), currentTime: input.now.toISOString() }
}

/** While healthy nothing is outdated, so it is now, as kube-proxy has it; the zero time when there was none. */
function lastUpdated(input: HealthInput): string {
  if (isFresh(input)) return input.now.toISOString()
  return input.sync.lastApplied?.toISOString() ?? '0001-01-01T00:00:00Z'
}

/** Both families are written together; the field has kube-proxy's shape since 1.33. */
function perFamily(input: HealthInput): { status: Readonly<Record<string, unknown>> } {
  const family = { lastUpdated: lastUpdated(input), healthy: isFresh(input) }
  return { status: { IPv4: family, IPv6: family } }
}

function answer(good: boolean, body: Readonly<Record<string, unknown>>): HealthAnswer {
  return { code: good ? 200 : 503, body }
}
