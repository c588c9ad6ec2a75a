/**
 * The addon's surface, typed: bytes and file descriptors, no map of ours. Every failing
 * call throws a {@link NativeError}. Calls are synchronous; a handle used after
 * `close()` throws, closing twice is harmless.
 */

export interface NativeError extends Error {
  /**
   * Name of the errno (`ENOENT`; `ENOTSUPP`, `LIBBPF_ERRNO__*` included), or `ERRNO_<n>`
   * where there is no name. With errno 0: `ERR_INVALID_ARG_TYPE` (a TypeError),
   * `ERR_OUT_OF_RANGE` (a RangeError), `ERR_CLOSED` (the handle was closed).
   */
  readonly code: string
  /** Positive errno; 0 when the argument itself was at fault. */
  readonly errno: number
  /** The system call or libbpf function that failed, e.g. `bpf_map_update_elem`. */
  readonly syscall: string
  /** Map, program, path or device that it was about. */
  readonly object: string
  /** libbpf's messages during the call, the verifier's log included; empty when none. At most 256 KiB, the end. */
  readonly log: string
  /** updateBatch: elements written before the failing one. */
  readonly done?: number
}

export interface MapInfo {
  readonly name: string
  readonly id: number
  /** enum bpf_map_type */
  readonly type: number
  readonly keySize: number
  readonly valueSize: number
  readonly maxEntries: number
  readonly flags: number
}

/** A map's file descriptor, owned. Per-CPU values are `valueSize` rounded up to 8, times possible CPUs. */
export interface BpfMap {
  readonly info: MapInfo
  /** Bytes of one value as user space sees it (per-CPU included). */
  readonly userValueSize: number
  lookup(key: Uint8Array): Uint8Array | undefined
  /** flags: 0 BPF_ANY, 1 BPF_NOEXIST, 2 BPF_EXIST */
  update(key: Uint8Array, value: Uint8Array, flags?: number): void
  /** False when the key was absent. */
  delete(key: Uint8Array): boolean
  /** Concatenated keys and values of equal counts. Throws with `done` = how many were written. */
  updateBatch(keys: Uint8Array, values: Uint8Array): void
  /** Deletes the concatenated keys; returns how many existed. */
  deleteBatch(keys: Uint8Array): number
  /**
   * All entries, concatenated; a walk beside writers may miss or repeat what changes
   * meanwhile. ENOMEM when keys or values exceed 1 GiB.
   */
  entries(): { keys: Uint8Array; values: Uint8Array; count: number }
  /**
   * Maps a BPF_F_MMAPABLE array (elements at multiples of valueSize rounded up to 8) into memory.
   * The memory outlives close(). EINVAL for other maps, EACCES or EPERM for read-only ones.
   */
  mmap(): ArrayBuffer
  pin(path: string): void
  close(): void
}

export interface ProgramInfo {
  readonly name: string
  readonly id: number
  readonly type: number
  /** 8 bytes in hex: equal instructions, equal tag. */
  readonly tag: string
  /** That the verifier looked at, at most a million; 0 before Linux 5.16, which does not tell. */
  readonly verifiedInstructions: number
}

export interface BpfProgram {
  readonly info: ProgramInfo
  /**
   * BPF_PROG_TEST_RUN. `ctxIn` is a struct __sk_buff or xdp_md where the type takes one;
   * `ctx` is empty without it. `retval` is unsigned: TC_ACT_UNSPEC reads 4294967295.
   * `flags` are those of uapi.ts, TestRunFlag; with live frames no `data` comes back.
   */
  testRun(options: { data?: Uint8Array; ctxIn?: Uint8Array; repeat?: number; flags?: number }): {
    retval: number
    data: Uint8Array
    ctx: Uint8Array
    /** mean ns per run */
    duration: number
  }
  pin(path: string): void
  close(): void
}

