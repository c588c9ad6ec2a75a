import { execFileSync } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { cleanupIptables } from '../../src/dataplane/iptables/cleanup.js'
import { IptablesDataplane } from '../../src/dataplane/iptables/iptables-dataplane.js'
import { LAYOUTS } from '../../src/dataplane/iptables/profile.js'
import { render, TABLES } from '../../src/dataplane/iptables/render.js'
import { readSave } from '../../src/dataplane/iptables/save-text.js'
import { hostVariant, Iptables } from '../../src/dataplane/iptables/tools.js'
import { type RunTool, runTool } from '../../src/dataplane/rules/run-tool.js'
import type { DesiredState } from '../../src/model/desired.js'
import { IPTABLES_PROFILES, type IptablesProfile } from '../../src/model/iptables.js'
import { DOCUMENTED_RULES, desired, EVERY_KIND, NODE, OPTIONS, service, WEB } from '../unit/iptables-kit.js'
import { CANNOT_RUN, titled } from './test-lab.js'

/** Rules in a real kernel: what is written is what iptables-save lists, and nothing else is touched. */

const NETNS = `waggle-iptables-${process.pid}`
const inside: RunTool = (tool, args, input) => runTool('ip', ['netns', 'exec', NETNS, tool, ...args], input)

describe.skipIf(CANNOT_RUN).each(['nft', 'legacy'] as const)(titled('iptables-%s'), variant => {
  beforeEach(async () => {
    execFileSync('ip', ['netns', 'add', NETNS])
    // As the documents' kube-proxy has it; waggle itself never sets it.
    await inside('sysctl', ['-qw', 'net.ipv4.conf.all.route_localnet=1'])
  })
  afterEach(() => void execFileSync('ip', ['netns', 'del', NETNS]))

  const start = async (profile: IptablesProfile = '1.25') => {
    const dataplane = new IptablesDataplane({
      profile,
      variant,
      masqueradeAll: false,
      anyNodeAddress: true,
      localhostNodePorts: true,
      logger: silentLogger,
      clock: systemClock,
      run: inside,
    })
    expect(await dataplane.probe()).toEqual([])
    await dataplane.start()
    return dataplane
  }
  const saved = async (family: 'IPv4' | 'IPv6' = 'IPv4') => new Iptables(family, variant, inside).save()
  const rules = async () => [...readSave(await saved()).values()].flatMap(table => [...table.chains.values()].flat())
  const restore = (text: string) => new Iptables('IPv4', variant, inside).restore(text)
  const all = (state: DesiredState) => [state, undefined, true] as const

  test('iptables-save lists what was rendered, the documents listings among it', async () => {
    const dataplane = await start()
    const state = desired(EVERY_KIND)
    const report = await dataplane.apply(...all(state))
    expect(report).toMatchObject({ revision: state.revision, failed: [] })
    expect(report.writes).toBeGreaterThan(100)
    for (const family of ['IPv4', 'IPv6'] as const) {
      const tables = readSave(await saved(family))
      const wanted = render(state, { ...OPTIONS, family, layout: LAYOUTS['1.25'] })
      for (const table of TABLES) {
        for (const [chain, lines] of wanted[table].chains) {
          expect([family, table, chain, tables.get(table)?.chains.get(chain)]).toEqual([family, table, chain, lines])
        }
      }
    }
    const lines = await rules()
    for (const line of DOCUMENTED_RULES) expect(lines).toContain(line)
  })

  test('without route_localnet no node port is promised on loopback addresses', async () => {
    await inside('sysctl', ['-qw', 'net.ipv4.conf.all.route_localnet=0'])
    await (await start()).apply(...all(desired(EVERY_KIND)))
    const jump = (await rules()).find(line => line.endsWith('-j KUBE-NODEPORTS') && line.includes('addrtype'))
    expect(jump).toContain('! -d 127.0.0.0/8')
    expect(await inside('sysctl', ['-n', 'net.ipv4.conf.all.route_localnet'])).toBe('0\n')
  })

  test('a second agent finds everything as it wants it and writes nothing', async () => {
    const state = desired(EVERY_KIND)
    await (await start()).apply(...all(state))
    const before = await saved()
    expect((await (await start()).apply(...all(state))).writes).toBe(0)
    expect(withoutStamps(await saved())).toBe(withoutStamps(before))
  })

  test.each(IPTABLES_PROFILES)('the shape of %s goes into the kernel and is found again', async profile => {
    const state = desired(EVERY_KIND)
    expect(await (await start(profile)).apply(...all(state))).toMatchObject({ failed: [] })
    expect((await (await start(profile)).apply(...all(state))).writes).toBe(0)
  })

  test('from one shape to another, and what the kubelet has for marked packets stays as it is', async () => {
    const kubelet = '-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -m comment --comment "of the kubelet" -j DROP'
    await restore(`*filter\n:KUBE-FIREWALL - [0:0]\n${kubelet}\nCOMMIT\n`)
    const state = desired(EVERY_KIND)
    await (await start('1.22')).apply(...all(state))
    expect(await rules()).toContain(kubelet)
    expect((await rules()).join('\n')).toContain('KUBE-XLB-')
    await (await start('1.25')).apply(...all(state))
    const lines = await rules()
    expect(lines).toContain(kubelet)
    expect(lines.join('\n')).not.toContain('KUBE-XLB-')
  })

  test('a change writes its own chains', async () => {
    const dataplane = await start()
    await dataplane.apply(...all(desired(EVERY_KIND)))
    const state = desired([...EVERY_KIND, ...service('web', { ...WEB, endpoints: ['10.244.1.11', '10.244.2.12'] })])
    const report = await dataplane.apply(state, new Set(['default/web:http/TCP/IPv4']), true)
    expect(report).toMatchObject({ services: 1, failed: [] })
    // The list, the new endpoint, and the chain of the old one that goes.
    expect(report.writes).toBeLessThan(15)
    const lines = (await rules()).join('\n')
    expect(lines).toContain('10.244.2.12:80')
    expect(lines).not.toContain('10.244.2.11')
  })

  test('a Service that goes leaves nothing behind', async () => {
    const dataplane = await start()
    const without = desired(EVERY_KIND.filter(each => !JSON.stringify(each).includes('"web')))
    await dataplane.apply(...all(without))
    const before = withoutStamps(await saved())
    await dataplane.apply(...all(desired(EVERY_KIND)))
    expect(withoutStamps(await saved())).not.toBe(before)
    await dataplane.apply(without, new Set(['default/web:http/TCP/IPv4']), true)
    expect(sorted(await saved())).toEqual(sorted(before))
  })

  test('while lists are missing, what an earlier run left goes on', async () => {
    await (await start()).apply(...all(desired(EVERY_KIND)))
    const dataplane = await start()
    const part = desired([NODE, ...service('web', WEB)])
    await dataplane.apply(part, undefined, false)
    const lines = (await rules()).join('\n')
    for (const line of DOCUMENTED_RULES) expect(lines).toContain(line)
    await dataplane.apply(...all(part))
    expect((await rules()).join('\n')).not.toContain('nginx-service')
  })

  test('rules of others stay byte for byte, also when ours are removed', async () => {
    await restore(
      [
        '*nat',
        ':DOCKER - [0:0]',
        '-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER',
        '-A DOCKER -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80',
        '-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE',
        'COMMIT',
        '*filter',
        ':CNI-FORWARD - [0:0]',
        '-A FORWARD -j CNI-FORWARD',
        '-A CNI-FORWARD -s 10.244.0.0/16 -j ACCEPT',
        'COMMIT',
        '',
      ].join('\n'),
    )
    const before = sorted(await saved())
    const dataplane = await start()
    await dataplane.apply(...all(desired(EVERY_KIND)))
    expect(sorted(await saved())).toEqual(expect.arrayContaining(before))
    expect((await cleanupIptables(true, inside)).length).toBeGreaterThan(20)
    expect(sorted(await saved()).length).toBeGreaterThan(before.length)
    await dataplane.cleanup()
    expect(sorted(await saved())).toEqual(expect.arrayContaining(before))
    expect(await saved()).not.toContain('KUBE-')
    expect(await cleanupIptables(false, inside)).toEqual([])
  })

  test('flushed rules are written anew at the next periodic apply', async () => {
    const dataplane = await start()
    const state = desired(EVERY_KIND)
    await dataplane.apply(...all(state))
    const before = sorted(await saved())
    for (const table of ['nat', 'filter', 'mangle']) {
      await inside(`iptables-${variant}`, ['-t', table, '-F'])
      await inside(`iptables-${variant}`, ['-t', table, '-X'])
    }
    expect((await rules()).length).toBe(0)
    await dataplane.apply(...all(state))
    expect(sorted(await saved())).toEqual(before)
  })

  test('one Service that the kernel refuses fails alone, and its old rules stay', async () => {
    const dataplane = await start()
    await dataplane.apply(...all(desired(EVERY_KIND)))
    const bad = service('bad', { ip: '10.96.0.9', ports: [{ port: 80 }], endpoints: ['10.244.1.11'] })
    const more = service('more', { ip: '10.96.0.10', ports: [{ port: 81 }], endpoints: ['10.244.1.12'] })
    const state = desired([...EVERY_KIND, ...bad, ...more])
    // iptables does not know the protocol that one rule of this Service asks for.
    const refusing: RunTool = (tool, args, input) =>
      inside(tool, args, input?.replace(/-d 10\.96\.0\.9\/32 -p tcp/g, '-d 10.96.0.9/32 -p nonsense'))
    const strict = new IptablesDataplane({
      profile: '1.25',
      variant,
      masqueradeAll: false,
      anyNodeAddress: true,
      localhostNodePorts: true,
      logger: silentLogger,
      clock: systemClock,
      run: refusing,
    })
    await strict.start()
    const { failed } = await strict.apply(...all(state))
    expect(failed.map(each => each.id)).toEqual(['default/bad:/TCP/IPv4'])
    expect(failed[0]?.error?.message).toMatch(/nonsense|line/)
    const lines = (await rules()).join('\n')
    expect(lines).toContain('default/more cluster IP')
    expect(lines).toContain('default/nginx-service cluster IP')
  })

  test('the variant with the kubelet in it is taken', async () => {
    await restore('*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n')
    expect(await hostVariant('IPv4', inside)).toBe(variant)
  })
})

/** Rules and chains alone, sorted. */
function sorted(save: string): string[] {
  return withoutStamps(save).split('\n').filter(Boolean).sort()
}

/** Without times and counters. */
function withoutStamps(save: string): string {
  return save
    .split('\n')
    .filter(line => !line.startsWith('#') && line !== 'COMMIT' && !line.startsWith('*'))
    .map(line => line.replace(/ \[[0-9]+:[0-9]+\]$/, ''))
    .join('\n')
}
