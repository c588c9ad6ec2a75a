import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Codec } from '../../src/ebpf/codec.js'
import * as layouts from '../../src/ebpf/generated/layouts.js'
import { loadNative } from '../../src/ebpf/load-native.js'
import type { BpfObject } from '../../src/ebpf/native.js'
import { describeSockets } from './sock-rig.js'

/**
 * The codecs against the compiler: for each struct one BPF program reads what TypeScript
 * wrote, field by field, and another writes what TypeScript then reads. Both are made
 * from the samples below; nothing here is taken from the generator.
 */

type Value = number | bigint | string | Uint8Array | readonly Value[] | { readonly [field: string]: Value }
interface Sample {
  readonly codec: Codec<never>
  readonly value: { readonly [field: string]: Value }
  /** Reserved fields: C must see zero in them. */
  readonly zero: readonly string[]
}

const address = (first: number) => Uint8Array.from({ length: 16 }, (_, i) => first + i)
const tuple = { src: address(1), dst: address(101), sport: 40001, dport: 443, proto: 6 }
const peer = {
  frontendAddr: address(3),
  backendAddr: address(60),
  frontendPort: 5353,
  backendPort: 8053,
  backend: 0x01020304,
  generation: 0x05060708,
  service: 0x090a0b0c,
  proto: 17,
  counted: 1,
}

const flatBase = { control: 1n << 60n, backend: 0x01020304, generation: 0x0506, flags: 7, proto: 17 }

const sample = (codec: unknown, value: Sample['value'], ...zero: string[]): Sample => ({
  codec: codec as Codec<never>,
  value,
  zero,
})

const SAMPLES: readonly Sample[] = [
  sample(layouts.frontend4Key, { addr: 0x0a010203, port: 53, proto: 17 }, 'zero'),
  sample(layouts.frontend6Key, { addr: address(9), port: 65535, proto: 6 }, 'zero'),
  sample(layouts.sourceRangeKey, { prefix: 152, service: 0xdeadbeef, addr: address(9) }),
  sample(layouts.frontend, { service: 0xdeadbeef, kind: 4, flags: 1 }, 'zero'),
  sample(
    layouts.service,
    { cluster: 0x0102030405060708n, local: 2n ** 64n - 1n, affinityS: 86400, scheduler: 1, flags: 3 },
    'zero',
    'spare',
  ),
  sample(layouts.slotBlock, { words: Array.from({ length: 16 }, (_, i) => 0x10000 * i + 7) }),
  sample(
    layouts.backend,
    { addr: address(33), port: 8080, flags: 7, generation: 0x11223344, service: 77, weight: 100 },
    'zero',
  ),
  sample(layouts.serviceName, { namespace: 'n'.repeat(63), name: 'web', port: '', proto: 6, family: 4 }, 'zero'),
  sample(layouts.serviceStats, { opened: 1n << 40n, refused: 2n, rrCursor: 3n }),
  sample(layouts.backendStats, { opened: 4n, udpLive: 1n << 63n, tcpLive: 6n }, 'spare'),
  sample(layouts.outcomeStats, { packets: 5n, bytes: 6n }),
  sample(layouts.affinityKey, { client: address(70), service: 8, byCookie: 1 }),
  sample(layouts.affinity, { seenNs: 1n << 50n, backend: 9, generation: 10 }),
  sample(layouts.tuple, tuple, 'zero'),
  sample(
    layouts.flow,
    {
      to: tuple,
      seenNs: 1n << 33n,
      backend: 11,
      generation: 12,
      service: 13,
      slot: 14,
      direction: 2,
      flags: 3,
      sent: 5,
      heard: 7,
    },
    'zero',
    'to.zero',
  ),
  sample(layouts.flatSecret, { words: Array.from({ length: 10 }, (_, i) => (1n << 60n) + BigInt(i)) }),
  sample(layouts.flatBucket, { elsewhere: 3, words: Array.from({ length: 7 }, (_, i) => 0x01010101 * (i + 1)) }),
  sample(layouts.flatRecord4, {
    base: flatBase,
    client: { src: 0x0a010203, dst: 0x0a040506, sport: 40000, dport: 80 },
    backend: { src: 0x0a070809, dst: 0x0a0b0c0d, sport: 8080, dport: 1024 },
  }),
  sample(layouts.flatRecord6, {
    base: flatBase,
    client: { src: address(1), dst: address(30), sport: 40000, dport: 80 },
    backend: { src: address(60), dst: address(90), sport: 8080, dport: 1024 },
  }),
  sample(
    layouts.icmpQuote,
    { tuple, to: tuple, ip: 0x01020304, l4: 0x05060708, diff: 0xdeadbeef, ipCheck: 0x1122, check: 0x3344 },
    'tuple.zero',
    'to.zero',
  ),
  sample(layouts.flowSlot, { key: tuple, claimed: 0xfedcba98 }, 'zero', 'key.zero'),
  sample(layouts.flowHand, { next: 1n << 40n, swept: 3n, crowded: 1n }),
  sample(layouts.flowStats, { evicted: 1n, snatFlows: 2n << 40n, snatTries: 3n, snatDueNs: 1n << 50n }),
  sample(layouts.fragmentKey, { src: address(9), dst: address(90), id: 0x01020304, proto: 17, slot: 3 }, 'zero'),
  sample(layouts.fragment, {
    seenNs: 1n << 50n,
    sport: 40000,
    dport: 53,
    size: 1480,
    proto: 17,
    ignore: 1,
    backend: 77,
  }),
  sample(
    layouts.heldFragment,
    { seenNs: 1n << 50n, size: 1514, frame: Array.from({ length: 1600 }, (_, i) => i & 255) },
    'zero',
  ),
  sample(layouts.replyState, { dueNs: 1n << 50n, words: Array.from({ length: 64 }, (_, i) => i * 0x01010101) }),
  sample(
    layouts.route,
    {
      to: tuple,
      untilNs: 1n << 50n,
      cameBy: 7,
      ifindex: 0xdeadbeef,
      next: Array.from({ length: 16 }, (_, i) => 0xf0 + i),
      toMac: [2, 3, 4, 5, 6, 7],
      fromMac: [8, 9, 10, 11, 12, 13],
      mtu: 9001,
      family: 10,
    },
    'zero',
    'to.zero',
  ),
  sample(layouts.device, { addr4: address(80), addr6: address(200), mac: [2, 3, 4, 5, 6, 7], takesFrames: 3, xdp: 2 }),
  sample(layouts.sockPeer, peer, 'zero'),
  sample(layouts.sockPlace, { cookie: 0x1122334455667788n, mark: peer }, 'mark.zero'),
  sample(layouts.udpPeerKey, { cookie: 0x1122334455667788n, addr: address(40), port: 1053, backend: 1 }, 'zero'),
]

