import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LineFramer } from '../../src/k8s/kube-lines.js'

test('lines are the same however the bytes are cut', () => {
  const text = fc.string({ unit: 'grapheme' }).map(s => `x${s.replace(/\n/g, ' ')}x`)
  fc.assert(
    fc.property(fc.array(text, { maxLength: 8 }), fc.array(fc.nat(), { maxLength: 40 }), (lines, cuts) => {
      const bytes = Buffer.from(lines.map(line => `${line}\n`).join(''))
      const places = [0, ...cuts.map(cut => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
      const framer = new LineFramer()
      const got = places.slice(1).flatMap((end, i) => framer.push(bytes.subarray(places[i], end)))
      expect(got).toEqual(lines)
    }),
  )
})

test('a character of four bytes may come in four chunks', () => {
  const framer = new LineFramer()
  const got = [...Buffer.from('🐝\n')].flatMap(byte => framer.push(Buffer.from([byte])))
  expect(got).toEqual(['🐝'])
})

test('empty lines are nothing, an unfinished one waits', () => {
  const framer = new LineFramer()
  expect(framer.push(Buffer.from('\n\r\na\nb'))).toEqual(['a'])
  expect(framer.push(Buffer.from('c\n'))).toEqual(['bc'])
})

test('a line without end is refused before it fills the memory', () => {
  const framer = new LineFramer()
  const chunk = Buffer.alloc(1024 * 1024, 'x')
  expect(() => {
    for (let i = 0; i < 100; i++) framer.push(chunk)
  }).toThrow(RangeError)
})
