import { fileURLToPath } from 'node:url'
import { systemClock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { Config } from '../config/config.js'
import { cleanupEbpf } from '../dataplane/ebpf/cleanup.js'
import { EbpfDataplane } from '../dataplane/ebpf/ebpf-dataplane.js'
import { cleanupIptables } from '../dataplane/iptables/cleanup.js'
import { IptablesDataplane } from '../dataplane/iptables/iptables-dataplane.js'
import { cleanupNftables, NFTABLES_TABLE } from '../dataplane/nftables/cleanup.js'
import { NftablesDataplane } from '../dataplane/nftables/nftables-dataplane.js'
import type { Native } from '../ebpf/native.js'
import { readNetworkFacts } from '../host/facts.js'
import { DirSource } from '../k8s/dir-source.js'
import { loadKubeAccess } from '../k8s/kube-access.js'
import { KubeEvents } from '../k8s/kube-events.js'
import { KubeSource } from '../k8s/kube-source.js'
import { Agent, type AgentDataplane } from './agent.js'
import { Checkpoint } from './checkpoint.js'
import { DaemonError } from './errors.js'
import { Lock, lockKey } from './lock.js'
import { jsonLogger, stderrSink, textLogger } from './logger.js'
import { setOomScore } from './machine.js'
import { objectsDir } from './paths.js'
import { ruleSettings } from './rule-settings.js'

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
  if (dataplane === 'ipvs') {
    throw new DaemonError('NOT_AVAILABLE', {
      what: `use the dataplane ${dataplane}: it is not available yet`,
      remedy: 'use --dataplane ebpf, nftables or iptables',
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
      dataplane: await makeDataplane(config, native, logger),
      readFacts: () => readNetworkFacts(native),
      listenToNetwork: onChange => native.openNetlinkWatch(onChange),
      clock: systemClock,
      logger,
      random: Math.random,
      version,
      lockIsHeld: () => lock.isHeld(),
      ...(source instanceof KubeSource && { watches: () => source.status() }),
      ...(events && { events }),
      ...(source instanceof KubeSource &&
        config.checkpointDir !== 'none' && {
          checkpoint: new Checkpoint({
            dir: config.checkpointDir,
            owner: { node: config.nodeName, source: source.name },
            clock: systemClock,
            logger,
          }),
        }),
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

/** @throws DaemonError when what another dataplane left would translate, too. */
async function makeDataplane(config: Config, native: Native, logger: Logger): Promise<AgentDataplane> {
  const { dataplane } = config
  if (dataplane === 'ebpf') return makeEbpf(config, native, logger)
  await refuseLeftovers(config, native)
  const common = { ...ruleSettings(config), logger, clock: systemClock }
  if (dataplane === 'nftables') return new NftablesDataplane({ ...common, table: NFTABLES_TABLE })
  return new IptablesDataplane({ ...common, profile: config.iptablesProfile, variant: config.iptablesVariant })
}

async function refuseLeftovers(config: Config, native: Native): Promise<void> {
  const { dataplane, pinDir } = config
  const refuse = (other: string, what: string) => {
    throw new DaemonError('OTHER_DATAPLANE', {
      what: `start the dataplane ${dataplane}: ${what}`,
      remedy: `run \`waggle cleanup --dataplane ${other}\` first, or use --dataplane ${other}`,
    })
  }
  if (cleanupEbpf(native, pinDir, true).length > 0)
    refuse('ebpf', `programs of the dataplane ebpf are attached (${pinDir})`)
  if (dataplane !== 'nftables' && (await cleanupNftables(NFTABLES_TABLE, true).catch(() => [])).length > 0)
    refuse('nftables', `tables of the dataplane nftables are there (${NFTABLES_TABLE})`)
  if (dataplane !== 'iptables' && (await cleanupIptables(true)).length > 0)
    refuse('iptables', 'rules of the dataplane iptables, or of a kube-proxy, are there')
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
    flowTable: config.flowTable,
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
