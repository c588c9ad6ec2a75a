import { defineConfig } from 'vitest/config'

/** The tiers of the suite, lowest first; `make test-<tier>` runs one (docs/testing.md). */
const tier = (name: string, testTimeout: number, fileParallelism: boolean) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    testTimeout,
    hookTimeout: Math.max(testTimeout, 60_000),
    fileParallelism,
    pool: 'forks' as const,
  },
})

export default defineConfig({
  test: {
    projects: [
      tier('unit', 20_000, true),
      tier('scripts', 60_000, true),
      tier('native', 60_000, true),
      tier('bpf', 120_000, true),
      tier('cli', 60_000, true),
      // These start nodes, load and API servers: one file at a time.
      tier('netns', 300_000, false),
      tier('cluster', 600_000, false),
    ],
  },
})
