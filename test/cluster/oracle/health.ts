import { familyOf } from '../../../src/model/address.js'
import type { HealthCheck } from '../../../src/plan/health-checks.js'
import type { Objects } from '../../../src/plan/planner.js'
import type { Difference } from './compare.js'

/** Where kube-proxy serves health checks: the node's addresses, by family. */
export const NODE_ADDRESS = { IPv4: '192.168.0.11', IPv6: '2001:db8:192::11' } as const

/**
 * Asks kube-proxy's health check servers what ours would say: how many endpoints of a
 * Service are ready on this node. An address that several endpoints have counts as the one
 * that kube-proxy happens to keep says, so it is left out where they differ.
 */
export async function healthDifferences(
  checks: Iterable<HealthCheck>,
  objects: Objects,
): Promise<{ differences: readonly Difference[]; asked: number }> {
  const questions = [...checks].flatMap(check => {
    const service = `${check.namespace}/${check.name}`
    if (isAmbiguous(service, objects)) return []
    return (objects.service(service)?.clusterIPs ?? []).map(address => ({ check, service, family: familyOf(address) }))
  })
  const answers = await Promise.all(
    questions.map(async ({ check, service, family }): Promise<Difference[]> => {
      const count = check.localEndpoints[family]
      const want = `${count > 0 ? 200 : 503} ${check.namespace}/${check.name} ${count}`
      const got = await answer(family, check.port)
      if (got === want) return []
      const text = `health check at port ${check.port}, ${family}: waggle ${want}, kube-proxy ${got}`
      return [{ service, frontend: String(check.port), text }]
    }),
  )
  return { differences: answers.flat(), asked: questions.length }
}

async function answer(family: 'IPv4' | 'IPv6', port: number): Promise<string> {
  const address = NODE_ADDRESS[family]
  try {
    const response = await fetch(`http://${family === 'IPv6' ? `[${address}]` : address}:${port}/`)
    const { service, localEndpoints } = (await response.json()) as {
      service: { namespace: string; name: string }
      localEndpoints: number
    }
    return `${response.status} ${service.namespace}/${service.name} ${localEndpoints}`
  } catch (error) {
    return String((error as Error).cause ?? error)
  }
}

function isAmbiguous(service: string, objects: Objects): boolean {
  const seen = new Map<string, string>()
  for (const slice of objects.slicesOf(service)) {
    for (const { addresses, ready, nodeName } of slice.endpoints) {
      const what = `${ready} ${nodeName}`
      if ((seen.get(addresses[0] ?? '') ?? what) !== what) return true
      seen.set(addresses[0] ?? '', what)
    }
  }
  return false
}
