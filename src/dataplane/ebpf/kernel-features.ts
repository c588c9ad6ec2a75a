/** Something that our programs use and that came with a later kernel than this one. */
export interface MissingFeature {
  readonly name: string
  /** The first kernel that has it. Distributions carry features back, so this is advice, not a test. */
  readonly since: string
}

/** A kernel without one feature may lack others that nobody looked at yet: the oldest that has all. */
export const OLDEST_KERNEL = '6.1'

/** By what the verifier of a kernel without it says: seen on Debian's 5.10. */
const FEATURES: readonly (MissingFeature & { readonly refusal: RegExp })[] = [
  { refusal: /invalid func unknown#187\b/, name: 'the helper bpf_set_retval', since: '5.18' },
  { refusal: /BPF_STX uses reserved fields/, name: 'atomic operations that return a value', since: '5.12' },
]

/** What a verifier's log says that the kernel lacks; undefined when it objects to something else. */
export function missingFeature(log: string): MissingFeature | undefined {
  return FEATURES.find(({ refusal }) => refusal.test(log))
}
