import {
  customMatchers,
  type ExpectStatic,
  GLOBAL_EXPECT,
  JestAsymmetricMatchers,
  JestChaiExpect,
  JestExtend,
} from '@vitest/expect'
import * as chai from 'chai'

/**
 * What test files import as `vitest` in the machine: the runner and the matchers of vitest
 * itself, without what starts workers and compiles sources, which takes a minute there.
 * A file that imports more than this does not bundle, and says so.
 */
export { afterAll, afterEach, beforeAll, beforeEach, describe, test } from '@vitest/runner'

for (const plugin of [JestExtend, JestChaiExpect, JestAsymmetricMatchers]) chai.use(plugin)
Object.defineProperty(globalThis, GLOBAL_EXPECT, { value: chai.expect })
// JestExtend's `extend`, as vitest calls it: it also wants to know whose matchers they will be.
;(chai.expect as unknown as { extend(whose: unknown, matchers: unknown): void }).extend(chai.expect, customMatchers)

export const expect = chai.expect as unknown as ExpectStatic
