import { createHash } from 'node:crypto'
import dgram from 'node:dgram'
import http from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { patternAt } from './pattern.js'

/**
 * The echo service of a pod: `echo.mjs NAME [PORT]`, TCP (HTTP) and UDP, both families.
 * Every answer is one JSON line that says who answered and which peer was seen.
 *
 *   GET  /                     the line
 *   GET  /bytes?n=N[&rate=R]   N bytes of the pattern, R bytes a second
 *   POST /upload               the line with `bytes` and `sha256` of the body
 *
 * A connection closes after its answer unless the request says `Connection: keep-alive`.
 */

const name = process.argv[2] ?? 'echo'
const port = Number(process.argv[3] ?? 8080)
let connections = 0
const serials = new WeakMap<Socket, number>()

/** ::ffff:10.0.0.1 is how a dual-stack socket shows an IPv4 address. */
const plain = (address = '') => (address.startsWith('::ffff:') ? address.slice(7) : address)

function line(socket: Socket, more: object = {}): string {
  return `${JSON.stringify({
    name,
    proto: 'TCP',
    peer: plain(socket.remoteAddress),
    peerPort: socket.remotePort,
    local: plain(socket.localAddress),
    localPort: socket.localPort,
    connection: serials.get(socket),
    ...more,
  })}\n`
}

async function sendPattern(response: http.ServerResponse, bytes: number, rate: number): Promise<void> {
  const perStep = rate > 0 ? Math.max(1, Math.floor(rate / 50)) : 65_521
  const started = performance.now()
  for (let sent = 0; sent < bytes && !response.destroyed; ) {
    const chunk = patternAt(sent, Math.min(perStep, bytes - sent))
    sent += chunk.length
    // A copy: the stream keeps what it is given until the peer has taken it.
    if (!response.write(Buffer.from(chunk))) {
      await new Promise<void>(resolve => {
        response.once('drain', resolve)
        response.once('close', resolve)
      })
    }
    const ahead = rate > 0 ? (sent / rate) * 1000 - (performance.now() - started) : 0
    if (ahead > 0) await sleep(ahead)
  }
  response.end()
}

async function answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  response.shouldKeepAlive = request.headers.connection?.toLowerCase() === 'keep-alive'
  const url = new URL(request.url ?? '/', 'http://echo')
  if (url.pathname === '/bytes') {
    const bytes = Number(url.searchParams.get('n') ?? 0)
    response.setHeader('content-length', bytes)
    response.setHeader('x-echo-name', name)
    response.setHeader('x-echo-peer', plain(request.socket.remoteAddress))
    return sendPattern(response, bytes, Number(url.searchParams.get('rate') ?? 0))
  }
  if (url.pathname === '/upload') {
    const hash = createHash('sha256')
    let bytes = 0
    for await (const chunk of request as AsyncIterable<Buffer>) {
      hash.update(chunk)
      bytes += chunk.length
    }
    response.end(line(request.socket, { bytes, sha256: hash.digest('hex') }))
    return
  }
  response.end(line(request.socket))
}

const server = http.createServer((request, response) => {
  answer(request, response).catch(error => response.destroy(error))
})
server.keepAliveTimeout = 600_000
server.requestTimeout = 0
server.on('connection', socket => serials.set(socket, ++connections))
server.listen({ host: '::', port, backlog: 4096 })

const udp = dgram.createSocket({ type: 'udp6', recvBufferSize: 4 << 20 })
udp.on('message', (_, from) => {
  const reply = { name, proto: 'UDP', peer: plain(from.address), peerPort: from.port }
  udp.send(`${JSON.stringify(reply)}\n`, from.port, from.address, () => {
    // The asker may be gone (ECONNREFUSED, EHOSTUNREACH); the next one is served all the same.
  })
})
udp.bind({ address: '::', port })
