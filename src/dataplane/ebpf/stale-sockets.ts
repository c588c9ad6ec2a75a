import { messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import { backend, backendStats } from '../../ebpf/generated/layouts.js'
import { SOCK_EGRESS_HOOK } from '../../ebpf/sock-hooks.js'
import type { CgroupLinks } from './cgroup-links.js'
import type { KernelMaps } from './kernel-maps.js'

/**
 * Ends the UDP sockets that are connected to a removed backend: while such sockets live,
 * a program at the cgroup's egress refuses their datagrams to that backend (EPERM), so
 * that the sender connects anew. It is attached only that long: 50-70 ns for each packet
 * of every other socket. TCP sockets are left to their peers.
 */
export class StaleSockets {
  readonly #maps: KernelMaps
  readonly #links: CgroupLinks
  readonly #logger: Logger
  readonly #watched = new Set<number>()

  constructor(maps: KernelMaps, links: CgroupLinks, logger: Logger) {
    this.#maps = maps
    this.#links = links
    this.#logger = logger
  }

  /** Connected UDP sockets of this node that point at the backend. */
  live(index: number): number {
    const { backendStats: stats } = this.#maps
    return Number(stats.loadWord(index, backendStats.offsets.udpLive))
  }

  /** A backend was retired: from now on its sockets are refused. */
  watch(index: number): void {
    if (this.live(index) === 0) return
    this.#watched.add(index)
    this.#attach()
  }

  /** Finds what an earlier run left: sockets on backends that belong to no service. */
  adopt(): void {
    const { backends } = this.#maps
    for (let index = 1; index < backends.length; index++) {
      if (this.live(index) === 0) continue
      const owner = backends.view.getUint32(backends.offset(index) + backend.offsets.service, true)
      if (owner === 0) this.#watched.add(index)
    }
    if (this.#watched.size > 0) this.#attach()
    else this.#links.detach(SOCK_EGRESS_HOOK)
  }

  /** Takes the program off once the last such socket is closed. */
  check(): void {
    if (this.#watched.size === 0) return
    for (const index of this.#watched) if (this.live(index) === 0) this.#watched.delete(index)
    if (this.#watched.size > 0) {
      this.#attach()
      return
    }
    this.#links.detach(SOCK_EGRESS_HOOK)
    this.#logger.info('no socket is left on a removed backend', { program: SOCK_EGRESS_HOOK.program })
  }

  #attach(): void {
    if (this.#links.isPinned(SOCK_EGRESS_HOOK)) return
    try {
      this.#links.attach(SOCK_EGRESS_HOOK)
      this.#logger.info('refusing datagrams to removed backends', { backends: this.#watched.size })
    } catch (error) {
      this.#logger.error('cannot end sockets on removed backends', { error: messageOf(error) })
    }
  }
}
