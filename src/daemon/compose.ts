import { fileURLToPath } from 'node:url'
import { systemClock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { Config } from '../config/config.js'
import { cleanupEbpf } from '../dataplane/ebpf/cleanup.js'
import { EbpfDataplane } from '../dataplane/ebpf/ebpf-dataplane.js'
import { IptablesDataplane } from '../dataplane/iptables/iptables-dataplane.js'
import type { Native } from '../ebpf/native.js'
import { readNetworkFacts } from '../host/facts.js'
import { DirSource } from '../k8s/dir-source.js'
import { loadKubeAccess } from '../k8s/kube-access.js'
import { KubeEvents } from '../k8s/kube-events.js'
import { KubeSource } from '../k8s/kube-source.js'
import { Agent } from './agent.js'
import { DaemonError } from './errors.js'
import { Lock, lockKey } from './lock.js'
import { jsonLogger, stderrSink, textLogger } from './logger.js'
import { setOomScore } from './machine.js'
import { objectsDir } from './paths.js'

/** Writes to standard error as the configuration says. */
export function makeLogger(config: Config): Logger {
  const sink = stderrSink()
  if (config.logFormat === 'json') return jsonLogger(config.logLevel, sink)
  return textLogger(config.logLevel, sink, systemClock.wall)
}

/** A running agent and how to end it. */
export interface Running {
  readonly agent: Agent
  stop(): Promise<void>
}

/**
 * Builds and starts everything that one node needs.
 *
 * @throws DaemonError, KubeError or NativeError when it cannot start
 */
export async function startAgent(config: Config, native: Native, logger: Logger, version: string): Promise<Running> {
  const { dataplane } = config
  if (dataplane !== 'ebpf' && dataplane !== 'iptables') {
    throw new DaemonError('NOT_AVAILABLE', {
      what: `use the dataplane ${dataplane}: it is not available yet`,
      remedy: 'use --dataplane ebpf or --dataplane iptables',
    })
  }
  if (config.oomScoreAdj !== undefined) setOomScore(config.oomScoreAdj, logger)
  // Before the lock, as the lock's name follows from the mounted file system.
  native.mountBpffs(config.bpffs)
  const lock = await Lock.acquire(config.runDir, lockKey(config.bpffs, config.pinDir), config.pinDir, version)
  try {
    const { source, events } = await makeSource(config, logger)
    const agent = new Agent({
      config,
      source,
      dataplane: dataplane === 'ebpf' ? makeEbpf(config, native, logger) : makeIptables(config, native, logger),
      readFacts: () => readNetworkFacts(native),
      listenToNetwork: onChange => native.openNetlinkWatch(onChange),
      clock: systemClock,
      logger,
      random: Math.random,
      version,
      lockIsHeld: () => lock.isHeld(),
      ...(source instanceof KubeSource && { watches: () => source.status() }),
      ...(events && { events }),
    })
    await agent.start()
    return {
      agent,
      async stop() {
        await agent.stop()
        lock.release()
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

async function makeSource(
  config: Config,
  logger: Logger,
): Promise<{ readonly source: DirSource | KubeSource; readonly events?: KubeEvents }> {
  if (config.source.kind === 'dir') return { source: new DirSource(config.source.path) }
  const { nodeName, kubeServers: servers = [] } = config
  const access = await loadKubeAccess(config.kubeconfig === undefined ? {} : { kubeconfig: config.kubeconfig })
  return {
    source: new KubeSource({ access, servers, nodeName, log: logger }),
    events: new KubeEvents({ access, servers, nodeName, clock: systemClock, logger }),
  }
}

/** @throws DaemonError while programs of the ebpf dataplane are attached: both would translate. */
function makeIptables(config: Config, native: Native, logger: Logger): IptablesDataplane {
  if (cleanupEbpf(native, config.pinDir, true).length > 0) {
    throw new DaemonError('OTHER_DATAPLANE', {
      what: `start the dataplane iptables: programs of the dataplane ebpf are attached (${config.pinDir})`,
      remedy: 'run `waggle cleanup` first, or use --dataplane ebpf',
    })
  }
  return new IptablesDataplane({
    profile: config.iptablesProfile,
    variant: config.iptablesVariant,
    masqueradeAll: config.masqueradeAll,
    anyNodeAddress: config.nodePortAddresses.includes('all'),
    localhostNodePorts: config.localhostNodePorts,
    logger,
    clock: systemClock,
  })
}

function makeEbpf(config: Config, native: Native, logger: Logger): EbpfDataplane {
  const { pinDir, bpffs, cgroup } = config
  return new EbpfDataplane({
    native,
    objectsDir: objectsDir(fileURLToPath(import.meta.url)),
    pinDir,
    bpffs,
    cgroup,
    limits: {
      services: config.maxServices,
      frontends: config.maxFrontends,
      backends: config.maxBackends,
      slots: config.maxSlots,
      flows: config.maxFlows,
      sourceRanges: config.maxSourceRanges,
    },
    answerPing: config.answerPing,
    sourcePorts: {
      first: config.sourcePorts,
      last: config.sourcePortsLast === 'none' ? undefined : config.sourcePortsLast,
    },
    adoptConntrack: config.adoptConntrack,
    xdp: config.xdp,
    xdpDropUnknownPorts: config.xdpDropUnknownPorts,
    timeouts: {
      tcpEstablishedSeconds: config.flowTcpEstablishedTimeout / 1000,
      tcpTransitorySeconds: config.flowTcpTransitoryTimeout / 1000,
      tcpClosedSeconds: config.flowTcpClosedTimeout / 1000,
      udpSeconds: config.flowUdpTimeout / 1000,
      udpStreamSeconds: config.flowUdpStreamTimeout / 1000,
    },
    logger,
    clock: systemClock,
  })
}
