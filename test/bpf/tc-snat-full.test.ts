import { afterEach, describe, expect, test } from 'vitest'
import { tcp } from './packet.js'
import { decode } from './packet-decode.js'
import { missing, TcNode } from './tc-node.js'

const lacking = missing()
if (lacking && process.env.CI) throw new Error(`missing: ${lacking}`)

const VIP = '172.30.0.1:80'
const BACKEND = '10.0.2.5:8080'
/** 1024-29999, 61000-65535 and 32768-60999. */
const PORTS = 61_744

/** Endpoint number n of as many clients as are needed, 50,000 ports each. */
const client = (n: number) => `203.0.113.${1 + Math.floor(n / 50_000)}:${10_000 + (n % 50_000)}`

describe.skipIf(lacking)('source ports of one backend, all of them', () => {
  let node: TcNode | undefined

  afterEach(() => {
    node?.close()
    node = undefined
  })

  test('rows 34, 35: 61,744 flows get a port each and every reply its client; the next is told, and takes the port that comes free', () => {
    // Without a limit of tries: the last free ports take hundreds each.
    const at = new TcNode({ flows: 131_072, constants: { cfg_snat_tries_rate: new Uint8Array(4) } })
    node = at
    at.services.add({ proto: 'TCP', frontends: [{ at: VIP }], backends: [{ at: BACKEND }] })
    const owners = new Map<string, string>()
    const attempts: { readonly taken: number; readonly found: boolean; readonly tries: number }[] = []
    let tries = 0
    let n = 0
    const dial = (): boolean => {
      const from = client(n++)
      const { verdict, frame } = at.passThrough(tcp(from, VIP, 'S'))
      const sample = owners.size > PORTS * 0.89
      const before = tries
      if (sample) tries = at.flowStats().snatTries
      attempts.push({ taken: owners.size, found: verdict === 'redirect', tries: sample ? tries - before : 0 })
      if (verdict !== 'redirect') return false
      const source = decode(frame).from
      expect(owners.has(source)).toBe(false)
      owners.set(source, from)
      return true
    }

    while (owners.size < PORTS && attempts.length < PORTS + 20_000) dial()
    expect(owners.size).toBe(PORTS)
    expect(n).toBeLessThan(100_000)

    const between = (low: number, high: number) =>
      attempts.filter(({ taken }) => taken >= PORTS * low && taken < PORTS * high)
    const missed = (low: number, high: number) => between(low, high).filter(({ found }) => !found).length
    if (process.env.V) {
      for (const fill of [0.9, 0.97, 0.99, 0.995, 0.999]) {
        const window = between(fill - 0.0005, fill + 0.0005)
        const mean = window.reduce((sum, each) => sum + each.tries, 0) / window.length
        const lost = window.filter(({ found }) => !found).length
        console.log(`${fill * 100} % taken: ${lost} of ${window.length} missed, ${mean.toFixed(1)} tries`)
      }
      const full = tcp(client(n), VIP, 'S')
      console.log(`full: ${at.measure('waggle_ingress', full, 1000)} ns a SYN`)
    }
    expect(missed(0, 0.97)).toBe(0)
    expect(missed(0.97, 0.99)).toBeLessThan(10)

    let astray = 0
    for (const [source, from] of owners) {
      const { verdict, frame } = at.passThrough(tcp(BACKEND, source, 'SA'), 'up1')
      const { from: shown, to } = decode(frame)
      if (verdict !== 'redirect' || shown !== VIP || to !== from) astray++
    }
    expect(astray).toBe(0)

    const late = client(n)
    expect(at.ingress(tcp(late, VIP, 'S'))).toMatchObject({ outcome: 'snat_exhausted', verdict: 'drop' })
    const [source, from] = [...owners][12_345] ?? ['', '']
    at.services.forgetFlow(from)
    let again = 0
    let step = at.ingress(tcp(late, VIP, 'S'))
    while (step.outcome === 'snat_exhausted' && again++ < 5000) step = at.ingress(tcp(late, VIP, 'S'))
    expect(step.outcome).toBe('forwarded')
    expect(step.packet.from).toBe(source)
  })
})
