import { createHash } from 'node:crypto'

/** Something that the people of a Service should know. */
export interface ServiceNotice {
  readonly namespace: string
  readonly name: string
  /** The Service's metadata.uid; undefined = not known. */
  readonly uid: string | undefined
  /** One word that says what happened: `FrontendRefused`. */
  readonly reason: string
  /** What the agent was doing: `Plan`. */
  readonly action: string
  /** For people: what is wrong and what to do. */
  readonly note: string
  /** The other nodes do not say the same. */
  readonly ofThisNode: boolean
}

/** The API's limit for a note, in bytes. */
const NOTE_MAX = 1024

/**
 * An Event of events.k8s.io/v1. Its name follows from what it says, so a notice that every
 * node gives becomes one object: the first creates it, the others find it there. `here`
 * are this node's addresses, which do not make a notice another one.
 */
export function eventOf(notice: ServiceNotice, node: string, here: readonly string[], at: Date): KubeEvent {
  const { namespace, name, uid, reason, action, note, ofThisNode } = notice
  const common = here.reduce((text, address) => text.replaceAll(address, 'node'), note)
  const says = JSON.stringify([uid, reason, common, ofThisNode ? node : ''])
  const hash = createHash('sha256').update(says).digest('hex').slice(0, 16)
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { namespace, name: `${name}.${hash}` },
    eventTime: at.toISOString().replace(/Z$/, '000Z'),
    reportingController: 'waggle',
    reportingInstance: `waggle-${node}`.slice(0, 128),
    type: 'Warning',
    reason,
    action,
    note: cut(ofThisNode ? `node ${node}: ${note}` : note),
    regarding: { apiVersion: 'v1', kind: 'Service', namespace, name, ...(uid !== undefined && { uid }) },
  }
}

export interface KubeEvent {
  readonly apiVersion: 'events.k8s.io/v1'
  readonly kind: 'Event'
  readonly metadata: { readonly namespace: string; readonly name: string }
  /** RFC 3339 with microseconds. */
  readonly eventTime: string
  readonly reportingController: string
  readonly reportingInstance: string
  readonly type: 'Warning'
  readonly reason: string
  readonly action: string
  readonly note: string
  readonly regarding: Readonly<Record<string, string>>
}

/** Not in the middle of a character. */
function cut(text: string): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= NOTE_MAX) return text
  return `${bytes
    .subarray(0, NOTE_MAX - 3)
    .toString('utf8')
    .replace(/\uFFFD+$/, '')}…`
}