// --- C from the samples ------------------------------------------------------

/** Fields in network order, as bpf/layout declares them; ip_addr is handled as an address. */
const BIG16 = /(^|\.|_)(port|sport|dport)$/
const isBig32 = (struct: string, field: string) =>
  (struct === 'frontend4_key' && field === 'addr') ||
  (struct === 'fragment_key' && field === 'id') ||
  (struct === 'flat_record4' && /\.(src|dst)$/.test(field))

const snake = (name: string) => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

/** One scalar of C and the value it must have, as an expression. */
interface Scalar {
  readonly field: string
  readonly text: string
}

function scalars(struct: string, path: string, value: Value): Scalar[] {
  if (value instanceof Uint8Array) {
    const view = new DataView(value.buffer)
    return [0, 1, 2, 3].map(i => ({ field: `${path}.w[${i}]`, text: `bpf_htonl(${view.getUint32(4 * i)}u)` }))
  }
  if (typeof value === 'string') {
    const codes = [...value, '\0'].map(letter => letter.charCodeAt(0))
    return codes.map((code, i) => ({ field: `${path}[${i}]`, text: String(code) }))
  }
  if (Array.isArray(value)) return value.map((each, i) => ({ field: `${path}[${i}]`, text: `${each}u` }))
  if (typeof value === 'object') {
    return Object.entries(value as Record<string, Value>).flatMap(([name, each]) =>
      scalars(struct, path ? `${path}.${snake(name)}` : snake(name), each),
    )
  }
  if (typeof value === 'bigint') return [{ field: path, text: `${value}ull` }]
  if (isBig32(struct, path)) return [{ field: path, text: `bpf_htonl(${value}u)` }]
  return [{ field: path, text: BIG16.test(path) ? `bpf_htons(${value})` : `${value}u` }]
}

