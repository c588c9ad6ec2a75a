import { expect, test } from 'vitest'
import { jsonLogger, textLogger } from '../../src/daemon/logger.js'

function sink() {
  const lines: string[] = []
  return { lines, write: (line: string) => void lines.push(line) }
}
const now = () => new Date('2026-01-01T00:00:00Z')

test('text: time, level, message, fields; quoted only where something could be misread', () => {
  const out = sink()
  const log = textLogger('info', out, now)
  log.info('applied', { revision: 412, services: 3, missing: undefined })
  log.child({ kind: 'Node' }).warn('odd', { name: 'a b\n2026 INFO forged', list: ['x'], empty: '' })
  log.debug('not shown')
  expect(out.lines).toEqual([
    '2026-01-01T00:00:00.000Z INFO  applied revision=412 services=3\n',
    '2026-01-01T00:00:00.000Z WARN  odd kind=Node name="a b\\n2026 INFO forged" list="[\\"x\\"]" empty=""\n',
  ])
})

test('text: the log of the verifier, from the error or its cause, follows line by line', () => {
  const out = sink()
  const cause = Object.assign(new Error('EACCES'), { log: '0: R1=ctx\n1: invalid access\n' })
  textLogger('error', out, now).error('cannot load', { error: new Error('LOAD_FAILED', { cause }) })
  expect(out.lines.join('')).toBe(
    '2026-01-01T00:00:00.000Z ERROR cannot load error=LOAD_FAILED\n    0: R1=ctx\n    1: invalid access\n',
  )
})

test('json: one object a line with level, time and msg; errors with cause', () => {
  const out = sink()
  const log = jsonLogger('info', out)
  log.child({ a: 1 }).error('failed', { error: new Error('outer', { cause: new Error('inner') }) })
  log.debug('not shown')
  expect(out.lines).toHaveLength(1)
  const line = JSON.parse(out.lines[0] ?? '')
  expect(line).toMatchObject({
    level: 'error',
    msg: 'failed',
    a: 1,
    error: { message: 'outer', cause: { message: 'inner' } },
  })
  expect(Date.parse(line.time)).not.toBeNaN()
  expect(line).not.toHaveProperty('pid')
})