export interface LinkInfo {
  readonly id: number
  /** enum bpf_link_type */
  readonly type: number
  readonly programId: number
  /** tcx, xdp: the device it is attached to, 0 once that is gone; otherwise 0. */
  readonly ifindex: number
  /** cgroup: inode number of the cgroup; otherwise 0. */
  readonly cgroupId: number
}

export interface BpfLink {
  readonly info: LinkInfo
  /** Replaces the program in place, without a gap. */
  update(program: BpfProgram): void
  /** Detaches now, although pins and other descriptors remain. */
  detach(): void
  pin(path: string): void
  close(): void
}

/** An opened ELF object, before and after load. */
export interface BpfObject {
  /** Names in the ELF; of data sections too, with their dot (`.rodata.config`, `<object>.bss`). */
  mapNames(): string[]
  programNames(): string[]
  setMaxEntries(map: string, entries: number): void
  /**
   * Uses an existing map (e.g. a pinned one) instead of creating it. Throws EINVAL when
   * type, key_size, value_size, max_entries or map_flags differ; `log` says which.
   */
  reuseMap(map: string, existing: BpfMap): void
  /** Writes a constant into .rodata* before load, found by its variable's name. Bytes must have its exact size. */
  setConstant(variable: string, bytes: Uint8Array): void
  /** Leaves a program out of the load. */
  setAutoload(program: string, load: boolean): void
  /** Once; whatever comes of it, the calls above throw EBUSY afterwards. Pins nothing by itself. */
  load(): void
  map(name: string): BpfMap
  program(name: string): BpfProgram
  close(): void
}

/** What calls back on the event loop until it is closed; open, it keeps the process alive unless unref() was called. */
export interface Watch {
  ref(): void
  unref(): void
  close(): void
}

/** BTF type by type, as the layout generator reads it. */
export type BtfType =
  | { kind: 'int'; id: number; name: string; size: number; signed: boolean; bool: boolean }
  | { kind: 'ptr' | 'const' | 'volatile' | 'restrict'; id: number; name: string; type: number }
  | { kind: 'typedef'; id: number; name: string; type: number }
  | { kind: 'array'; id: number; name: string; type: number; count: number }
  | {
      kind: 'struct' | 'union'
      id: number
      name: string
      size: number
      members: { name: string; type: number; bitOffset: number; bitSize: number }[]
    }
  | { kind: 'enum'; id: number; name: string; size: number; values: { name: string; value: bigint }[] }
  | { kind: 'var'; id: number; name: string; type: number }
  | {
      kind: 'datasec'
      id: number
      name: string
      size: number
      variables: { type: number; offset: number; size: number }[]
    }
  | { kind: 'other'; id: number; name: string; btfKind: number }

/** What the kernel tells of a device. */
export interface DeviceFacts {
  readonly name: string
  /** Hardware address; empty where the device has none. */
  readonly mac: Uint8Array
  /** `veth`, `bond`, `vlan` …; empty for hardware. */
  readonly kind: string
  /** ifindex of the bridge or bond that it is a port of; 0 = none. */
  readonly master: number
  /** XDP_ATTACHED_*: 0 none, 1 native, 2 generic, 3 in hardware, 4 in more than one of them */
  readonly xdpMode: number
  /** Of the XDP program; 0 = none, or more than one. */
  readonly xdpProgramId: number
  /** NETDEV_XDP_ACT_* as the driver has them now; undefined below Linux 6.3. */
  readonly xdpFeatures?: number
}

/** A device in a reading of a network namespace. */
export interface NetworkDevice {
  readonly name: string
  readonly ifindex: number
  /** ARPHRD_* of linux/if_arp.h: what its packets begin with. */
  readonly type: number
  /** Up, and with carrier. */
  readonly running: boolean
  /** As inet_ntop writes them, IPv4 first, each family in the kernel's order. */
  readonly addresses: readonly string[]
  /** A unicast default route of the main table leaves by it, in either family. */
  readonly defaultRoute: boolean
}

