import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { BpfLink, BpfProgram } from '../../src/ebpf/native.js'
import { LinkType } from './kernel-enums.js'
import { addon, describeKernel, ifindex, Rig, thrown } from './rig.js'

const XDP_GENERIC = 2

/** Whether this kernel has tcx (6.6): asked of the version, so that a failure to attach is one. */
function hasTcx(): boolean {
  const [major = 0, minor = 0] = execFileSync('uname', ['-r'], { encoding: 'utf8' }).split('.').map(Number)
  return major > 6 || (major === 6 && minor >= 6)
}

function inside(netns: string, ...words: string[]): void {
  execFileSync('nsenter', [`--net=${netns}`, ...words], { stdio: ['ignore', 'ignore', 'pipe'] })
}

describeKernel('device links', () => {
  const rig = new Rig()
  const there = <T>(netns: string, fn: () => T): T => addon().inNetns(netns, fn)

  test.runIf(hasTcx())('tcx: before and after all others, in the order of the query', () => {
    const netns = rig.netns()
    const device = ifindex(netns, 'v0')
    const programs = ['answer', 'emit', 'put_word'].map(name => rig.program(name)) as [
      BpfProgram,
      BpfProgram,
      BpfProgram,
    ]
    const [middle, first, last] = programs
    const other = rig.program('count')
    const links: BpfLink[] = there(netns, () => [
      addon().attachTcx(middle, device, 'ingress', 'before'),
      addon().attachTcx(first, device, 'ingress', 'before'),
      addon().attachTcx(last, device, 'ingress', 'after'),
    ])
    const [link] = links as [BpfLink]
    expect(link.info).toMatchObject({ type: LinkType.tcx, programId: middle.info.id, ifindex: device, cgroupId: 0 })
    expect(there(netns, () => addon().queryTcx(device, 'ingress'))).toEqual([first, middle, last].map(p => p.info.id))
    expect(there(netns, () => addon().queryTcx(device, 'egress'))).toEqual([])

    // The kernel takes a program only once in a chain.
    expect(thrown(() => link.update(last))).toMatchObject({ code: 'EEXIST', syscall: 'bpf_link_update' })
    link.update(other)
    expect(there(netns, () => addon().queryTcx(device, 'ingress'))).toEqual([first, other, last].map(p => p.info.id))
    link.detach()
    expect(there(netns, () => addon().queryTcx(device, 'ingress'))).toEqual([first, last].map(p => p.info.id))
    for (const handle of [...links, ...programs, other]) handle.close()
  })

  test.runIf(hasTcx())('tcx: a device that goes leaves a link without one', () => {
    const netns = rig.netns()
    const device = ifindex(netns, 'v0')
    const program = rig.program('answer')
    const link = there(netns, () => addon().attachTcx(program, device, 'egress', 'after'))
    inside(netns, 'ip', 'link', 'del', 'v0')
    expect(link.info.ifindex).toBe(0)
    expect(thrown(() => there(netns, () => addon().queryTcx(device, 'egress')))).toMatchObject({
      code: 'ENODEV',
      object: `ifindex ${device}`,
    })
    link.close()
    program.close()
  })

  test.runIf(hasTcx())('tcx: pinned, it stays when its maker goes', () => {
    const netns = rig.netns()
    const path = join(rig.bpffs(), 'tcx')
    const device = ifindex(netns, 'v0')
    const program = rig.program('answer')
    const link = there(netns, () => addon().attachTcx(program, device, 'ingress', 'after'))
    link.pin(path)
    link.close()
    const query = () => there(netns, () => addon().queryTcx(device, 'ingress'))
    expect(query()).toEqual([program.info.id])
    const again = addon().openLink(path)
    execFileSync('rm', [path])
    again.close()
    expect(query()).toEqual([])
    program.close()
  })

  test.each([
    { name: 'generic', mode: XDP_GENERIC },
    { name: 'any', mode: 0 },
    { name: 'driver', mode: 4 },
  ])('XDP on a veth, mode $name', ({ mode }) => {
    const netns = rig.netns()
    const device = ifindex(netns, 'v0')
    const program = rig.program('grow')
    const link = there(netns, () => addon().attachXdp(program, device, mode))
    expect(link.info).toMatchObject({ type: LinkType.xdp, programId: program.info.id, ifindex: device })
    expect(thrown(() => there(netns, () => addon().attachXdp(program, device, mode)))).toMatchObject({
      code: 'EBUSY',
      object: `ifindex ${device}`,
    })
    link.close()
    program.close()
  })

  test('clsact: attached, found, replaced by its namesake, removed', () => {
    const netns = rig.netns()
    const device = ifindex(netns, 'v0')
    const old = rig.program('answer')
    const newer = rig.program('answer')
    there(netns, () => {
      const query = () => addon().queryClsact(device, 'ingress', 7, 3)
      expect(query()).toBeUndefined() // there is no clsact qdisc yet
      addon().attachClsact(old, device, 'ingress', 7, 3)
      expect(query()).toEqual({ programId: old.info.id })
      addon().attachClsact(newer, device, 'ingress', 7, 3)
      expect(query()).toEqual({ programId: newer.info.id })
      expect(addon().queryClsact(device, 'egress', 7, 3)).toBeUndefined()
      expect(addon().queryClsact(device, 'ingress', 7, 4)).toBeUndefined()
      expect(addon().queryClsact(device, 'ingress', 8, 3)).toBeUndefined()

      expect(addon().detachClsact(device, 'ingress', 7, 3, 'answer')).toBe(true)
      expect(query()).toBeUndefined()
      expect(addon().detachClsact(device, 'ingress', 7, 3, 'answer')).toBe(false)
    })
    old.close()
    newer.close()
  })

  test("clsact: somebody else's filter is neither replaced nor removed", () => {
    const netns = rig.netns()
    const device = ifindex(netns, 'v0')
    const theirs = rig.program('emit')
    const ours = rig.program('answer')
    there(netns, () => {
      addon().attachClsact(theirs, device, 'egress', 1, 1)
      expect(thrown(() => addon().attachClsact(ours, device, 'egress', 1, 1))).toMatchObject({
        code: 'EEXIST',
        object: `ifindex ${device} egress priority 1 handle 1`,
        log: 'held by program emit',
      })
      expect(addon().detachClsact(device, 'egress', 1, 1, 'answer')).toBe(false)
      addon().attachClsact(ours, device, 'egress', 1, 2)
      expect(addon().queryClsact(device, 'egress', 1, 1)).toEqual({ programId: theirs.info.id })
      expect(addon().queryClsact(device, 'egress', 1, 2)).toEqual({ programId: ours.info.id })
    })
    theirs.close()
    ours.close()
  })

  test('clsact: a filter of another kind in the way', () => {
    const netns = rig.netns()
    const device = ifindex(netns, 'v0')
    inside(netns, 'tc', 'qdisc', 'add', 'dev', 'v0', 'clsact')
    const match = ['u32', 'match', 'u32', '0', '0', 'classid', '1:1']
    inside(netns, 'tc', 'filter', 'add', 'dev', 'v0', 'ingress', 'prio', '5', ...match)
    const program = rig.program('answer')
    there(netns, () => {
      expect(addon().queryClsact(device, 'ingress', 5, 1)).toBeUndefined()
      expect(thrown(() => addon().attachClsact(program, device, 'ingress', 5, 1))).toMatchObject({ code: 'EINVAL' })
      expect(addon().detachClsact(device, 'ingress', 5, 1, 'answer')).toBe(false)
    })
    program.close()
  })

  test('no such device', () => {
    const netns = rig.netns()
    const tc = rig.program('answer')
    const xdp = rig.program('grow')
    const gone = 9_999_999
    there(netns, () => {
      expect(thrown(() => addon().attachTcx(tc, gone, 'ingress', 'after')).code).toBe(hasTcx() ? 'ENODEV' : 'EINVAL')
      expect(thrown(() => addon().attachXdp(xdp, gone, 0)).errno).toBeGreaterThan(0)
      expect(thrown(() => addon().attachClsact(tc, gone, 'ingress', 1, 1)).code).toBe('ENODEV')
      expect(thrown(() => addon().queryClsact(gone, 'ingress', 1, 1)).code).toBe('ENODEV')
      expect(thrown(() => addon().detachClsact(gone, 'ingress', 1, 1, 'answer')).code).toBe('ENODEV')
    })
    tc.close()
    xdp.close()
  })

  test('a program of another type', () => {
    const netns = rig.netns()
    const device = ifindex(netns, 'v0')
    const tc = rig.program('answer')
    const xdp = rig.program('grow')
    there(netns, () => {
      for (const call of [
        () => addon().attachTcx(xdp, device, 'ingress', 'after'),
        () => addon().attachXdp(tc, device, 0),
        () => addon().attachClsact(xdp, device, 'ingress', 1, 1),
      ])
        expect(thrown(call)).toMatchObject({ code: 'EINVAL' })
      expect(addon().queryClsact(device, 'ingress', 1, 1)).toBeUndefined()
    })
    tc.close()
    xdp.close()
  })

  test('a device tells its name, address, kind, master and XDP; one that is not there is undefined', () => {
    const netns = rig.netns()
    inside(netns, 'ip', 'link', 'add', 'br0', 'type', 'bridge')
    inside(netns, 'ip', 'link', 'set', 'v0', 'address', '02:00:00:00:00:07', 'master', 'br0')
    const device = ifindex(netns, 'v0')
    const ask = (index: number) => there(netns, () => addon().queryDevice(index))
    expect(ask(device)).toMatchObject({ name: 'v0', kind: 'veth', master: ifindex(netns, 'br0'), xdpMode: 0 })
    expect([...(ask(device)?.mac ?? [])]).toEqual([2, 0, 0, 0, 0, 7])
    expect(ask(ifindex(netns, 'br0'))).toMatchObject({ kind: 'bridge', master: 0 })
    expect(ask(1)).toMatchObject({ name: 'lo', kind: '' })
    expect(ask(9999)).toBeUndefined()

    const program = rig.program('grow')
    const link = there(netns, () => addon().attachXdp(program, device, XDP_GENERIC))
    expect(ask(device)).toMatchObject({ xdpMode: 2, xdpProgramId: program.info.id })
    link.close()
    expect(ask(device)).toMatchObject({ xdpMode: 0, xdpProgramId: 0 })
    program.close()
  })
})
