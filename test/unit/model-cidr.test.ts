import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Address, addressFromBytes, addressToBytes } from '../../src/model/address.js'
import {
  type Cidr,
  cidrCovers,
  cidrHas,
  cidrOfMapped,
  parseCidr,
  prefixInMapped,
  splitCidr,
} from '../../src/model/cidr.js'

test.each([
  ['192.0.2.0/24', '192.0.2.0/24'],
  ['192.0.2.77/24', '192.0.2.0/24'],
  ['0.0.0.0/0', '0.0.0.0/0'],
  ['192.0.2.1/32', '192.0.2.1/32'],
  ['2001:DB8::7/32', '2001:db8::/32'],
  ['::/0', '::/0'],
  ['::ffff:192.0.2.7/120', '192.0.2.0/24'],
  ['::ffff:0:0/96', '0.0.0.0/0'],
  ['::ffff:192.0.2.7/90', undefined],
  ['192.0.2.0', undefined],
  ['192.0.2.0/33', undefined],
  ['192.0.2.0/-1', undefined],
  ['192.0.2.0/', undefined],
  ['192.0.2/24', undefined],
  ['192.0.02.0/24', undefined],
  ['2001:db8::/129', undefined],
  ['fe80::1%eth0/64', undefined],
  ['192.0.2.0/24/1', undefined],
  [' 192.0.2.0/24', undefined],
  ['', undefined],
])('%j is the network %j', (text, canonical) => {
  expect(parseCidr(text)).toBe(canonical)
})

test.each([
  ['192.0.2.0/24', '192.0.2.255', true],
  ['192.0.2.0/24', '192.0.3.0', false],
  ['192.0.2.0/23', '192.0.3.255', true],
  ['192.0.2.128/25', '192.0.2.127', false],
  ['0.0.0.0/0', '203.0.113.1', true],
  ['0.0.0.0/0', '2001:db8::1', false],
  ['::/0', '203.0.113.1', false],
  ['2001:db8::/61', '2001:db8:0:7::1', true],
  ['2001:db8::/61', '2001:db8:0:8::1', false],
])('%s has %s: %j', (cidr, address, has) => {
  expect(cidrHas(cidr as Cidr, address as Address)).toBe(has)
})

test('a network covers itself and its halves, not its double', () => {
  expect(cidrCovers('10.1.0.0/16' as Cidr, '10.1.0.0/16' as Cidr)).toBe(true)
  expect(cidrCovers('10.1.0.0/16' as Cidr, '10.1.128.0/17' as Cidr)).toBe(true)
  expect(cidrCovers('10.1.0.0/16' as Cidr, '10.0.0.0/15' as Cidr)).toBe(false)
})

test('a network is what its first address and the bits of 16 bytes say', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ minLength: 16, maxLength: 16 }),
    fc.uint8Array({ minLength: 4, maxLength: 4 }).map(v4 => Uint8Array.of(...new Array(10).fill(0), 255, 255, ...v4)),
  )
  fc.assert(
    fc.property(bytes, fc.nat(128), (raw, length) => {
      const base = addressFromBytes(raw)
      const cidr = parseCidr(`${base}/${base.includes(':') ? length : length % 33}`)
      if (cidr === undefined) throw new Error(`${base}/${length} is refused`)
      const { base: first } = splitCidr(cidr)
      expect(cidrOfMapped(addressFromBytes(addressToBytes(first)), prefixInMapped(cidr))).toBe(cidr)
      expect(cidrHas(cidr, base)).toBe(true)
      expect(parseCidr(cidr)).toBe(cidr)
    }),
  )
})
