import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Machine } from '../config/config.js'
import { findCgroup2 } from '../host/proc-net.js'

/** What derived defaults need to know of this machine. */
export function thisMachine(): Machine {
  return { hostname: hostname(), cgroup: findCgroup2(readFileSync('/proc/self/mounts', 'utf8')) }
}
