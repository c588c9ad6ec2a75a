import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CANNOT_RUN, ROOT, titled } from './parts.js'

/** tools/kube-api as labs and people use it. */

describe.skipIf(CANNOT_RUN)(titled('tools/kube-api'), () => {
  let folder: string
  let dir: string
  beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'waggle-kube-api-'))
    dir = path.join(folder, 'api')
  })
  afterAll(() => {
    kubeApi('down', '--dir', dir)
    rmSync(folder, { recursive: true })
  })

  function kubeApi(...args: string[]): { code: number | null; out: Record<string, string>; err: string } {
    const { status, stdout, stderr } = spawnSync(path.join(ROOT, 'tools/kube-api'), args, { encoding: 'utf8' })
    const pairs = stdout.split('\n').filter(line => line.includes('='))
    return { code: status, err: stderr, out: Object.fromEntries(pairs.map(line => line.split(/=(.*)/s).slice(0, 2))) }
  }

  /** Command lines of processes that name the directory. */
  function processes(): string[] {
    const { stdout } = spawnSync('ps', ['-eo', 'args='], { encoding: 'utf8' })
    return stdout.split('\n').filter(line => line.includes(`=${dir}`))
  }

  test('up, status, stop, start, down: each says and does what it should', { timeout: 180_000 }, () => {
    const up = kubeApi('up', '--dir', dir)
    expect(up).toMatchObject({ code: 0, err: '' })
    expect(up.out.server).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
    expect(existsSync(up.out.kubeconfig as string)).toBe(true)
    expect(kubeApi('status', '--dir', dir)).toMatchObject({
      code: 0,
      out: { ...up.out, etcd: 'running', 'kube-apiserver': 'running' },
    })
    expect(processes()).toHaveLength(2)
    expect(kubeApi('up', '--dir', dir)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/holds an API server already/),
    })

    expect(kubeApi('apply', '--dir', dir, path.join(ROOT, 'examples'))).toMatchObject({ code: 0, err: '' })
    expect(kubeApi('stop', '--dir', dir).code).toBe(0)
    expect(kubeApi('status', '--dir', dir)).toMatchObject({ code: 1, out: { 'kube-apiserver': 'stopped' } })
    expect(kubeApi('start', '--dir', dir).code).toBe(0)
    // The objects outlived the stop.
    expect(kubeApi('delete', '--dir', dir, path.join(ROOT, 'examples'))).toMatchObject({ code: 0, err: '' })

    expect(kubeApi('down', '--dir', dir).code).toBe(0)
    expect({ left: processes(), files: existsSync(dir) }).toEqual({ left: [], files: false })
    expect(kubeApi('down', '--dir', dir).code).toBe(0)
  })

  test('an address that is not ours: an error, and nothing is left', () => {
    const { code, err } = kubeApi('up', '--dir', dir, '--listen', '192.0.2.1')
    expect(code).toBe(1)
    expect(err).toContain('192.0.2.1')
    expect(processes()).toEqual([])
  })

  test('wrong usage is status 2 and says why', () => {
    expect(kubeApi('up')).toMatchObject({ code: 2, err: expect.stringContaining('--dir') })
    expect(kubeApi('fly', '--dir', dir).code).toBe(2)
  })

  test('parts are found in no time when they are there', () => {
    const began = performance.now()
    expect(spawnSync(path.join(ROOT, 'tools/kube-parts')).status).toBe(0)
    // Measured: 13 ms; the rest is for a busy machine.
    expect(performance.now() - began).toBeLessThan(500)
  })
})
