import { readFileSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { messageOf } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { Machine } from '../config/config.js'
import { findCgroup2 } from '../host/proc-net.js'

/** What derived defaults need to know of this machine. */
export function thisMachine(): Machine {
  return { hostname: hostname(), cgroup: findCgroup2(readFileSync('/proc/self/mounts', 'utf8')) }
}

/** How gladly the kernel ends this process when memory runs out; not being allowed to say so is no reason to end. */
export function setOomScore(score: number, logger: Logger, file = '/proc/self/oom_score_adj'): void {
  try {
    writeFileSync(file, String(score))
  } catch (error) {
    const remedy = 'give it CAP_SYS_RESOURCE, or leave --oom-score-adj out'
    logger.warn('cannot set the OOM score', { score, error: messageOf(error), remedy })
  }
}
