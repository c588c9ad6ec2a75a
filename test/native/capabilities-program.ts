/**
 * Does what a dataplane does all day and prints its capabilities; run by
 * capabilities.test.ts with few of them. Arguments: OBJECT CGROUP; device v0 is here.
 */
import { readFileSync } from 'node:fs'
import { loadNative } from '../../src/ebpf/load-native.js'
import { AttachType } from './kernel-enums.js'

const [objectPath, cgroup] = process.argv.slice(2) as [string, string]
const native = loadNative()
const object = native.openObject(objectPath)
object.load()
const tc = object.program('answer')
const sock = object.program('allow')
const device = native.ifNameToIndex('v0')

const link = native.attachCgroup(sock, cgroup, AttachType.connect4)
const attached = native.queryCgroup(cgroup, AttachType.connect4)
native.attachClsact(tc, device, 'ingress', 1, 1)
native.attachClsact(tc, device, 'ingress', 1, 1)
const filter = native.queryClsact(device, 'ingress', 1, 1)
const xdp = native.attachXdp(object.program('grow'), device, 2)
new Uint8Array(object.map('cells').mmap())[0] = 1
object.map('words').updateBatch(new Uint8Array(4), new Uint8Array(8))

console.log(
  JSON.stringify({
    effective: /CapEff:\s*(\w+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1],
    cgroup: attached.length === 1 && attached[0] === sock.info.id && link.info.programId === sock.info.id,
    clsact: filter?.programId === tc.info.id && native.detachClsact(device, 'ingress', 1, 1, 'answer'),
    xdp: xdp.info.ifindex === device,
    testRun: tc.testRun({ data: new Uint8Array(64) }).retval,
  }),
)
