import { createHash, randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { codeOf } from '../base/errors.js'
import { DaemonError } from './errors.js'

/** Who holds a lock, as it tells those who ask. */
export interface LockOwner {
  readonly pid: number
  readonly version: string
  /** ISO 8601 */
  readonly since: string
}

/** Milliseconds that an owner has to say who it is. */
const ANSWER_MS = 500

/**
 * Keeps two agents from one pin directory: a unix socket in the run directory that its
 * owner listens on. A process that ends, however it ends, stops listening, so a lock
 * never outlives its owner, and whether one lives does not depend on process ids, which
 * mean something else in another container.
 */
export class Lock {
  readonly #path: string
  readonly #server: Server
  readonly #inode: bigint

  private constructor(path: string, server: Server) {
    this.#path = path
    this.#server = server
    this.#inode = statSync(path, { bigint: true }).ino
  }

  /**
   * Takes the lock of `pinDir`.
   *
   * @param key what is the same for all who mean the same pin directory; see {@link lockKey}
   * @throws DaemonError LOCKED when another process holds it, RUN_DIR when the socket cannot be made
   */
  static async acquire(runDir: string, key: string, pinDir: string, version: string): Promise<Lock> {
    const path = join(runDir, `${key}.lock`)
    const own = join(runDir, `${key}.${randomBytes(4).toString('hex')}.new`)
    const owner: LockOwner = { pid: process.pid, version, since: new Date().toISOString() }
    const server = createServer(socket => {
      socket.on('error', () => {})
      socket.end(`${JSON.stringify(owner)}\n`)
    })
    server.unref()
    try {
      mkdirSync(runDir, { recursive: true, mode: 0o700 })
      rmSync(own, { force: true })
      await listen(server, own)
    } catch (cause) {
      throw new DaemonError('RUN_DIR', {
        what: `make the lock ${path}`,
        cause,
        remedy: 'name a short, writable directory with --run-dir',
      })
    }
    try {
      await claim(own, path, pinDir)
    } catch (error) {
      server.close()
      throw error
    } finally {
      rmSync(own, { force: true })
    }
    return new Lock(path, server)
  }

  /** False when somebody removed or replaced the socket: another agent may start. */
  isHeld(): boolean {
    return inodeOf(this.#path) === this.#inode
  }

  release(): void {
    if (this.isHeld()) rmSync(this.#path, { force: true })
    this.#server.close()
  }
}

/**
 * Names a pin directory the same in every mount namespace: the bpffs by its device
 * number, the directory by its path below it.
 *
 * @param bpffs where it is mounted: before that, the number is another file system's
 */
export function lockKey(bpffs: string, pinDir: string): string {
  const device = statSync(bpffs, { bigint: true }).dev
  const below = pinDir.slice(bpffs.replace(/\/+$/, '').length).replace(/\/+/g, '/').replace(/\/$/, '')
  return createHash('sha256').update(`${device}\n${below}`).digest('hex').slice(0, 16)
}

/** Gives `own` the name `path`, unless somebody lives there. */
async function claim(own: string, path: string, pinDir: string): Promise<void> {
  // A few rounds, as others may clear away the same dead socket.
  for (let round = 0; round < 5; round++) {
    try {
      linkSync(own, path)
      return
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error
    }
    const inode = inodeOf(path)
    const owner = await ask(path)
    if (owner !== 'nobody') throw locked(owner, pinDir)
    clearAway(path, inode, `${own}.dead`)
  }
  throw locked('unknown', pinDir)
}

/** Removes a dead socket; if somebody took the name meanwhile, it gets it back. */
function clearAway(path: string, inode: bigint | undefined, aside: string): void {
  try {
    renameSync(path, aside)
    if (inodeOf(aside) !== inode) linkSync(aside, path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'EEXIST') throw error
  } finally {
    rmSync(aside, { force: true })
  }
}

function inodeOf(path: string): bigint | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino
}

function locked(owner: LockOwner | 'unknown', pinDir: string): DaemonError {
  const who = owner === 'unknown' ? 'one that does not answer' : `pid ${owner.pid}, version ${owner.version}`
  return new DaemonError('LOCKED', {
    what: `another waggle (${who}) runs with the pin directory ${pinDir}`,
    remedy: 'stop it first, or give this one another --pin-dir',
  })
}

/** Asks whoever listens at `path`; `nobody` when no process does. */
function ask(path: string): Promise<LockOwner | 'unknown' | 'nobody'> {
  return new Promise(resolve => {
    let text = ''
    const socket = connect(path)
    socket.setTimeout(ANSWER_MS, () => done('unknown'))
    const done = (answer: LockOwner | 'unknown' | 'nobody') => {
      socket.destroy()
      resolve(answer)
    }
    socket.on('error', error => {
      const code = codeOf(error)
      done(code === 'ECONNREFUSED' || code === 'ENOENT' ? 'nobody' : 'unknown')
    })
    socket.on('data', chunk => {
      text += chunk.toString()
    })
    socket.on('end', () => done(parseOwner(text)))
  })
}

function parseOwner(text: string): LockOwner | 'unknown' {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && 'pid' in value && 'version' in value) return value as LockOwner
  } catch {
    // Not one of ours, or cut off: it lives all the same.
  }
  return 'unknown'
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => {
      server.off('error', reject)
      resolve()
    })
  })
}
