import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { ContainerSpec } from './deploy-files.js'

/**
 * Starts the agent's container as a container runtime would, as far as the agent can tell:
 * its root file system read-only, the volumes of the manifest and nothing else, the
 * capabilities of the manifest and no way to get more. The namespaces of processes,
 * users and cgroups are the caller's; seccomp is not applied.
 */

/** Directories of this machine by the names of the manifest's volumes. */
export type Volumes = Readonly<Record<string, string>>

/** What a runtime mounts without being asked. */
const BY_ITSELF = ['/proc', '/sys/kernel', '/sys/devices']

/** What the kubelet gives to a pod of priority class system-node-critical. */
export const OOM_SCORE = -997

/** In a mount namespace of its own, which ends with the process: nothing outside changes. */
const SCRIPT = `
set -e
root=$1; mounts=$2; drop=$3; shift 3
mount --bind "$root" "$root"
while read -r mode from to; do
  mount --rbind "$from" "$root$to"
  [ "$mode" = rw ] || mount -o remount,bind,ro "$root$to"
done <"$mounts"
mount -o remount,bind,ro "$root"
# A sandbox may keep even root from that.
echo ${OOM_SCORE} >/proc/self/oom_score_adj 2>/dev/null || true
exec capsh --chroot="$root" --no-new-privs --drop="$drop" --shell=/usr/bin/waggle -- "$@"
`

/** Unpacks the image and prepares what the command needs. Returns that command. */
export function containerCommand(options: {
  readonly container: ContainerSpec
  /** Made by tools/image. */
  readonly rootfsTar: string
  /** An empty directory. */
  readonly dir: string
  readonly volumes: Volumes
  readonly environment: Readonly<Record<string, string>>
}): string[] {
  const { container, rootfsTar, dir, volumes, environment } = options
  const root = path.join(dir, 'rootfs')
  mkdirSync(root)
  execFileSync('tar', ['-C', root, '-xf', rootfsTar])
  const lines = BY_ITSELF.map(each => `rw ${each} ${each}`)
  for (const { name, mountPath, readOnly } of container.volumeMounts) {
    const from = volumes[name]
    if (from === undefined) throw new Error(`no directory stands for the volume ${name}`)
    lines.push(`${readOnly ? 'ro' : 'rw'} ${from} ${mountPath}`)
  }
  // The service account's files, which the kubelet adds.
  lines.push(`ro ${volumes.token} /run/secrets/kubernetes.io/serviceaccount`)
  for (const line of lines) mkdirSync(path.join(root, line.split(' ')[2] as string), { recursive: true })
  const mounts = path.join(dir, 'mounts')
  writeFileSync(mounts, `${lines.join('\n')}\n`)
  const args = container.args.map(arg => arg.replace(/\$\((\w+)\)/g, (_, name) => environment[name] ?? ''))
  return [
    ...['env', '-i', 'PATH=/usr/sbin:/usr/bin', ...Object.entries(environment).map(pair => pair.join('='))],
    ...['unshare', '--mount', '--propagation', 'private', 'sh', '-c', SCRIPT, 'sh'],
    ...[root, mounts, dropped(container.securityContext.capabilities.add).join(), ...args],
  ]
}

/** The bits of these capabilities, as /proc/PID/status shows them. */
export function capabilityMask(names: readonly string[]): string {
  const mask = names.reduce((sum, name) => sum | (1n << BigInt(capabilityNumber(name))), 0n)
  return mask.toString(16).padStart(16, '0')
}

/** Numbers of all capabilities but these. */
function dropped(kept: readonly string[]): number[] {
  const last = Number(readFileSync('/proc/sys/kernel/cap_last_cap', 'utf8'))
  const numbers = kept.map(capabilityNumber)
  return Array.from({ length: last + 1 }, (_, i) => i).filter(number => !numbers.includes(number))
}

function capabilityNumber(name: string): number {
  const header = readFileSync('/usr/include/linux/capability.h', 'utf8')
  const found = new RegExp(`^#define CAP_${name}\\s+([0-9]+)`, 'm').exec(header)?.[1]
  if (found === undefined) throw new Error(`no capability ${name}`)
  return Number(found)
}
