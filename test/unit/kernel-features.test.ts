import { expect, test } from 'vitest'
import { missingFeature } from '../../src/dataplane/ebpf/kernel-features.js'

// Last lines of what Debian's Linux 5.10 said of our objects.
test.each([
  {
    name: 'a helper that the kernel does not know',
    log: '584: (b4) w1 = -111\n585: (85) call unknown#187\ninvalid func unknown#187\nprocessed 286 insns',
    want: { name: 'the helper bpf_set_retval', since: '5.18' },
  },
  {
    name: 'atomics before they returned anything',
    log: "libbpf: prog 'waggle_ingress': BPF program load failed: Invalid argument\nBPF_STX uses reserved fields\n",
    want: { name: 'atomic operations that return a value', since: '5.12' },
  },
])('what is missing is named: $name', ({ log, want }) => {
  expect(missingFeature(log)).toMatchObject(want)
})

test('a verifier that objects to the program itself accuses no kernel', () => {
  expect(missingFeature('combined stack size of 4 calls is 544. Too large')).toBeUndefined()
  expect(missingFeature('invalid func unknown#1870')).toBeUndefined()
})
