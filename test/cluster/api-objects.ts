import { readFileSync } from 'node:fs'
import https from 'node:https'

/** The parts of an API object that its address is made of. */
export interface ApiObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [field: string]: unknown }
  readonly status?: unknown
  readonly [field: string]: unknown
}

export interface ApiAnswer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: it is whatever the server sends, and tests look into it.
  readonly body: any
}

/** Kinds that the tests make, with the name of their collection and whether they live in a namespace. */
const kinds: Readonly<Record<string, { collection: string; namespaced: boolean }>> = {
  Namespace: { collection: 'namespaces', namespaced: false },
  Node: { collection: 'nodes', namespaced: false },
  Service: { collection: 'services', namespaced: true },
  EndpointSlice: { collection: 'endpointslices', namespaced: true },
  ServiceAccount: { collection: 'serviceaccounts', namespaced: true },
  ConfigMap: { collection: 'configmaps', namespaced: true },
  DaemonSet: { collection: 'daemonsets', namespaced: true },
  ClusterRole: { collection: 'clusterroles', namespaced: false },
  ClusterRoleBinding: { collection: 'clusterrolebindings', namespaced: false },
}

const MERGE_PATCH = 'application/merge-patch+json'

/** Reads and writes objects of an API server with plain HTTPS requests: no code of the product is in the way. */
export class ApiObjects {
  readonly #server: string
  readonly #token: string
  readonly #agent: https.Agent

  constructor(server: string, caFile: string, token: string) {
    this.#server = server
    this.#token = token
    this.#agent = new https.Agent({ ca: readFileSync(caFile), keepAlive: true, maxSockets: 16 })
  }

  close(): void {
    this.#agent.destroy()
  }

  /** Sends a request; a status of 300 or more is an error unless it is in `accept`. */
  async request(
    method: string,
    path: string,
    body?: unknown,
    options: { type?: string; accept?: readonly number[] } = {},
  ): Promise<ApiAnswer> {
    const answer = await this.#send(method, path, body, options.type ?? 'application/json')
    if (answer.status >= 300 && !options.accept?.includes(answer.status)) {
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    }
    return answer
  }

  /**
   * Creates the objects or makes them as given (server-side apply); fields that an earlier
   * apply set and this one leaves out go. The status, where they have one, is merged.
   */
  async apply(...objects: readonly object[]): Promise<void> {
    for (const object of objects as readonly ApiObject[]) {
      const path = pathOf(object)
      const query = '?fieldManager=test&force=true'
      const options = { type: 'application/apply-patch+yaml' }
      const { status: _, ...rest } = object
      await this.request('PATCH', path + query, rest, options)
      if (object.status === undefined) continue
      // Merged, not applied: a Node's addresses are keyed by type, and one with two InternalIPs is refused (500).
      await this.request('PATCH', `${path}/status`, { status: object.status }, { type: MERGE_PATCH })
    }
  }

  /** Changes fields of an object (JSON merge patch). */
  async patch(object: object, change: object): Promise<void> {
    await this.request('PATCH', pathOf(object as ApiObject), change, { type: MERGE_PATCH })
  }

  /** Deletes the objects; those that are gone already do not matter. */
  async delete(...objects: readonly object[]): Promise<void> {
    for (const object of objects)
      await this.request('DELETE', pathOf(object as ApiObject), undefined, { accept: [404] })
  }

  #send(method: string, path: string, body: unknown, type: string): Promise<ApiAnswer> {
    return new Promise((resolve, reject) => {
      const request = https.request(`${this.#server}${path}`, {
        method,
        agent: this.#agent,
        timeout: 30_000,
        headers: { Authorization: `Bearer ${this.#token}`, Accept: 'application/json', 'Content-Type': type },
      })
      request.on('timeout', () => request.destroy(new Error(`${method} ${path}: no answer within 30 s`)))
      request.on('error', reject)
      request.on('response', response => {
        const chunks: Buffer[] = []
        response.on('data', chunk => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8')
          resolve({ status: response.statusCode ?? 0, body: text.startsWith('{') ? JSON.parse(text) : text })
        })
      })
      request.end(body === undefined ? undefined : JSON.stringify(body))
    })
  }
}

/** The path of an object; its namespace is `default` when it lives in one and names none. */
export function pathOf({ apiVersion, kind, metadata }: ApiObject): string {
  const known = kinds[kind]
  if (!known) throw new Error(`no test makes objects of kind ${kind} yet: add it to the table`)
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  const namespace = known.namespaced ? `/namespaces/${metadata.namespace ?? 'default'}` : ''
  return `${group}${namespace}/${known.collection}/${metadata.name}`
}
