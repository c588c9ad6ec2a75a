import { codeOf, WaggleError } from '../base/errors.js'

/**
 * unreachable: no server answered. cut: the connection broke in the middle. silent: no
 * byte within the deadline. expired: the server no longer keeps that resource version
 * (410). denied: 401 or 403. busy: 429 or 503, try later. refused: any other status.
 * garbled: bytes that are not what the API promises. credentials: kubeconfig, token or
 * certificate cannot be read. handler: the receiver of our events threw.
 */
export type KubeErrorKind =
  | 'unreachable'
  | 'cut'
  | 'silent'
  | 'expired'
  | 'denied'
  | 'busy'
  | 'refused'
  | 'garbled'
  | 'credentials'
  | 'handler'

/** Why a list or a watch ended. `code` is `KUBE_` and the kind. */
export class KubeError extends WaggleError {
  readonly kind: KubeErrorKind
  /** HTTP status, or the code of a Status object; undefined when none came. */
  readonly status: number | undefined
  /** How long the server asks us to wait, in milliseconds; 0 = it does not say. */
  readonly retryAfterMs: number

  constructor(
    kind: KubeErrorKind,
    parts: { what: string; remedy?: string; cause?: unknown; status?: number; retryAfterMs?: number },
  ) {
    super(`KUBE_${kind.toUpperCase()}`, parts)
    this.kind = kind
    this.status = parts.status
    this.retryAfterMs = parts.retryAfterMs ?? 0
  }
}

/**
 * The error of an answer whose status is not 200, or of a watch's ERROR event. `status`
 * is the HTTP status or `Status.code`, `message` the server's own words, `retryAfterMs`
 * what it asks for (0 = nothing).
 */
export function errorOfStatus(what: string, status: number, message: string, retryAfterMs: number): KubeError {
  const parts = {
    what,
    cause: message === '' ? `status ${status}` : `status ${status}: ${message}`,
    status,
    retryAfterMs,
  }
  if (status === 410) return new KubeError('expired', parts)
  if (status === 401) {
    return new KubeError('denied', { ...parts, remedy: 'the token or client certificate is not accepted' })
  }
  if (status === 403) {
    return new KubeError('denied', { ...parts, remedy: 'the role must allow list and watch of this resource' })
  }
  if (status === 429 || status === 503) return new KubeError('busy', parts)
  return new KubeError('refused', parts)
}

/** The error of a connection that failed while an answer was read. */
export function errorOfStream(what: string, thrown: unknown): KubeError {
  if (thrown instanceof KubeError) return thrown
  return new KubeError('cut', { what, cause: codeOf(thrown) ?? thrown })
}

/**
 * The value of a Retry-After header in milliseconds: seconds or an HTTP date, 0 when
 * absent or unreadable, at most five minutes (a mistake in it must not stop us for a day).
 */
export function parseRetryAfter(value: string | undefined, now: Date): number {
  if (value === undefined) return 0
  const seconds = /^\s*\d+\s*$/.test(value) ? Number(value) : (Date.parse(value) - now.getTime()) / 1000
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 0), 300) * 1000 : 0
}
