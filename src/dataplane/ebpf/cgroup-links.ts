import { statSync } from 'node:fs'
import { codeOf, messageOf } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { BpfLink, BpfProgram, Native } from '../../ebpf/native.js'
import type { SockHook } from '../../ebpf/sock-hooks.js'
import type { Pins } from './pins.js'

/**
 * Our links on one cgroup. Each is pinned under its program's name, so it goes on working
 * without us and is found again; others' links are not looked at.
 */
export class CgroupLinks {
  readonly #native: Native
  readonly #pins: Pins
  readonly #cgroup: string
  readonly #programs: ReadonlyMap<string, BpfProgram>
  readonly #logger: Logger

  constructor(native: Native, pins: Pins, cgroup: string, programs: ReadonlyMap<string, BpfProgram>, logger: Logger) {
    this.#native = native
    this.#pins = pins
    this.#cgroup = cgroup
    this.#programs = programs
    this.#logger = logger
  }

  /** Makes the hook run our loaded program: an existing link is updated in place. */
  attach(hook: SockHook): void {
    const program = this.#program(hook)
    const existing = openLink(this.#native, this.#pins, hook.program)
    if (existing) {
      try {
        if (existing.info.cgroupId === this.#cgroupId()) {
          existing.update(program)
          return
        }
        detachIfAlive(existing)
        this.#pins.remove('links', hook.program)
      } finally {
        existing.close()
      }
    }
    const link = this.#native.attachCgroup(program, this.#cgroup, hook.attachType)
    try {
      link.pin(this.#pins.path('links', hook.program))
    } finally {
      link.close()
    }
  }

  /** Takes our program off the hook; harmless when it is not there. */
  detach(hook: SockHook): void {
    const link = openLink(this.#native, this.#pins, hook.program)
    if (!link) return
    try {
      detachIfAlive(link)
    } finally {
      link.close()
    }
    this.#pins.remove('links', hook.program)
  }

  isPinned(hook: SockHook): boolean {
    return this.#pins.exists('links', hook.program)
  }

  /** Attaches again what somebody took off; returns the programs' names. */
  repair(hooks: readonly SockHook[]): string[] {
    const restored: string[] = []
    for (const hook of hooks) {
      const attached = this.#native.queryCgroup(this.#cgroup, hook.attachType)
      if (attached.includes(this.#program(hook).info.id)) continue
      this.#logger.warn('program was detached by somebody else, attaching it again', { program: hook.program })
      this.#pins.remove('links', hook.program)
      try {
        this.attach(hook)
        restored.push(hook.program)
      } catch (error) {
        this.#logger.error('cannot attach a program', { program: hook.program, error: messageOf(error) })
      }
    }
    return restored
  }

  #program(hook: SockHook): BpfProgram {
    const program = this.#programs.get(hook.program)
    if (!program) throw new TypeError(`no program ${hook.program} in the objects`)
    return program
  }

  /** The kernel's id of a cgroup is the inode number of its directory. */
  #cgroupId(): number {
    return statSync(this.#cgroup).ino
  }
}

/** A pinned link, or undefined. */
export function openLink(native: Native, pins: Pins, name: string): BpfLink | undefined {
  try {
    return native.openLink(pins.path('links', name))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Detaches; a link whose device or cgroup is gone has nothing left to detach. */
export function detachIfAlive(link: BpfLink): void {
  try {
    link.detach()
  } catch (error) {
    if (codeOf(error) !== 'ENOLINK' && codeOf(error) !== 'ENODEV') throw error
  }
}
