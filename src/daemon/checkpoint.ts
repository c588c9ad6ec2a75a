import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createGunzip, createGzip } from 'node:zlib'
import type { Cancel, Clock } from '../base/clock.js'
import { codeOf, messageOf } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { WatchedObject } from '../model/objects.js'
import {
  type CheckpointOwner,
  CheckpointUnusable,
  checksumLine,
  headerLine,
  objectLine,
  objectOfLine,
  openCheckpoint,
} from '../state/checkpoint-format.js'

export interface CheckpointOptions {
  readonly dir: string
  readonly owner: CheckpointOwner
  readonly clock: Clock
  readonly logger: Logger
}

/** From the first change until it is written: what follows a start comes in many pieces. */
const FIRST_MS = 5_000
/** Between two writes. */
const PAUSE_MS = 60_000
/** A write that takes long makes the pause longer: a hundredth of the time at most. */
const PAUSE_SHARE = 100
/** Bytes that are made before others have their turn. */
const PIECE = 64 * 1024

/**
 * The objects of the source on disk, so that a node that was booted serves before the API
 * server answers. A file is complete or not there: written beside, synced, renamed.
 */
export class Checkpoint {
  readonly #options: CheckpointOptions
  readonly #file: string
  #objects: (() => Iterable<WatchedObject>) | undefined
  #cancel: Cancel | undefined
  #writing: Promise<void> | undefined
  #notBefore = 0
  #changed = false
  #stopped = false
  #complaint: string | undefined

  constructor(options: CheckpointOptions) {
    this.#options = options
    this.#file = join(options.dir, `${options.owner.node}.checkpoint.gz`)
  }

  /** What an earlier run wrote; empty, with a line in the log, when that cannot be used. Never rejects. */
  async read(): Promise<readonly WatchedObject[]> {
    const { clock, logger, owner } = this.#options
    const began = clock.monotonic()
    try {
      const body = await this.#body()
      const { header, start, end } = openCheckpoint(body, owner, length => sha256(body.subarray(0, length)))
      const objects = await objectsOf(body.subarray(start, end))
      if (objects.length !== header.objects) throw new CheckpointUnusable('objects are missing')
      const ms = Math.round(clock.monotonic() - began)
      logger.info('read the checkpoint', { file: this.#file, objects: objects.length, written: header.written, ms })
      return objects
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return []
      const reason = error instanceof CheckpointUnusable ? error.message : messageOf(error)
      logger.warn('the checkpoint is not used; Services wait for the API server', { file: this.#file, reason })
      return []
    }
  }

  /** The state changed; it is written soon, and not more often than once a minute. */
  changed(objects: () => Iterable<WatchedObject>): void {
    this.#objects = objects
    this.#changed = true
    this.#arm()
  }

  /** Writes what is not written yet, and nothing after that. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
    await this.#writing
    if (this.#changed) await this.#write()
  }

  #arm(): void {
    if (this.#stopped || this.#cancel !== undefined || this.#writing !== undefined) return
    const { clock } = this.#options
    const wait = Math.max(FIRST_MS, this.#notBefore - clock.monotonic())
    this.#cancel = clock.after(wait, () => {
      this.#cancel = undefined
      this.#writing = this.#write().finally(() => {
        this.#writing = undefined
        if (this.#changed) this.#arm()
      })
    })
  }

  async #write(): Promise<void> {
    const { clock, logger, owner } = this.#options
    const began = clock.monotonic()
    this.#changed = false
    try {
      // Objects are never changed, so the list of them is the state of this moment.
      const objects = [...(this.#objects?.() ?? [])]
      await mkdir(dirname(this.#file), { recursive: true, mode: 0o700 })
      const bytes = await writeAtomically(this.#file, lines(owner, clock.wall(), objects))
      logger.debug('wrote the checkpoint', {
        objects: objects.length,
        bytes,
        ms: Math.round(clock.monotonic() - began),
      })
      if (this.#complaint !== undefined) logger.info('the checkpoint can be written again', { file: this.#file })
      this.#complaint = undefined
    } catch (error) {
      const reason = messageOf(error)
      if (reason !== this.#complaint) {
        const remedy = 'make the directory writable, or set --checkpoint-dir none'
        logger.warn('the checkpoint cannot be written', { file: this.#file, reason, remedy })
      }
      this.#complaint = reason
      this.#changed = true
    }
    const ms = clock.monotonic() - began
    this.#notBefore = clock.monotonic() + Math.max(PAUSE_MS, PAUSE_SHARE * ms)
  }

  async #body(): Promise<Buffer> {
    const chunks: Buffer[] = []
    const file = createReadStream(this.#file)
    const unpacked = file.pipe(createGunzip())
    file.on('error', error => unpacked.destroy(error))
    for await (const chunk of unpacked) chunks.push(chunk)
    return Buffer.concat(chunks)
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** All lines, in pieces. */
function* lines(owner: CheckpointOwner, now: Date, objects: readonly WatchedObject[]): Generator<Buffer> {
  const sum = createHash('sha256')
  let piece = headerLine(owner, now, objects.length)
  for (const object of objects) {
    piece += objectLine(object)
    if (piece.length < PIECE) continue
    const bytes = Buffer.from(piece)
    sum.update(bytes)
    yield bytes
    piece = ''
  }
  sum.update(piece)
  yield Buffer.from(piece + checksumLine(sum.digest('hex')))
}

/** Packs and writes `pieces`; returns the bytes on disk. After a crash the old file is there, or the new one. */
async function writeAtomically(file: string, pieces: Iterable<Buffer>): Promise<number> {
  const beside = `${file}.new`
  const handle = await open(beside, 'w', 0o600)
  let bytes = 0
  try {
    const packer = createGzip({ level: 1 })
    const done = drain(packer, handle).then(written => {
      bytes = written
    })
    for (const piece of pieces) {
      if (!packer.write(piece)) await Promise.race([once(packer, 'drain'), done])
      await new Promise(resolve => setImmediate(resolve))
    }
    packer.end()
    await done
    await handle.sync()
  } catch (error) {
    await handle.close()
    await rm(beside, { force: true })
    throw error
  }
  await handle.close()
  await rename(beside, file)
  const folder = await open(dirname(file), 'r')
  await folder.sync().finally(() => folder.close())
  return bytes
}

async function drain(from: AsyncIterable<Buffer>, to: FileHandle): Promise<number> {
  let bytes = 0
  for await (const chunk of from) {
    await to.writeFile(chunk)
    bytes += chunk.length
  }
  return bytes
}

/** The objects of lines, with pauses for other work. */
async function objectsOf(body: Buffer): Promise<WatchedObject[]> {
  const objects: WatchedObject[] = []
  for (let start = 0; start < body.length; ) {
    const end = body.indexOf('\n', start)
    objects.push(objectOfLine(body.toString('utf8', start, end < 0 ? body.length : end)))
    start = end < 0 ? body.length : end + 1
    if (objects.length % 500 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  return objects
}
