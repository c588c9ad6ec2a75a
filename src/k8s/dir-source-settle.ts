/**
 * How long a file must have been left alone before it is read, milliseconds. An atomic
 * rename needs no wait (the file is old already); a file that is being written in place
 * must not be taken for finished between two writes.
 */
export const QUIET_MS = 100

/**
 * The same for content that may be the beginning of something longer. Still leaves time
 * to apply the edit within a second of the last write.
 */
export const CUT_OFF_MS = 500

/**
 * The wait that `text` deserves. Suspicious are YAML without a newline at its end (cut
 * JSON never parses) and what is the beginning of the last good content: the file may
 * just be written anew.
 */
export function settleMs(text: string, lastGood: string | undefined): number {
  const cutLine = !text.endsWith('\n') && !text.trimStart().startsWith('{')
  const beginning = lastGood !== undefined && text.length < lastGood.length && lastGood.startsWith(text)
  return cutLine || beginning ? CUT_OFF_MS : QUIET_MS
}
