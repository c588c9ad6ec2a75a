import { expect, test } from 'vitest'
import { decideAdoption } from '../../src/dataplane/ebpf/conntrack-adoption.js'

const WARNING = { warning: expect.stringContaining('UDP') }
const NO_BTF = expect.stringContaining('Linux 5.18')
const NOT_LOADED = expect.stringContaining('load nf_conntrack before')

test.each([
  {
    mode: 'auto',
    entries: undefined,
    canBeAsked: false,
    want: { on: false, reason: 'the kernel tracks no connections' },
  },
  { mode: 'auto', entries: 0, canBeAsked: true, want: { on: false, reason: 'connection tracking holds no entry' } },
  { mode: 'auto', entries: 0, canBeAsked: false, want: { on: false, reason: 'connection tracking holds no entry' } },
  { mode: 'auto', entries: 7, canBeAsked: true, want: { on: true, reason: 'connection tracking holds 7 entries' } },
  { mode: 'auto', entries: 7, canBeAsked: false, want: { on: false, reason: NO_BTF, ...WARNING } },
  { mode: 'on', entries: 0, canBeAsked: true, want: { on: true, reason: '--adopt-conntrack is on' } },
  { mode: 'on', entries: undefined, canBeAsked: false, want: { on: false, reason: NOT_LOADED, ...WARNING } },
  { mode: 'on', entries: 0, canBeAsked: false, want: { on: false, reason: NO_BTF, ...WARNING } },
  { mode: 'off', entries: 7, canBeAsked: true, want: { on: false, reason: '--adopt-conntrack is off' } },
] as const)('$mode, $entries entries, can be asked: $canBeAsked', ({ mode, entries, canBeAsked, want }) => {
  expect(decideAdoption(mode, { entries, canBeAsked })).toEqual(want)
})
