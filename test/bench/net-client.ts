import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import type { Sample } from './result.js'
import { CLIENT_CPU, SERVER_CPU, type World } from './world.js'

/** What a client does once a step; see netclient.c. */
export type Step = 'tcp' | 'udp' | 'datagram' | 'crr' | 'rr' | 'flood'

/** Nanoseconds a step. */
export interface Timing extends Sample {
  readonly mean: number
}

export interface Target {
  /** First of `span` addresses; each step takes a random one. */
  readonly address: string
  readonly port: number
  readonly span: number
}

/** A netclient process in a network namespace: one line in, one line out. */
class NetProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>
  readonly #lines: AsyncIterator<string>

  constructor(world: World, binary: string, netns: string, args: readonly string[]) {
    this.#child = spawn('nsenter', [`--net=/run/netns/${world.netnsName(netns)}`, binary, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#lines = createInterface(this.#child.stdout)[Symbol.asyncIterator]()
    world.later(() => this.#child.kill('SIGKILL'))
  }

  async stop(): Promise<void> {
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await gone
  }

  async line(): Promise<string> {
    const { value, done } = await this.#lines.next()
    if (done) throw new Error('netclient ended early')
    return value
  }

  async ask(command: string): Promise<string> {
    this.#child.stdin.write(`${command}\n`)
    const answer = await this.line()
    if (answer.startsWith('error')) throw new Error(`${command}: ${answer}`)
    return answer
  }
}

export class TimingClient {
  readonly #process: NetProcess
  #cgroup = ''

  constructor(world: World, binary: string, netns: string, cpu = CLIENT_CPU) {
    this.#process = new NetProcess(world, binary, netns, ['time', String(cpu)])
  }

  stop(): Promise<void> {
    return this.#process.stop()
  }

  /** Sockets made from now on belong to this cgroup. */
  async moveTo(cgroup: string): Promise<void> {
    if (this.#cgroup === cgroup) return
    await this.#process.ask(`cgroup ${cgroup}`)
    this.#cgroup = cgroup
  }

  /** Times `count` steps; nanoseconds a step. Throws when one fails. */
  async time(step: Step, { address, port, span }: Target, count: number): Promise<Timing> {
    return timingOf(await this.#process.ask(`${step} ${address} ${port} ${span} ${count}`))
  }

  /**
   * Hands `count` copies of a UDP frame to a device, in turn of `flows` flows (1-65536) that
   * differ in their source port; nanoseconds a frame, with all that becomes of it on this CPU.
   */
  async frames(device: string, frame: Uint8Array, flows: number, count: number): Promise<Timing> {
    const hex = Buffer.from(frame).toString('hex')
    return timingOf(await this.#process.ask(`frames ${device} ${flows} ${count} ${hex}`))
  }
}

function timingOf(answer: string): Timing {
  const [p50 = Number.NaN, p99 = Number.NaN, mean = Number.NaN] = answer.split(' ').map(Number)
  return { p50, p99, mean }
}

export class EchoServer {
  readonly #process: NetProcess

  private constructor(process: NetProcess) {
    this.#process = process
  }

  /**
   * TCP and UDP on `port` of every address of the namespace. `pauseUs` 0 = it waits for what
   * comes; otherwise it looks that often, and nobody pays for waking it.
   */
  static async start(
    world: World,
    binary: string,
    netns: string,
    port: number,
    pauseUs: number,
    cpu = SERVER_CPU,
  ): Promise<EchoServer> {
    const process = new NetProcess(world, binary, netns, ['serve', String(cpu), String(port), String(pauseUs)])
    await process.line()
    return new EchoServer(process)
  }

  stop(): Promise<void> {
    return this.#process.stop()
  }

  /** Datagrams received since the start. */
  async received(): Promise<number> {
    return Number(await this.#process.ask('count'))
  }
}
