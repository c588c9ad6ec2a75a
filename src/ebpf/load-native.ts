import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Native } from './native.js'

const ADDON = 'waggle_native.node'

/**
 * Loads the addon: the file that WAGGLE_NATIVE names, else the one beside the bundle, else
 * the one in build/ of the source tree. Throws an Error that says what to do when there is
 * none, or when it does not fit this machine.
 */
export function loadNative(): Native {
  const named = process.env.WAGGLE_NATIVE
  const places = named
    ? [named]
    : [`./${ADDON}`, `../../build/${ADDON}`].map(place => fileURLToPath(new URL(place, import.meta.url)))
  const path = places.find(place => existsSync(place))
  if (path === undefined) {
    throw new Error(
      `the native addon is missing (looked for ${places.join(' and ')}): ` +
        (named ? 'WAGGLE_NATIVE must name the file' : 'run `make build`, or set WAGGLE_NATIVE to its path'),
    )
  }
  try {
    return createRequire(import.meta.url)(path) as Native
  } catch (error) {
    throw new Error(`the native addon ${path} does not load here: run \`make build\` on this machine`, { cause: error })
  }
}
