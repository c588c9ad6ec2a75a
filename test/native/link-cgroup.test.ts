import { statSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bpfDescriptors } from './descriptors.js'
import { AttachType, LinkType } from './kernel-enums.js'
import { addon, describeKernel, Rig, run, thrown } from './rig.js'

describeKernel('cgroup links', () => {
  const rig = new Rig()
  let server: Server
  let port = 0

  beforeAll(async () => {
    server = createServer(socket => socket.end())
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    port = (server.address() as { port: number }).port
  })
  afterAll(() => {
    server.close()
  })

  /** Whether a process in the cgroup may connect to 127.0.0.1. */
  async function connects(cgroup: string): Promise<boolean> {
    const script = `echo $$ > ${cgroup}/cgroup.procs && exec 3<>/dev/tcp/127.0.0.1/${port}`
    const { status, stderr } = await run('bash', ['-c', script])
    if (status !== 0 && !stderr.includes('Operation not permitted')) throw new Error(stderr)
    return status === 0
  }

  test('attached, updated in place, detached: what a process in the cgroup meets', async () => {
    const cgroup = rig.cgroup()
    const refuse = rig.program('refuse')
    const allow = rig.program('allow')
    const link = addon().attachCgroup(refuse, cgroup, AttachType.connect4)
    expect(link.info).toEqual({
      id: expect.any(Number),
      type: LinkType.cgroup,
      programId: refuse.info.id,
      ifindex: 0,
      cgroupId: statSync(cgroup).ino,
    })
    expect(await connects(cgroup)).toBe(false)
    link.update(allow)
    expect(link.info.programId).toBe(allow.info.id)
    expect(await connects(cgroup)).toBe(true)
    link.update(refuse)
    link.detach()
    expect(await connects(cgroup)).toBe(true)
    for (const handle of [link, refuse, allow]) handle.close()
  })

  test('a link goes with its last descriptor, a pinned one stays', async () => {
    const cgroup = rig.cgroup()
    const path = join(rig.bpffs(), 'link')
    const refuse = rig.program('refuse')
    addon().attachCgroup(refuse, cgroup, AttachType.connect4).close()
    expect(await connects(cgroup)).toBe(true)

    const link = addon().attachCgroup(refuse, cgroup, AttachType.connect4)
    const { id } = link.info
    link.pin(path)
    link.close()
    expect(await connects(cgroup)).toBe(false)
    const again = addon().openLink(path)
    expect(again.info.id).toBe(id)
    again.detach()
    expect(await connects(cgroup)).toBe(true)
    again.close()
    refuse.close()
  })

  test('several programs, in their order', () => {
    const cgroup = rig.cgroup()
    expect(addon().queryCgroup(cgroup, AttachType.connect4)).toEqual([])
    const first = rig.program('refuse')
    const second = rig.program('allow')
    const links = [first, second].map(program => addon().attachCgroup(program, cgroup, AttachType.connect4))
    expect(addon().queryCgroup(cgroup, AttachType.connect4)).toEqual([first.info.id, second.info.id])
    expect(addon().queryCgroup(cgroup, AttachType.connect6)).toEqual([])
    for (const handle of [...links, first, second]) handle.close()
    expect(addon().queryCgroup(cgroup, AttachType.connect4)).toEqual([])
  })

  test('what cannot be attached', () => {
    const cgroup = rig.cgroup()
    const before = bpfDescriptors()
    const refuse = rig.program('refuse')
    const tc = rig.program('answer')
    const attach = (program = refuse, path = cgroup, type: number = AttachType.connect4) =>
      thrown(() => addon().attachCgroup(program, path, type))
    expect(attach(refuse, '/nonexistent')).toMatchObject({ code: 'ENOENT', syscall: 'open', object: '/nonexistent' })
    expect(attach(refuse, '/etc/passwd')).toMatchObject({ code: 'ENOTDIR' })
    expect(attach(refuse, '/tmp')).toMatchObject({ code: 'EBADF', syscall: 'bpf_link_create', object: '/tmp' })
    expect(attach(refuse, cgroup, AttachType.connect6)).toMatchObject({ code: 'EINVAL' })
    expect(attach(refuse, cgroup, 46)).toMatchObject({ code: 'EINVAL' })
    // The kernel would take the cgroup's descriptor for a device.
    expect(attach(tc, cgroup, 46)).toMatchObject({ code: 'EINVAL', syscall: 'attachCgroup', object: 'answer' })
    expect(thrown(() => addon().queryCgroup(cgroup, 46))).toMatchObject({ name: 'RangeError' })
    refuse.close()
    tc.close()
    expect(bpfDescriptors()).toBe(before)
  })

  test('an update by a program of another type', () => {
    const refuse = rig.program('refuse')
    const tc = rig.program('answer')
    const link = addon().attachCgroup(refuse, rig.cgroup(), AttachType.connect4)
    expect(thrown(() => link.update(tc))).toMatchObject({ code: 'EINVAL', syscall: 'bpf_link_update' })
    expect(link.info.programId).toBe(refuse.info.id)
    for (const handle of [link, refuse, tc]) handle.close()
  })

  test('a closed link', () => {
    const refuse = rig.program('refuse')
    const link = addon().attachCgroup(refuse, rig.cgroup(), AttachType.connect4)
    link.close()
    link.close()
    for (const call of [() => link.info, () => link.update(refuse), () => link.detach(), () => link.pin('/x')])
      expect(thrown(call)).toMatchObject({ code: 'ERR_CLOSED' })
    refuse.close()
  })
})
