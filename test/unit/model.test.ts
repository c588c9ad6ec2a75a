import fc from 'fast-check'
import { expect, test } from 'vitest'
import { addressFromBytes, addressToBytes, familyOf, formatEndpoint, parseAddress } from '../../src/model/address.js'
import { address } from './plan-kit.js'

test.each([
  ['192.0.2.1', '192.0.2.1', 'IPv4'],
  ['2001:DB8::1', '2001:db8::1', 'IPv6'],
  ['2001:0db8:0000:0000:0000:0000:0000:0001', '2001:db8::1', 'IPv6'],
  ['2001:db8:0:1:0:0:0:0', '2001:db8:0:1::', 'IPv6'],
  ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1', 'IPv6'],
  ['::', '::', 'IPv6'],
  ['::ffff:192.0.2.1', '192.0.2.1', 'IPv4'],
  ['::FFFF:c000:201', '192.0.2.1', 'IPv4'],
])('%s is %s', (text, canonical, family) => {
  expect(parseAddress(text)).toBe(canonical)
  expect(familyOf(address(text))).toBe(family)
})

test.each([
  '',
  '1',
  '1.2.3',
  '1.2.3.4.5',
  '256.0.0.1',
  '01.2.3.4',
  '1.2.3.04',
  '0x1.2.3.4',
  '1.2.3.4 ',
  '::1%lo',
  ':::',
  '2001:db8::1::2',
  '12345::',
  '[::1]',
])('%j is no address', text => {
  expect(parseAddress(text)).toBeUndefined()
})

test('16 bytes and back; IPv4 in its mapped form', () => {
  expect([...addressToBytes(address('192.0.2.1'))]).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 1])
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), text => {
      const parsed = parseAddress(text)
      if (parsed === undefined) return
      expect(addressFromBytes(addressToBytes(parsed))).toBe(parsed)
      // Canonical text is a fixed point.
      expect(parseAddress(parsed)).toBe(parsed)
    }),
  )
})

test('an endpoint as text', () => {
  expect(formatEndpoint(address('192.0.2.1'), 80)).toBe('192.0.2.1:80')
  expect(formatEndpoint(address('2001:db8::1'), 80)).toBe('[2001:db8::1]:80')
})
