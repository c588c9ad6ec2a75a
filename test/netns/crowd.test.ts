import { type ChildProcess, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inRoot } from '../../tools/labkit/root.js'
import { service } from './manifests.js'
import { CANNOT_RUN, TestLab, titled } from './test-lab.js'

/** As many connections at a time to one backend as there are source ports, and more. */

const PORT = 9000
const MANY = 60_000
/** 1024-29999, 61000-65535 and 32768-60999, less node port 30080, which is in none of them. */
const PORTS = 61_744
const OBJECTS = service({
  name: 'crowd',
  ip: 10,
  ports: [{ name: 'tcp', port: 80, nodePort: 30080, targetPort: PORT }],
  pods: ['pod-b1'],
})

const PLAN = {
  IPv4: { node: '192.168.0.11', sources: [21, 22, 23, 24].map(n => `203.0.113.${n}`), prefix: 24 },
  IPv6: { node: '2001:db8:192::11', sources: [21, 22, 23, 24].map(n => `2001:db8:203::${n}`), prefix: 64 },
} as const

describe.skipIf(CANNOT_RUN)(titled('a crowd behind one source address'), () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'waggle-crowd-'))
  const crowd = path.join(dir, 'crowd')
  let lab: TestLab
  let server: ChildProcess

  beforeAll(async () => {
    execFileSync('gcc', ['-O2', '-Wall', '-o', crowd, inRoot('test/netns/crowd.c')])
    lab = await TestLab.up({ objects: OBJECTS, agentFlags: ['--max-flows', '131072'] })
    await ran('pod-b1', ['sysctl', '-qw', 'net.core.somaxconn=65535', 'net.ipv4.tcp_max_syn_backlog=65535'])
    await ran('client', ['sysctl', '-qw', 'net.ipv4.ip_local_port_range=1024 65535'])
    for (const { sources, prefix } of Object.values(PLAN)) {
      for (const source of sources) {
        await ran('client', [
          'ip',
          'address',
          'add',
          `${source}/${prefix}`,
          'dev',
          'eth0',
          ...(prefix === 64 ? ['nodad'] : []),
        ])
      }
    }
    server = lab.lab.spawn('pod-b1', [crowd, 'serve', String(PORT), '5'], { stdio: ['ignore', 'pipe', 'inherit'] })
    await said(server)
  })
  afterAll(async () => {
    server?.kill()
    await lab?.down()
    rmSync(dir, { recursive: true })
  })

  async function ran(host: string, command: readonly string[]): Promise<void> {
    expect(await lab.exec(host, command)).toMatchObject({ code: 0, err: '' })
  }

  /** The next line of a helper; what it has to complain about is on standard error. */
  async function said(child: ChildProcess): Promise<string> {
    const line = once(child.stdout as NodeJS.ReadableStream, 'data').then(([data]) => String(data).trim())
    const ended = once(child, 'exit').then(() => Promise.reject(new Error('ended early')))
    return Promise.race([line, ended])
  }

  const dropped = async () => {
    const rows = (await lab.show('node-a', 'outcomes')).filter(each => each.hook === 'tc_ingress')
    const of = (name: string) => Number(rows.find(each => each.outcome === name)?.packets ?? 0)
    return { exhausted: of('snat_exhausted'), limited: of('snat_limited'), full: of('flows_full') }
  }

  test.each(['IPv4', 'IPv6'] as const)(
    'rows 34, 35: %s: 60,000 connections have a port each and hear their own answers; beyond 61,744 the reason is counted',
    { timeout: 240_000 },
    async family => {
      const { node, sources } = PLAN[family]
      const dialers = sources.map(source =>
        lab.lab.spawn('client', [crowd, 'dial', node, '30080', source], { stdio: ['pipe', 'pipe', 'inherit'] }),
      )
      /** Tells each dialer and adds the numbers of their answers. */
      const tell = async (command: string) => {
        const answers = await Promise.all(
          dialers.map(dialer => {
            const answer = said(dialer)
            dialer.stdin?.write(`${command}\n`)
            return answer
          }),
        )
        const numbers = answers.map(answer => [...answer.matchAll(/[0-9]+/g)].map(Number))
        return (numbers[0] ?? []).map((_, i) => numbers.reduce((sum, each) => sum + (each[i] ?? 0), 0))
      }
      try {
        const before = await dropped()
        expect(await tell(`open ${MANY / dialers.length} 90`)).toEqual([MANY, 0, 0])
        expect(await tell('again')).toEqual([MANY, MANY])
        // The search for a port was not short of tries, although 97 of 100 are taken in the end.
        expect((await dropped()).limited - before.limited).toBeLessThan(MANY / 100)

        const more = PORTS - MANY + 500
        const [opened = 0, wrong, failed = 0] = await tell(`open ${more / dialers.length} 8`)
        expect({ wrong, all: opened + failed }).toEqual({ wrong: 0, all: more })
        expect(opened).toBeGreaterThan((PORTS - MANY) / 2)
        expect(opened).toBeLessThanOrEqual(PORTS - MANY)
        const after = await dropped()
        expect(after.exhausted + after.limited - before.exhausted - before.limited).toBeGreaterThan(500)
        expect(after.full).toBe(0)
        expect(await tell('again')).toEqual([MANY + opened, MANY + opened])

        // What is closed makes room.
        expect(await tell('close 500')).toEqual([2000])
        expect(await tell('open 250 30')).toEqual([1000, 0, 0])
        console.log(family, { opened, ...after })
      } finally {
        const gone = dialers.map(dialer => once(dialer, 'exit'))
        for (const dialer of dialers) dialer.kill()
        await Promise.all(gone)
      }
    },
  )
})
