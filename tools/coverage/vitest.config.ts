import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

/** The bpf tier with counting programs: see main.ts. */
export default defineConfig({
  root: join(import.meta.dirname, '../..'),
  test: {
    include: ['test/bpf/**/*.test.ts'],
    setupFiles: [join(import.meta.dirname, 'collect.ts')],
    // Programs with counters take the verifier longer, and so does every node of a test.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    pool: 'forks',
  },
})
