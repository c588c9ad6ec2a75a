/** enum bpf_map_type, _prog_type, _attach_type, _link_type, as far as used here. */
export const MapType = { hash: 1, array: 2, percpuHash: 5, percpuArray: 6, lruHash: 9, lpmTrie: 11, queue: 22 } as const
export const ProgramType = { schedCls: 3, xdp: 6, cgroupSockAddr: 18 } as const
export const AttachType = { connect4: 10, connect6: 11 } as const
export const LinkType = { cgroup: 3, xdp: 6, tcx: 11 } as const