/** The reader returns 0, or the position (from 1) of the first field that is wrong. */
function programs({ codec, value, zero }: Sample): string {
  const fields = scalars(codec.name, '', value)
  const isReserved = zero.map(name => `nonzero(&value->${name}, sizeof(value->${name}))`)
  const checks = [...fields.map(({ field, text }) => `value->${field} != ${text}`), ...isReserved]
  const frame = (name: string, body: string[]) => `
SEC("xdp")
int ${name}(struct xdp_md *ctx)
{
	struct ${codec.name} *value = (void *)(long)ctx->data;

	if ((void *)(value + 1) > (void *)(long)ctx->data_end)
		return 1000;
${body.map(line => `\t${line}\n`).join('')}	return 0;
}
`
  return (
    frame(
      `r_${codec.name}`,
      checks.map((check, i) => `if (${check}) return ${i + 1};`),
    ) +
    frame(
      `w_${codec.name}`,
      fields.map(({ field, text }) => `value->${field} = ${text};`),
    )
  )
}

const SOURCE = `#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "layout/flow.h"
#include "layout/fragment.h"
#include "layout/flat.h"
#include "layout/icmp.h"
#include "layout/outcome.h"
#include "layout/reply.h"
#include "layout/route.h"
#include "layout/service.h"

static __always_inline int nonzero(const void *field, int size)
{
	const unsigned char *bytes = field;
	int any = 0;

	for (int i = 0; i < size; i++)
		any |= bytes[i];
	return any;
}
${SAMPLES.map(programs).join('')}
char _license[] SEC("license") = "GPL";
`

/** Room behind the struct, as a test run wants at least an Ethernet header. */
const PACKET = 2048

describeSockets('codecs and the compiler', () => {
  const dir = mkdtempSync(join(tmpdir(), 'waggle-layouts-'))
  let object: BpfObject

  beforeAll(() => {
    const root = join(import.meta.dirname, '../..')
    writeFileSync(join(dir, 'check.bpf.c'), SOURCE)
    const multiarch = execFileSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).trim()
    const flags = ['-O2', '-g', '-target', 'bpf', '-mcpu=v3', `-I${root}/bpf`, `-I/usr/include/${multiarch}`]
    execFileSync('clang', [...flags, '-c', join(dir, 'check.bpf.c'), '-o', join(dir, 'check.bpf.o')])
    object = loadNative().openObject(join(dir, 'check.bpf.o'))
    object.load()
  })
  afterAll(() => {
    object?.close()
    rmSync(dir, { recursive: true })
  })

  test('every struct of a map has a sample', () => {
    const used = Object.values(layouts.maps).flatMap(map => [map.key.name, map.value.name])
    const sampled = SAMPLES.map(each => each.codec.name)
    // `filter` has too many words for a program that compares each: filter.test.ts compares its bits.
    const others = ['u32', 'i32', layouts.filter.name]
    expect(sampled).toEqual(expect.arrayContaining([...new Set(used)].filter(name => !others.includes(name))))
  })

  const cases = SAMPLES.map(each => ({ ...each, name: each.codec.name }))

  test.each(cases)('C reads what TypeScript wrote: $name', ({ codec, value, zero, name }) => {
    const data = new Uint8Array(PACKET).fill(0xff)
    codec.encode(new DataView(data.buffer), 0, value as never)
    const wrong = object.program(`r_${name}`).testRun({ data }).retval
    const fields = [...scalars(name, '', value).map(each => each.field), ...zero]
    expect(wrong === 0 ? 'nothing wrong' : fields[wrong - 1]).toBe('nothing wrong')
  })

  test.each(cases)('TypeScript reads what C wrote: $name', ({ codec, value, name }) => {
    const { data, retval } = object.program(`w_${name}`).testRun({ data: new Uint8Array(PACKET) })
    expect(retval).toBe(0)
    expect(codec.decode(new DataView(data.buffer, data.byteOffset), 0)).toEqual(value)
  })

  test('a field in the wrong byte order is found', () => {
    const data = new Uint8Array(PACKET)
    layouts.frontend4Key.encode(new DataView(data.buffer), 0, { addr: 0x0a010203, port: 53 << 8, proto: 17 })
    expect(object.program('r_frontend4_key').testRun({ data }).retval).toBe(2)
  })
})
