import dgram from 'node:dgram'
import type { LoadOptions } from './target.js'
import { type Answer, AttemptError, parseAnswer } from './tcp.js'

/** A UDP socket that asks the echo service one question at a time. */
export class UdpAsker {
  readonly #options: LoadOptions
  readonly #connected: boolean
  #socket: dgram.Socket | undefined

  /** `connected`: connect() and send(); otherwise sendto(). */
  constructor(options: LoadOptions, connected: boolean) {
    this.#options = options
    this.#connected = connected
  }

  /** A failure closes the socket; the next attempt opens another. */
  async attempt(): Promise<Answer> {
    try {
      this.#socket ??= await this.#open()
      return parseAnswer(await this.#ask(this.#socket))
    } catch (error) {
      this.close()
      throw error
    }
  }

  close(): void {
    this.#socket?.close()
    this.#socket = undefined
  }

  #open(): Promise<dgram.Socket> {
    const { address, port } = this.#options
    return new Promise((resolve, reject) => {
      const socket = dgram.createSocket(address.includes(':') ? 'udp6' : 'udp4')
      const fail = (error: Error) => {
        socket.close()
        reject(error)
      }
      socket.once('error', fail)
      socket.bind(0, () => {
        const ready = () => {
          socket.off('error', fail)
          resolve(socket)
        }
        if (!this.#connected) return ready()
        socket.connect(port, address, ((error?: Error) => (error ? fail(error) : ready())) as () => void)
      })
    })
  }

  #ask(socket: dgram.Socket): Promise<string> {
    const { address, port, timeoutMs } = this.#options
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(timer)
        socket.removeAllListeners('message').removeAllListeners('error')
        act()
      }
      const timer = setTimeout(() => settle(() => reject(new AttemptError('TIMEOUT'))), timeoutMs)
      const fail = (error: Error | null) => {
        if (error) settle(() => reject(error))
      }
      socket.on('error', fail)
      socket.on('message', (message, from) => {
        // The reply must come from the address that was asked.
        if (from.address !== address || from.port !== port) fail(new AttemptError('WRONG_SOURCE'))
        else settle(() => resolve(message.toString()))
      })
      if (this.#connected) socket.send('?', fail)
      else socket.send('?', port, address, fail)
    })
  }
}
