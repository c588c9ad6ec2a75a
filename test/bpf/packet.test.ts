import { describe, expect, test } from 'vitest'
import { otherProtocol, parseEndpoint, tcp, udp, wireAddress } from './packet.js'
import { decode } from './packet-decode.js'

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const hello = new TextEncoder().encode('hello')

describe('build', () => {
  test('a TCP SYN over IPv4, byte by byte', () => {
    // Made by hand; both checksums were computed by another program (Python).
    expect(text(tcp('203.0.113.7:40000', '192.168.0.1:30080', 'S'))).toBe(
      '0200000000010200000000990800' +
        '4500002812344000' +
        '40062bebcb007107c0a80001' +
        '9c407580000003e8000000005002faf0a2970000',
    )
  })

  test('a datagram over IPv6, byte by byte', () => {
    expect(text(udp('[2001:db8::7]:5353', '[2001:db8::1]:53', { payload: hello }))).toBe(
      '02000000000102000000009986dd' +
        '60301234000d1140' +
        '20010db8000000000000000000000007' +
        '20010db8000000000000000000000001' +
        '14e90035000d4b6a68656c6c6f',
    )
  })

  test('refuses what is no packet', () => {
    expect(() => tcp('192.0.2.1:1', '[2001:db8::1]:2', 'S')).toThrow('two families')
    expect(() => tcp('192.0.2.1:1', '192.0.2.2:2', 'X')).toThrow('not a TCP flag')
    expect(() => parseEndpoint('192.0.2.1')).toThrow('not an endpoint')
  })

  test('an IPv4-mapped address stays IPv6 on the wire', () => {
    expect(wireAddress('::ffff:192.0.2.1')).toHaveLength(16)
    expect(wireAddress('192.0.2.1')).toHaveLength(4)
  })
})

describe('decode', () => {
  test.each([
    { name: 'TCP IPv4', frame: tcp('192.0.2.1:1000', '192.0.2.2:80', 'SA', { ttl: 9, payload: hello }), ip: 'ok' },
    {
      name: 'TCP IPv6',
      frame: tcp('[2001:db8::1]:1000', '[2001:db8::2]:80', 'SA', { ttl: 9, payload: hello }),
      ip: 'absent',
    },
  ])('$name: what was built', ({ frame, ip }) => {
    const packet = decode(frame)
    expect(packet).toMatchObject({ proto: 'TCP', ttl: 9, flags: 'SA', checksums: { ip, transport: 'ok' } })
    expect(packet.from).toMatch(/:1000$/)
    expect(packet.to).toMatch(/:80$/)
  })

  test('options of IPv4 and TCP move the rest', () => {
    const frame = tcp('192.0.2.1:1000', '192.0.2.2:80', 'S', {
      ipOptions: new Uint8Array([1, 1, 1, 0]),
      tcpOptions: new Uint8Array([2, 4, 5, 180]),
      payload: hello,
    })
    expect(decode(frame)).toMatchObject({
      to: '192.0.2.2:80',
      ipOptions: new Uint8Array([1, 1, 1, 0]),
      checksums: { ip: 'ok', transport: 'ok' },
    })
  })

  test('every flipped bit of the packet is noticed by a checksum', () => {
    const frame = udp('192.0.2.1:1000', '192.0.2.2:80', { payload: hello })
    const ttlAndLengths = new Set([14, 16, 17, 23, 38, 39])
    for (let at = 14; at < frame.length; at++) {
      if (ttlAndLengths.has(at)) continue // the decoder reads these before it sums
      const damaged = Uint8Array.from(frame)
      damaged[at] = (damaged[at] ?? 0) ^ 4
      const { checksums } = decode(damaged)
      expect(`${at} ${checksums.ip} ${checksums.transport}`).toContain('wrong')
    }
  })

  test('a UDP checksum of zero is none, a wrong one wrong', () => {
    expect(decode(udp('192.0.2.1:1', '192.0.2.2:2', { checksum: 'zero' })).checksums.transport).toBe('none')
    expect(decode(udp('192.0.2.1:1', '192.0.2.2:2', { checksum: 'wrong' })).checksums.transport).toBe('wrong')
  })

  test('untouched differs by payload and not by what a dataplane changes', () => {
    const a = decode(tcp('192.0.2.1:1', '192.0.2.2:2', 'A', { payload: hello }))
    expect(decode(tcp('192.0.2.7:9', '192.0.2.8:8', 'A', { payload: hello, ttl: 3 })).untouched).toBe(a.untouched)
    expect(decode(tcp('192.0.2.1:1', '192.0.2.2:2', 'A', { payload: hello.map(b => b ^ 1) })).untouched).not.toBe(
      a.untouched,
    )
    expect(decode(tcp('192.0.2.1:1', '192.0.2.2:2', 'PA', { payload: hello })).untouched).not.toBe(a.untouched)
  })

  test('throws for other protocols', () => {
    expect(() => decode(otherProtocol('192.0.2.1:0', '192.0.2.2:0', 1))).toThrow('neither TCP, UDP nor SCTP')
  })
})
