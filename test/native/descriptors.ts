import { readdirSync, readlinkSync } from 'node:fs'

/** Descriptors of this process that the kernel calls BPF. */
export function bpfDescriptors(): number {
  return readdirSync('/proc/self/fd').filter(fd => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('anon_inode:bpf')
    } catch {
      return false // closed since: the listing's own, or a child's pipe
    }
  }).length
}
