/**
 * Numbers of the kernel's interface (include/uapi/linux/bpf.h) that the control plane
 * hands to the addon. They never change.
 */

/** enum bpf_attach_type: where a cgroup link puts its program. */
export const AttachType = {
  /** Each packet that leaves a socket of the cgroup, before fragmentation. */
  CGROUP_INET_EGRESS: 1,
  CGROUP_INET4_CONNECT: 10,
  CGROUP_INET6_CONNECT: 11,
  CGROUP_UDP4_SENDMSG: 14,
  CGROUP_UDP6_SENDMSG: 15,
  CGROUP_UDP4_RECVMSG: 19,
  CGROUP_UDP6_RECVMSG: 20,
  CGROUP_INET4_GETPEERNAME: 29,
  CGROUP_INET6_GETPEERNAME: 30,
  /** The last close of a socket. */
  CGROUP_INET_SOCK_RELEASE: 34,
} as const

/** enum bpf_map_type */
export const MapType = {
  HASH: 1,
  ARRAY: 2,
  PERCPU_ARRAY: 6,
  LRU_HASH: 9,
  LPM_TRIE: 11,
  SK_STORAGE: 24,
} as const

/** Flags of an XDP link: where in the device's receive path. */
export const XdpFlag = {
  /** Behind the driver, for every device. */
  GENERIC: 2,
  /** In the driver. */
  NATIVE: 4,
} as const

/** BPF_F_TEST_*: flags of a test run. */
export const TestRunFlag = {
  /** XDP frames are real: they are sent, redirected or passed to the stack. Linux 5.18. */
  XDP_LIVE_FRAMES: 2,
} as const

/** XDP_ATTACHED_*: what a device says it has (linux/if_link.h). */
export const XdpAttached = {
  NONE: 0,
  NATIVE: 1,
  GENERIC: 2,
} as const

/** NETDEV_XDP_ACT_*: what a driver can do (linux/netdev.h). */
export const XdpFeature = {
  BASIC: 1,
  /** Sends frames that other devices redirect to it. */
  NDO_XMIT: 4,
} as const

/** Flags of map creation. */
export const MapFlag = {
  /** Hash elements are allocated when they come, not all at once. */
  NO_PREALLOC: 1,
  /** The array's memory can be mapped by user space. */
  MMAPABLE: 1024,
} as const

/** Flags of a map update. */
export const UpdateFlag = {
  ANY: 0,
  /** Fails with EEXIST when the key is there. */
  NOEXIST: 1,
  /** Fails with ENOENT when the key is not there. */
  EXIST: 2,
} as const
