import net from 'node:net'
import { isPattern } from '../echo/pattern.js'
import type { LoadOptions } from './target.js'

/** Who answered, and which peer address it saw. */
export interface Answer {
  readonly name: string
  readonly peer: string
}

/** A failed attempt; `code` is what {@link LoadResult.errors} counts. */
export class AttemptError extends Error {
  readonly code: string
  constructor(code: string) {
    super(code)
    this.code = code
  }
}

/** The echo line in `text`, or a BAD_ANSWER. */
export function parseAnswer(text: string): Answer {
  try {
    const { name, peer } = JSON.parse(text)
    if (typeof name === 'string' && typeof peer === 'string') return { name, peer }
  } catch {
    // Said below.
  }
  throw new AttemptError('BAD_ANSWER')
}

/** One connection, one request, closed by the server: HTTP/1.0 by hand, since that is the fastest. */
export function tcpAttempt(options: LoadOptions): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: options.address, port: options.port })
    const body = options.bytes > 0 ? new Download(options.bytes) : new Line()
    const timer = setTimeout(() => socket.destroy(new AttemptError('TIMEOUT')), options.timeoutMs)
    socket.on('error', error => {
      clearTimeout(timer)
      reject(error)
    })
    socket.on('connect', () => socket.write(`GET ${body.path(options)} HTTP/1.0\r\n\r\n`))
    socket.on('data', chunk => {
      try {
        body.take(chunk)
      } catch (error) {
        socket.destroy(error as Error)
      }
    })
    socket.on('end', () => {
      clearTimeout(timer)
      try {
        resolve(body.answer())
      } catch (error) {
        reject(error)
      }
    })
  })
}

class Line {
  #text = ''

  path(): string {
    return '/'
  }

  take(chunk: Buffer): void {
    this.#text += chunk.toString('latin1')
  }

  answer(): Answer {
    return parseAnswer(this.#text.slice(this.#text.indexOf('\r\n\r\n') + 4))
  }
}

/** Checks a download byte by byte without keeping it. */
class Download {
  readonly #want: number
  #head = ''
  #inBody = false
  #got = 0

  constructor(bytes: number) {
    this.#want = bytes
  }

  path(options: LoadOptions): string {
    return `/bytes?n=${options.bytes}&rate=${options.rate}`
  }

  take(chunk: Buffer): void {
    if (!this.#inBody) {
      this.#head += chunk.toString('latin1')
      const end = this.#head.indexOf('\r\n\r\n')
      if (end < 0) return
      this.#inBody = true
      chunk = Buffer.from(this.#head.slice(end + 4), 'latin1')
    }
    if (!isPattern(chunk, this.#got)) throw new AttemptError('CORRUPT')
    this.#got += chunk.length
  }

  answer(): Answer {
    if (this.#got !== this.#want) throw new AttemptError('SHORT')
    return { name: this.#header('x-echo-name'), peer: this.#header('x-echo-peer') }
  }

  #header(name: string): string {
    return new RegExp(`^${name}: *(.*)\\r$`, 'im').exec(this.#head)?.[1] ?? ''
  }
}

/** One connection for many requests. */
export class TcpKeeper {
  readonly #options: LoadOptions
  #socket: net.Socket | undefined

  constructor(options: LoadOptions) {
    this.#options = options
  }

  async attempt(): Promise<Answer> {
    return parseAnswer(await this.#ask())
  }

  #ask(): Promise<string> {
    return new Promise((resolve, reject) => {
      const { address, port, timeoutMs } = this.#options
      const socket = this.#socket ?? net.connect({ host: address, port })
      this.#socket = socket
      let text = ''
      const settle = (act: () => void) => {
        clearTimeout(timer)
        socket.removeAllListeners()
        act()
      }
      const fail = (error: Error) =>
        settle(() => {
          this.close()
          reject(error)
        })
      const timer = setTimeout(() => fail(new AttemptError('TIMEOUT')), timeoutMs)
      socket.on('error', fail)
      socket.on('close', () => fail(new AttemptError('SHORT')))
      socket.on('data', chunk => {
        text += chunk.toString('latin1')
        // Answers are one line each, and no header of the server contains a brace.
        const line = /\{.*\}\n/.exec(text)?.[0]
        if (line) settle(() => resolve(line))
      })
      socket.write('GET / HTTP/1.1\r\nHost: echo\r\nConnection: keep-alive\r\n\r\n')
    })
  }

  close(): void {
    this.#socket?.on('error', () => {
      // Nobody waits for an answer any more.
    })
    this.#socket?.destroy()
    this.#socket = undefined
  }
}