export interface Native {
  /** Versions and limits of what is linked in. */
  readonly libbpfVersion: string
  possibleCpus(): number
  openObject(path: string): BpfObject
  /** Opens a pinned map, program or link; throws ENOENT when there is none, EINVAL for another kind of object. */
  openMap(path: string): BpfMap
  openProgram(path: string): BpfProgram
  openLink(path: string): BpfLink
  /** `attachType` is enum bpf_attach_type; `cgroup` a directory of cgroup v2. */
  attachCgroup(program: BpfProgram, cgroup: string, attachType: number): BpfLink
  /**
   * tcx (6.6). EINVAL on kernels without it, EEXIST when the program is in this chain
   * already. `position`: before = first in the chain, after = last.
   */
  attachTcx(
    program: BpfProgram,
    ifindex: number,
    direction: 'ingress' | 'egress',
    position: 'before' | 'after',
  ): BpfLink
  /** mode: XDP_FLAGS_* 0 any, 2 generic, 4 driver */
  attachXdp(program: BpfProgram, ifindex: number, mode: number): BpfLink
  /**
   * clsact + cls_bpf in direct action; replaces a filter of the same priority and handle
   * whose program has the same name, throws EEXIST when it has another.
   */
  attachClsact(
    program: BpfProgram,
    ifindex: number,
    direction: 'ingress' | 'egress',
    priority: number,
    handle: number,
  ): void
  /** Removes that filter if it is ours by priority, handle and program name; false when it was not there. */
  detachClsact(
    ifindex: number,
    direction: 'ingress' | 'egress',
    priority: number,
    handle: number,
    programName: string,
  ): boolean
  /** Id, tag and name-less facts of the filter at that place, or undefined. */
  queryClsact(
    ifindex: number,
    direction: 'ingress' | 'egress',
    priority: number,
    handle: number,
  ): { programId: number } | undefined
  /** Program ids attached to a cgroup or device, in order of execution. */
  queryCgroup(cgroup: string, attachType: number): number[]
  queryTcx(ifindex: number, direction: 'ingress' | 'egress'): number[]
  /** A device of the caller's network namespace; undefined when there is none. */
  queryDevice(ifindex: number): DeviceFacts | undefined
  /** Calls `onRecords` on the event loop with one Buffer per wake-up: u32 length (LE) + record, repeated. */
  openRingBuffer(map: BpfMap, onRecords: (records: Uint8Array) => void): Watch
  /**
   * All devices of the caller's network namespace, by index. Beside changes the reading may
   * be of two moments; openNetlinkWatch() tells of those.
   */
  readNetwork(): NetworkDevice[]
  /**
   * Calls `onChange` on the event loop, once a wake-up, when rtnetlink has told of a device,
   * an address or a default route (of any table, either family) in the network namespace of
   * this call, or has lost messages. It does not say what changed.
   */
  openNetlinkWatch(onChange: () => void): Watch
  readBtf(path: string): BtfType[]
  /**
   * Runs `fn` with this thread in the network namespace of `path` and returns its result;
   * fn must be synchronous (a promise as its result is a TypeError). The thread is back in
   * its own namespace however fn ends.
   */
  inNetns<T>(path: string, fn: () => T): T
  /** Inode number of the caller's network namespace or of the one at `path`. */
  netnsInode(path?: string): bigint
  /** What bpf_get_netns_cookie() says of sockets of the caller's network namespace; undefined below Linux 5.14. */
  netnsCookie(): bigint | undefined
  /** 0 when there is no such device in the caller's network namespace. */
  ifNameToIndex(name: string): number
  /**
   * Makes a bpffs at `path` (mode 0700; the folder too, not its parents) unless one is
   * mounted there or the folder is part of one; needs CAP_SYS_ADMIN. ENOTEMPTY for a folder
   * that has anything else in it: a mount would hide that.
   */
  mountBpffs(path: string): void
  /** Creates a map without an object: tests and spare tools. */
  createMap(options: {
    type: number
    name: string
    keySize: number
    valueSize: number
    maxEntries: number
    flags?: number
  }): BpfMap
}
