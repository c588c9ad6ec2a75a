/**
 * Brings the addon to a stage of its life and ends there, with nothing put away that the
 * stage does not put away. Arguments: STAGE OBJECT CGROUP NETNS.
 */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { loadNative } from '../../src/ebpf/load-native.js'
import { stages, workerStages } from './stages.js'

const [stage, objectPath, cgroup, netns] = (isMainThread ? process.argv.slice(2) : workerData) as [
  string,
  string,
  string,
  string,
]
const reach = (isMainThread ? stages : workerStages)[stage]
if (!reach) throw new Error(`no such stage: ${stage}`)

await reach({
  native: loadNative(),
  objectPath,
  cgroup,
  netns,
  reached: () => parentPort?.postMessage('reached'),
  worker: async (inner, then) => {
    const thread = new Worker(new URL(import.meta.url), { workerData: [inner, objectPath, cgroup, netns] })
    const ended = new Promise((resolve, reject) => {
      thread.on('exit', resolve)
      thread.on('error', reject)
    })
    await new Promise((resolve, reject) => {
      thread.once('message', resolve)
      thread.once('error', reject)
    })
    await then(thread)
    await ended
  },
})
