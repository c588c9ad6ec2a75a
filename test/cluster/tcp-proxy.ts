import { connect, createServer, type Socket } from 'node:net'

/** A TCP relay to a port of this machine that can be cut, and can swallow what passes. */
export class TcpProxy {
  readonly #server
  readonly #target: number
  readonly #sockets = new Set<Socket>()
  #refusing = false
  #silent = false

  constructor(target: number) {
    this.#target = target
    this.#server = createServer(client => this.#relay(client))
  }

  async listen(): Promise<this> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    return this
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port
  }

  get connections(): number {
    return this.#sockets.size / 2
  }

  /** Resets all connections and, until `mend`, each new one. */
  cut(): void {
    this.#refusing = true
    this.reset()
  }

  mend(): void {
    this.#refusing = false
    this.#silent = false
  }

  /** Resets all connections that exist now. */
  reset(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  /** Keeps connections open and passes nothing on, either way. */
  silence(): void {
    this.#silent = true
  }

  async close(): Promise<void> {
    this.cut()
    await new Promise(resolve => this.#server.close(resolve))
  }

  #relay(client: Socket): void {
    if (this.#refusing) {
      client.resetAndDestroy()
      return
    }
    const upstream = connect(this.#target, '127.0.0.1')
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(from)
      from.on('data', chunk => {
        if (!this.#silent) to.write(chunk)
      })
      from.on('end', () => to.end())
      from.on('error', () => to.resetAndDestroy())
      from.on('close', () => {
        this.#sockets.delete(from)
        to.destroy()
      })
    }
  }
}
