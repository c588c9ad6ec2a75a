import { AttachType } from './uapi.js'

export interface SockHook {
  /** Name in the object, also of its pin. */
  readonly program: string
  /** enum bpf_attach_type */
  readonly attachType: number
}

/**
 * The programs of sock.bpf.o. The order is safe at any moment: what reads the old state
 * of a socket is attached before what makes it, so no socket is translated one way only.
 */
export const SOCK_HOOKS: readonly SockHook[] = [
  { program: 'sock_release', attachType: AttachType.CGROUP_INET_SOCK_RELEASE },
  { program: 'sock_getpeer4', attachType: AttachType.CGROUP_INET4_GETPEERNAME },
  { program: 'sock_getpeer6', attachType: AttachType.CGROUP_INET6_GETPEERNAME },
  { program: 'sock_recvmsg4', attachType: AttachType.CGROUP_UDP4_RECVMSG },
  { program: 'sock_recvmsg6', attachType: AttachType.CGROUP_UDP6_RECVMSG },
  { program: 'sock_sendmsg4', attachType: AttachType.CGROUP_UDP4_SENDMSG },
  { program: 'sock_sendmsg6', attachType: AttachType.CGROUP_UDP6_SENDMSG },
  { program: 'sock_connect4', attachType: AttachType.CGROUP_INET4_CONNECT },
  { program: 'sock_connect6', attachType: AttachType.CGROUP_INET6_CONNECT },
]

/** The program of sockegress.bpf.o; attached only while sockets on removed backends live. */
export const SOCK_EGRESS_HOOK: SockHook = { program: 'sock_egress', attachType: AttachType.CGROUP_INET_EGRESS }
