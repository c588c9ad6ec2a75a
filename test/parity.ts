/**
 * kube-proxy's own tests (Kubernetes 1.36: unit tests of pkg/proxy, end-to-end tests of
 * test/e2e/network) with the tests of ours that hold the same, or why it does not apply.
 * tools/gen-docs looks every test up and writes docs/reference/kube-proxy-tests.md.
 */
export interface ParityRow {
  /** As kube-proxy's test is called, or what it is about. */
  readonly theirs: string
  /** What it holds. */
  readonly holds: string
  /** `FILE below test/ > TITLE or its beginning`; a script has no title. */
  readonly ours?: readonly string[]
  /** Why there is no test of ours, or what of it is left out. */
  readonly why?: string
}

export interface ParityGroup {
  readonly group: string
  readonly rows: readonly ParityRow[]
}

/** Named by many rows. */
const ORACLE = 'cluster/oracle.test.ts > the plan against the real kube-proxy'
const CHOICE = 'unit/plan-endpoints.test.ts > choice of endpoints'
const REFUSED_SOCKET = 'bpf/sock-connect.test.ts > refused at once'
const REFUSED_PACKET = 'bpf/tc-reject.test.ts > row 40: a SYN, $name: reset'
const REFUSED_LAB = 'netns/policy.test.ts > row 40: refused at once'
const RENDER = 'unit/iptables-render.test.ts'

const NO_IPVS = 'there is no dataplane ipvs'
const API_ONLY = 'about the API server and its controllers alone'

export const PARITY: readonly ParityGroup[] = [
  {
    group: 'Unit tests: Services, EndpointSlices, topology, Node',
    rows: [
      {
        theirs: 'TestServiceToServiceMap',
        holds: 'which Services count, with which ports, addresses and source ranges of each family',
        ours: [
          'unit/convert.test.ts > is absent: %s',
          'unit/convert.test.ts > set fields are taken over, addresses in canonical form',
          'unit/convert.test.ts > ingress entries: ipMode Proxy and host names are passed over, unknown modes named',
          'unit/convert.test.ts > source ranges %j let in %j',
          'unit/plan-planner.test.ts > one for each port and family; frontends and backends share the family',
          'unit/plan-planner.test.ts > a family without cluster IP is not served, external addresses of it neither',
        ],
      },
      {
        theirs: 'TestServiceMapUpdateHeadless, TestUpdateServiceTypeExternalName',
        holds: 'headless and ExternalName Services are nothing',
        ours: [
          'scripts/ownership.script',
          'scripts/services-come-and-go.script',
          'unit/scenarios.test.ts > B059: a headless Service %s is nothing, one that gets an address is new',
        ],
      },
      {
        theirs: 'TestBuildServiceMapAddRemove',
        holds: 'five Services of all kinds come, all but one go',
        ours: [
          'scripts/services-come-and-go.script',
          'unit/plan-health-checks.test.ts > checks follow the Services that changed, down to zero endpoints, and go with them',
        ],
      },
      {
        theirs: 'TestBuildServiceMapServiceUpdate',
        holds: 'ClusterIP to load balancer and back; the same again is no change',
        ours: ['scripts/service-changes-type.script'],
      },
      {
        theirs: 'TestEndpointsMapFromESC, TestEndpointInfoByServicePort',
        holds: 'slices are merged by port name and address; bad ports are left out',
        ours: [
          'unit/plan-endpoints.test.ts > slices are merged',
          'unit/convert.test.ts > a wrong port is left out, the rest goes on: %s',
          'scripts/slices-change.script',
        ],
      },
      {
        theirs: 'TestEsDataChanged',
        holds: 'the same slice again is no change; ports, conditions and hints are',
        ours: [
          'unit/plan-store.test.ts > an object that comes again unchanged keeps its identity',
          'unit/plan-planner.test.ts > whatever may change is noticed',
          'scripts/slices-change.script',
        ],
      },
      {
        theirs: 'TestUpdateEndpointsMap',
        holds: 'unnamed, named, renamed, renumbered ports; addresses and ports that come and go; the local flag',
        ours: ['scripts/ports-change.script', 'scripts/slices-change.script', 'scripts/scale.script'],
      },
      {
        theirs: 'TestUpdateEndpointsMap (UDP endpoints that went, UDP Services that began)',
        holds: 'what has to be cleared for UDP clients',
        ours: [
          'netns/udp-removal.test.ts > a UDP backend that is removed',
          'bpf/tc-journeys.test.ts > row 41: the last backend gone: refused, and no flow remains',
        ],
      },
      {
        theirs: 'TestLastChangeTriggerTime',
        holds: 'how long a change took counts from the annotation of its slice',
        ours: [
          'unit/convert.test.ts > the annotation with the time of the last change, %s, is %s',
          'unit/metrics.test.ts > network programming takes from the trigger of a slice to the apply that has it',
          'unit/sync-agent.test.ts > network programming is measured for slices that changed since the agent started',
        ],
      },
      {
        theirs: 'TestServiceCacheLeaks, TestEndpointSliceCacheClearedCorrectly, TestCheckoutChanges',
        holds: 'nothing is kept of what is gone',
        ours: ['unit/plan-store.test.ts > nothing stays of what is gone'],
      },
      {
        theirs: 'TestGetLocalEndpointIPs',
        holds: 'which endpoints health checks count',
        ours: ['unit/plan-health-checks.test.ts > of $slices.0.endpoints … count $IPv4 and $IPv6'],
      },
      {
        theirs: 'TestEndpointSliceUpdate',
        holds: 'slices that come, overlap, lose ports, go; transitions between ready, unready, terminating',
        ours: ['scripts/slices-change.script', 'scripts/policies.script'],
      },
      {
        theirs: 'TestCategorizeEndpoints',
        holds: 'ready, terminating, hints for zones and nodes, both policies, in all combinations',
        ours: [
          CHOICE,
          'unit/plan-endpoints.test.ts > the order of slices and endpoints does not matter, and lists keep their promises',
          'scripts/topology.script',
          ORACLE,
        ],
      },
      {
        theirs: 'TestCategorizeEndpoints (hints)',
        holds: 'a missing hint, a node without zone, a zone without endpoints',
        ours: [CHOICE, 'unit/scenarios.test.ts > B040: hints: %s'],
      },
      {
        theirs:
          'TestNewNodeManager, TestNodeManagerOnNodeChange, TestNodeManagerOnNodeDelete, TestNewNodeTopologyConfig',
        holds: 'waits for the Node; ends the process when its addresses or pod networks change',
        ours: [
          'unit/plan-planner.test.ts > follow the addresses of the node, and stay when its object goes',
          "unit/plan-source-ranges.test.ts > pod networks are those given, else the node's own, and are kept when the node goes",
          'unit/plan-planner.test.ts > a node that moves to another zone chooses anew where there are hints',
        ],
        why: 'the process does not end: changes of the Node are followed',
      },
      {
        theirs: 'config: TestNewServices…, TestNewEndpoints…, TestNewNodes…, TestInitialSync',
        holds: 'adds, updates and deletes reach the handlers in order; synced once after the first list',
        ours: [
          'unit/kube-source.test.ts > first lists, synced once a kind, then changes',
          'unit/sync-loop.test.ts > nothing is written while Services or EndpointSlices are incomplete',
        ],
      },
      {
        theirs: 'TestValidate…, TestDefaults…, TestRoundTrip… of the configuration, TestAppendPortIfNeeded',
        holds: 'each bad value is refused, each field has its default',
        ours: [
          'unit/config-kube-proxy.test.ts > unknown fields, wrong values, another version: file, line, path, value, and what is allowed',
          'unit/config-kube-proxy.test.ts > each field has one path, and its default becomes a setting or is no remark',
          'unit/config.test.ts > all mistakes of all places come at once, each with its place',
        ],
      },
      {
        theirs:
          'TestShouldSkipService, TestMapIPsByIPFamily, TestMapCIDRsByIPFamily, TestGetClusterIPByFamily, TestIsZeroCIDR',
        holds: 'sorted by family; spaces cut off; what cannot be read is left out',
        ours: [
          'unit/convert.test.ts > source ranges %j let in %j',
          'unit/convert.test.ts > addresses of a family without cluster IP are left out and named',
        ],
      },
      {
        theirs: 'TestGetNodeIPs, TestContainsIPv4Loopback',
        holds: 'CIDRs, primary, localhost, all, of both families',
        ours: [
          'unit/plan-node-addresses.test.ts > $wanted of this machine are $got',
          'unit/plan-node-addresses.test.ts > node ports follow the addresses of the machine, without any Node object too',
        ],
      },
      {
        theirs: 'TestDetectLocalByCIDR, …ByBridgeInterface, …ByInterfaceNamePrefix',
        holds: 'who is a pod, by network, bridge or name of the device',
        ours: [
          'unit/sync-agent.test.ts > with --detect-local-mode %s packets from %j are a pod',
          'bpf/tc-client.test.ts > kind %i: a pod reaches any backend, an outside client one of this node',
        ],
      },
      {
        theirs: 'metaproxier',
        holds: 'events go to the proxier of their family',
        ours: [
          'unit/plan-planner.test.ts > one for each port and family; frontends and backends share the family',
          'scripts/dual-stack.script',
        ],
      },
      {
        theirs: 'Test_BoundedFrequencyRunner…',
        holds: 'least and longest time between syncs, bursts, retries',
        ours: [
          'unit/sync-loop.test.ts > a change after a pause is applied at once, with its ids alone',
          'unit/sync-loop.test.ts > churn is coalesced to one apply for each period, the newest state winning',
          'unit/sync-loop.test.ts > one failing Service is tried again with growing pauses while others go on',
          'unit/sync-loop.test.ts > everything is compared once a period',
        ],
      },
    ],
  },
  {
    group: 'Unit tests: what packets meet, in every mode',
    rows: [
      {
        theirs: 'TestNoEndpointsReject, TestClusterIPReject, TestExternalIPsReject, TestNodePortReject',
        holds: 'pods, nodes and outside clients are refused at each kind of frontend',
        ours: [REFUSED_SOCKET, REFUSED_PACKET, REFUSED_LAB, 'scripts/no-endpoints.script', ORACLE],
      },
      {
        theirs: 'TestClusterIPGeneral',
        holds: 'several ports, other target ports, one number for TCP, UDP and SCTP, a pod that reaches itself',
        ours: [
          'netns/traffic.test.ts > traffic through every kind of frontend',
          'scripts/ports-change.script',
          'bpf/tc-hairpin.test.ts > row 36: $family $proto: a pod that reaches itself sees the node, and gets its answer',
          'netns/filters.test.ts > row 36: a pod reaches itself through %s',
          ORACLE,
        ],
      },
      {
        theirs: 'TestLoadBalancer, TestLoadBalancerSourceRanges',
        holds: 'source ranges let in and keep out; the node by the address itself; node ports are not bound',
        ours: [
          'bpf/tc-filter.test.ts > row 39: let in whom they name, drop all others, in TCP and UDP',
          'bpf/tc-filter.test.ts > row 39: bind the load-balancer address alone',
          'netns/filters.test.ts > row 39: a range of outside clients lets them in, pods and nodes not: %s',
          "netns/filters.test.ts > a node's address lets in that node: %s",
          ORACLE,
        ],
      },
      {
        theirs: 'TestNodePorts',
        holds: 'on which addresses, loopback among them or not, both families',
        ours: [
          'unit/plan-node-addresses.test.ts > $wanted of this machine are $got',
          'unit/plan-planner.test.ts > at $wanted',
          "bpf/sock-client.test.ts > node ports on loopback are the node's: a pod's loopback is its own",
          "bpf/tc-filter.test.ts > a node port on loopback is nobody's from outside",
          'netns/filters.test.ts > %s is a node port of the node, and nothing in a pod',
        ],
      },
      {
        theirs: 'TestExternalTrafficPolicyLocal, TestOnlyLocalLoadBalancing, TestOnlyLocalNodePorts',
        holds: 'outside clients get endpoints of this node or nothing; pods and the node get any',
        ours: [
          'bpf/tc-journeys.test.ts > externalTrafficPolicy Local: only backends here, with the client address',
          'netns/policy.test.ts > keeps the address of an outside client: %s',
          'netns/policy.test.ts > drops where no backend is on the node: %s',
          'netns/policy.test.ts > does not bind a pod on another node: %s',
          ORACLE,
        ],
      },
      {
        theirs: 'TestExternalTrafficPolicyCluster',
        holds: 'everybody gets any endpoint',
        ours: ['netns/traffic.test.ts > traffic through every kind of frontend', ORACLE],
      },
      {
        theirs: 'TestInternalTrafficPolicy',
        holds: 'Cluster; Local with, without a local endpoint; none at all',
        ours: [
          'bpf/sock-connect.test.ts > internal Local binds the cluster address: only the backend of this node',
          'bpf/tc-client.test.ts > internalTrafficPolicy: Local binds a pod, too',
          'netns/policy.test.ts > uses a backend on the node of the caller: %s',
          'netns/policy.test.ts > has none elsewhere: %s',
          ORACLE,
        ],
      },
      {
        theirs: 'TestTerminatingEndpointsTrafficPolicyLocal, …Cluster',
        holds: 'ready ones win; else those that serve while they terminate; else dropped or refused',
        ours: [
          CHOICE,
          'scripts/policies.script',
          'netns/policy.test.ts > row 42: those that still serve while terminating are used: %s',
          ORACLE,
        ],
      },
      {
        theirs: 'TestInternalExternalMasquerade',
        holds: 'which source address a backend sees: 30 flows in four settings',
        ours: [
          'bpf/tc-client.test.ts > a backend here keeps the address of either',
          'bpf/tc-journeys.test.ts > rows 1 and 2: to a backend on another node, and back',
          'netns/policy.test.ts > keeps the address of an outside client: %s',
          `${RENDER} > a node port is masqueraded unless its policy is Local`,
          `${RENDER} > with --masquerade-all every connection through a ClusterIP is masqueraded`,
          ORACLE,
        ],
        why: 'where the ebpf dataplane keeps an address that kube-proxy does not: [semantics.md](../semantics.md#source-addresses)',
      },
      {
        theirs: 'TestNoEndpointsMetric',
        holds: 'Services whose policy finds no endpoint here are counted',
        ours: ['unit/metrics.test.ts > Services without a local backend: %s'],
      },
      {
        theirs: 'TestLoadBalancerIngressRouteTypeProxy',
        holds: 'an address of mode Proxy is left to the load balancer',
        ours: [
          'unit/scenarios.test.ts > B062: of the addresses of a load balancer only those that nodes may answer, also when that changes',
          'scripts/service-changes-type.script',
          ORACLE,
        ],
      },
      {
        theirs: 'TestBadIPs',
        holds: 'leading zeros are decimal',
        ours: ['unit/convert.test.ts > the address %s, which the API lets through, is %s'],
      },
      {
        theirs: 'TestHealthCheckNodePort, TestHealthCheckNodePortWhenTerminating',
        holds: 'the port is open; endpoints that terminate do not count',
        ours: [
          'netns/health-checks.test.ts > say where the endpoints are, to a client outside, in both families',
          'unit/plan-health-checks.test.ts > of $slices.0.endpoints … count $IPv4 and $IPv6',
          ORACLE,
        ],
      },
      {
        theirs: 'TestSyncProxyRulesRepeated',
        holds: 'a change writes what belongs to it and no more; after a failure everything is looked at',
        ours: [
          'unit/plan-planner.test.ts > step by step gives what a start from scratch gives, and says exactly what changed',
          'unit/iptables-change.test.ts > only chains that differ are written, whole',
          'netns/iptables-rules.test.ts > a change writes its own chains',
          'bpf/apply-crash.test.ts > a tenth of the writes fail: repeating apply ends at what is desired',
        ],
      },
      {
        theirs: 'TestEndpointSliceE2E, TestDeleteEndpointConnections',
        holds: 'endpoints that come and go reach the kernel',
        ours: ['cli/agent.test.ts > an edit is in the kernel within a second', 'scripts/scale.script'],
      },
    ],
  },
  {
    group: 'Unit tests: iptables',
    rows: [
      {
        theirs: 'TestOverallIPTablesRules',
        holds: 'the rules of one Service of each kind',
        ours: [
          `${RENDER} > the listings of the documents come out`,
          'cluster/iptables-rules.test.ts > --dataplane iptables against the real kube-proxy',
          'netns/iptables-rules.test.ts > iptables-save lists what was rendered, the documents listings among it',
        ],
      },
      {
        theirs: 'TestComputeProbability',
        holds: 'the text of each probability',
        ours: ['unit/iptables-names.test.ts > the probability of one of %i, written with %i decimals, is listed as %s'],
      },
      {
        theirs: 'TestSyncProxyRulesLargeClusterMode',
        holds: 'more than 1,000 endpoints: no comments',
        ours: [`${RENDER} > more than 1,000 backends: rules of endpoints without comments`],
      },
      {
        theirs: 'TestDropInvalidRule, TestMasqueradeRule, nfacct, TestNumberIptablesRules',
        holds: 'rules that depend on what the machine can do',
        ours: ['netns/iptables-rules.test.ts > iptables-save lists what was rendered, the documents listings among it'],
        why: 'nfacct counters are not written',
      },
      {
        theirs: 'TestProxierMetricsIPTablesTotalRules',
        holds: 'the metric counts the rules',
        why: 'waggle counts Service ports, frontends and backends: [metrics](metrics.md)',
      },
      {
        theirs: 'names of chains (in the golden dumps)',
        holds: 'names of chains',
        ours: [
          'unit/iptables-names.test.ts > chains of %s %s end in %s',
          'unit/iptables-names.test.ts > the chain of an endpoint of %s at %s',
        ],
      },
    ],
  },
  {
    group: 'Unit tests: nftables',
    rows: [
      {
        theirs: 'TestOverallNFTablesRules, Test_servicePortChainNameBase, Test_servicePortEndpointChainNameBase',
        holds: 'shape of the rules',
        ours: [
          'unit/nftables-render.test.ts > names are as kube-proxy has them: %s/%s:%s',
          'unit/nftables-render.test.ts > each frontend is an element, the choice one rule',
          'netns/nftables-rules.test.ts > frontends are elements that lead to chains',
        ],
      },
      {
        theirs: 'TestSyncProxyRulesStartup',
        holds: 'what an earlier run left is taken over or put right',
        ours: [
          'bpf/apply-crash.test.ts > a process that dies after any write leaves a state that serves, and the next one finishes',
          'netns/restart.test.ts > what changed while it was away is applied by its start',
          'netns/nftables-rules.test.ts > a second agent finds everything as it wants it and writes nothing',
        ],
      },
      {
        theirs: 'TestProxier_OnServiceCIDRsChanged',
        holds: 'addresses of the Service range that no Service has are dropped',
        why: 'only addresses of Services are touched; others of the range go where the routes lead',
      },
      {
        theirs: 'TestTracePacketV4, TestTracePacketV6',
        holds: 'rules are followed without a kernel',
        ours: ['unit/oracle-nft-rules.test.ts > a %s that dials %s:%d'],
      },
    ],
  },
  {
    group: 'Unit tests: ipvs',
    rows: [
      {
        theirs:
          'TestClusterIP, TestExternalIPs, TestOnlyLocal…, TestSessionAffinity, Test_syncService, ipset and virtual servers',
        holds: 'virtual servers, sets and chains',
        why: `${NO_IPVS}; what they mean for Services is in the groups above`,
      },
      {
        theirs: 'Test_GracefulDeleteRS',
        holds: 'an endpoint that goes keeps its connections',
        ours: [
          'bpf/tc-journeys.test.ts > a connection to a removed backend goes on, a new SYN leaves it',
          'bpf/sock-datagram.test.ts > row 42: a terminating backend goes on serving those who have it',
        ],
      },
      {
        theirs: 'TestCleanupLeftovers, TestCleanLegacyService',
        holds: 'only what is stale and ours goes',
        ours: [
          'netns/cleanup.test.ts > cleanup after the agent was killed leaves nothing of ours',
          'netns/iptables-rules.test.ts > rules of others stay byte for byte, also when ours are removed',
        ],
      },
      {
        theirs: 'TestCanUseIPVSProxier, TestCheckIPSetVersion',
        holds: 'what the machine lacks is told',
        ours: ['unit/sync-agent.test.ts > what the machine lacks is named, and nothing is started'],
      },
    ],
  },
  {
    group: 'Unit tests: conntrack, health, loopback node ports',
    rows: [
      {
        theirs: 'TestCleanStaleEntries, TestServiceWithoutEndpoints, TestFlowFilter, TestConntracker_DeleteEntries',
        holds: 'UDP flows to what is gone end, all others stay, also those to endpoints that terminate',
        ours: [
          'netns/udp-removal.test.ts > a UDP backend that is removed',
          'bpf/sock-stale.test.ts > sockets on live backends and unconnected ones are left alone',
          'bpf/sock-stale.test.ts > tcp is left to its peer',
          'unit/iptables-change.test.ts > UDP exchanges to backends that are gone, or past the Service, are stale; those of others are not',
          'unit/iptables-change.test.ts > a backend that ends but serves keeps its exchanges',
        ],
      },
      {
        theirs: 'TestPerformanceCleanStaleEntries',
        holds: 'a million entries, dumps cut short',
        why: 'with ebpf nothing is dumped: a flow knows the generation of its backend. With iptables the conntrack tool does it',
      },
      {
        theirs: 'TestGetConntrackMax, TestSetupConntrack',
        holds: 'sysctls',
        why: 'settings of conntrack are left to the host',
      },
      {
        theirs: 'healthcheck TestServer',
        holds: 'servers come and go with Services; 200, 503, weight; the proxy itself unhealthy',
        ours: [
          "unit/health-check-ports.test.ts > kube-proxy's answer, at any path: status, weight, body",
          'unit/health-check-ports.test.ts > 503 without local endpoints, or when the proxy itself is not healthy; a leaving node changes nothing',
          'unit/health-check-ports.test.ts > servers follow Services, ports and addresses; a port may change hands',
        ],
      },
      {
        theirs: 'TestServerWithSelectiveListeningAddress',
        holds: 'only on the node port addresses',
        ours: [
          'netns/health-checks.test.ts > are served at node port addresses alone: not at the ClusterIP, not at the load balancer',
        ],
      },
      {
        theirs: 'TestHealthzServer, TestLivezServer',
        holds: 'healthy at the start, late changes, recovery, taint and deletion of the Node',
        ours: [
          'unit/health.test.ts > the body has the fields of kube-proxy',
          'unit/health.test.ts > while stale, lastUpdated is the last apply, or the zero time',
          'unit/sync-agent.test.ts > a Node that is gone or about to go makes healthz 503, livez not',
        ],
      },
      {
        theirs: 'localnodeportproxy',
        holds: 'a proxy in user space for node ports on loopback',
        ours: ["bpf/sock-client.test.ts > node ports on loopback are the node's: a pod's loopback is its own"],
        why: 'there is no such proxy: the socket layer serves them, UDP too',
      },
    ],
  },
  {
    group: 'End to end: service.go',
    rows: [
      {
        theirs: 'secure master service; serve a basic endpoint; multiport endpoints',
        holds: 'the API server by its Service; pods that come and go; ports that map to the right pods',
        ours: [
          'cluster/traffic.test.ts > a pod reaches the API server by its Service, whose endpoint is real',
          'cluster/traffic.test.ts > changes arrive: backends that go and come, a Service that ends',
          'unit/scenarios.test.ts > B056: a port has the endpoints of the slices that list it',
        ],
      },
      {
        theirs: 'same port with different protocols on different pods',
        holds: 'TCP and UDP of one number are two',
        ours: [
          'unit/scenarios.test.ts > B058: TCP and UDP of one number are two, at one Service and at an address that two share',
          'scripts/ports-change.script',
        ],
      },
      {
        theirs: 'preserve source pod IP via ClusterIP; hairpin',
        holds: 'a backend sees the pod; a pod reaches itself',
        ours: [
          'netns/traffic.test.ts > traffic through every kind of frontend',
          'netns/filters.test.ts > row 36: a pod reaches itself through %s',
        ],
      },
      {
        theirs: 'up and down; work after the Service was recreated',
        holds: 'a removed Service stops, others go on, a new one starts',
        ours: [
          'scripts/services-come-and-go.script',
          'netns/churn.test.ts > no connect fails, none reaches a stranger',
          ORACLE,
        ],
      },
      {
        theirs: 'work after restarting kube-proxy, the API server',
        holds: 'traffic goes on',
        ours: [
          'netns/restart.test.ts > kill -9 and start: no connect fails, no byte is lost, nothing is written',
          'cluster/traffic.test.ts > the API server is away for a while: traffic goes on, and changes arrive again',
        ],
      },
      {
        theirs: 'functioning NodePort service; same number for different protocols',
        holds: 'reachable on each node',
        ours: [
          'netns/traffic.test.ts > traffic through every kind of frontend',
          'unit/plan-planner.test.ts > other protocols and ports of one address do not clash',
        ],
      },
      {
        theirs: 'change the type: ExternalName, ClusterIP, NodePort [4]',
        holds: 'the Service follows its type',
        ours: [
          'scripts/service-changes-type.script',
          'unit/scenarios.test.ts > B061: to ExternalName and back, without a word from the slice',
          ORACLE,
        ],
      },
      { theirs: 'node port collisions, out of range, release', holds: 'allocation', why: API_ONLY },
      {
        theirs: 'publishNotReadyAddresses: tolerate unready, terminating pods [3]',
        holds: 'ready is what the slice says, whatever else it says',
        ours: ['unit/scenarios.test.ts > B044: conditions %j', CHOICE],
      },
      {
        theirs: 'session affinity for ClusterIP and NodePort; switched on and off; timeout [6]',
        holds: 'one pod or many; the end to the second',
        ours: [
          'netns/choice.test.ts > holds to the second, from %s',
          'netns/choice.test.ts > is per client: two pods are not bound to the same backends',
          'scripts/affinity-and-policies.script',
          'bpf/sock-affinity.test.ts > each use begins the timeout anew, and it ends to the second',
          'bpf/tc-journeys.test.ts > affinity: another connection of a client goes where the first went, even to another frontend',
        ],
      },
      {
        theirs: 'service.kubernetes.io/service-proxy-name, …/headless',
        holds: 'labelled Services and slices are left alone; the label may change',
        ours: [
          "unit/scenarios.test.ts > B060: another proxy's label takes a living Service away, and gives it back",
          'unit/convert.test.ts > labels that count on the other kind change nothing',
          'cluster/source.test.ts > changes arrive, and a Service that is given to another proxy goes',
          ORACLE,
        ],
      },
      {
        theirs: 'rejected when no endpoints exist; for evicted pods',
        holds: 'refused at once',
        ours: [
          REFUSED_SOCKET,
          REFUSED_PACKET,
          REFUSED_LAB,
          'bpf/tc-reject-sockets.test.ts > row 40: a Service without backends refuses %s at once',
        ],
      },
      {
        theirs: 'externalIP that no node has',
        holds: 'reachable from inside',
        ours: ['netns/traffic.test.ts > traffic through every kind of frontend'],
      },
      {
        theirs: 'internalTrafficPolicy Local: pod, host-network pod, both ways [3]',
        holds: 'local endpoints or none',
        ours: [
          'netns/policy.test.ts > uses a backend on the node of the caller: %s',
          'netns/policy.test.ts > has none elsewhere: %s',
        ],
      },
      {
        theirs: 'health check node port with terminating endpoints alone',
        holds: '503 while they still serve',
        ours: [
          'unit/plan-health-checks.test.ts > of $slices.0.endpoints … count $IPv4 and $IPv6',
          'netns/health-checks.test.ts > follow the endpoints within a second, down to none',
        ],
      },
      {
        theirs: 'fall back to terminating endpoints, both policies [4]',
        holds: 'as in the table of the KEP',
        ours: [
          CHOICE,
          'scripts/policies.script',
          'netns/policy.test.ts > row 42: those that still serve while terminating are used: %s',
          ORACLE,
        ],
      },
      {
        theirs: 'NodePort and HealthCheckNodePort when externalTrafficPolicy changes; Local for NodePort',
        holds: 'the policy may change while in use',
        ours: [
          'scripts/affinity-and-policies.script',
          'scripts/service-changes-type.script',
          'netns/policy.test.ts > keeps the address of an outside client: %s',
          ORACLE,
        ],
      },
      {
        theirs: 'named targetPorts that resolve to different ports on different endpoints',
        holds: 'a number for each endpoint',
        ours: ['unit/scenarios.test.ts > B057: one name, a number for each endpoint', ORACLE],
      },
      {
        theirs: 'updated after adding or deleting ports',
        holds: 'ports follow the Service',
        ours: ['scripts/ports-change.script', ORACLE],
      },
      {
        theirs: 'basic SCTP service',
        holds: 'rules and endpoints are there',
        ours: [ORACLE],
        why: 'the comparison shows the plan; what the dataplanes do with SCTP: [semantics.md](../semantics.md#not-there-yet)',
      },
      {
        theirs:
          'find from all namespaces; status lifecycle; collections; Endpoints and slice API; restartable init containers',
        holds: 'the API',
        why: API_ONLY,
      },
    ],
  },
  {
    group: 'End to end: the other files',
    rows: [
      {
        theirs: 'endpointslice.go: several addresses in several slices, several ports in several slices [2]',
        holds: 'slices made by hand lead to the right pods',
        ours: [
          'scripts/slices-change.script',
          'unit/scenarios.test.ts > B056: a port has the endpoints of the slices that list it',
          'unit/scenarios.test.ts > B057: one name, a number for each endpoint',
          ORACLE,
        ],
      },
      { theirs: 'endpointslice.go, endpointslicemirroring.go: the rest', holds: 'controllers', why: API_ONLY },
      {
        theirs: 'networking.go: granular checks, pods and Services, http, udp, affinity, large requests, hostNetwork',
        holds: 'every client reaches every backend by every frontend',
        ours: [
          'netns/traffic.test.ts > traffic through every kind of frontend',
          'netns/traffic.test.ts > a pod dialled directly',
          'bpf/tc-sockets.test.ts > a backend $where: 8 MB there and back, and datagrams up to six fragments (rows 12, 26, 27)',
          'netns/choice.test.ts > source hash: a client outside has one backend, whichever node it comes to',
        ],
      },
      {
        theirs: 'networking.go: update endpoints, update nodePort, several Services of one selector, secondary node IP',
        holds: 'changes are followed; node ports on other addresses',
        ours: [
          'netns/churn.test.ts > no connect fails, none reaches a stranger',
          'scripts/service-changes-type.script',
          'unit/plan-node-addresses.test.ts > $wanted of this machine are $got',
        ],
      },
      {
        theirs: 'networking.go: kube-proxy urls',
        holds: ':10249/proxyMode, :10256/healthz',
        ours: [
          'unit/sync-agent.test.ts > the metrics server names the dataplane and answers a ping',
          'unit/health.test.ts > the body has the fields of kube-proxy',
        ],
      },
      {
        theirs: 'networking.go: recreate its iptables rules if they are deleted',
        holds: 'what somebody takes away comes back',
        ours: [
          'netns/iptables-rules.test.ts > flushed rules are written anew at the next periodic apply',
          'netns/devices.test.ts > a program that somebody takes off is back a',
        ],
      },
      {
        theirs:
          'conntrack.go: UDP when pods cycle or the target port changes, NodePort, ClusterIP, hostNetwork, client before endpoints',
        holds: 'no client is stuck with what is gone',
        ours: [
          'netns/udp-removal.test.ts > a UDP backend that is removed',
          'netns/legacy-traffic.test.ts > a UDP exchange moves when its backend goes',
          'bpf/tc-journeys.test.ts > row 41: a datagram of a flow to a removed backend goes to another, from the same client port',
        ],
      },
      {
        theirs: 'conntrack.go: drop INVALID conntrack entries',
        holds: 'no reset reaches the client',
        ours: [
          'bpf/tc-journeys.test.ts > row 6: without a flow %s goes to the stack untouched',
          'netns/iptables-rules.test.ts > iptables-save lists what was rendered, the documents listings among it',
        ],
      },
      {
        theirs: 'kube_proxy.go: timeout of CLOSE_WAIT',
        holds: 'a sysctl',
        why: 'settings of conntrack are left to the host',
      },
      { theirs: 'kube_proxy.go: nfacct metrics', holds: 'two counters of the iptables mode', why: 'not written' },
      {
        theirs: 'localhost_nodeports.go [3]',
        holds: 'node ports on loopback where asked for',
        ours: ['netns/filters.test.ts > %s is a node port of the node, and nothing in a pod'],
        why: 'UDP is served, too',
      },
      {
        theirs: 'dual_stack.go',
        holds: 'both families, alone and together, in either order',
        ours: ['scripts/dual-stack.script', 'netns/traffic.test.ts > traffic through every kind of frontend', ORACLE],
      },
      {
        theirs: 'traffic_distribution.go, topology_hints.go',
        holds: 'same zone, same node, and back to all; a local endpoint that goes and returns',
        ours: ['scripts/topology.script', CHOICE, ORACLE],
      },
      {
        theirs:
          'loadbalancer.go: types and ports change, internal, no node ports, ESIPP, source ranges, rolling update',
        holds: 'addresses of load balancers follow the Service',
        ours: [
          'scripts/service-changes-type.script',
          'scripts/affinity-and-policies.script',
          'netns/filters.test.ts > row 39: a range of outside clients lets them in, pods and nodes not: %s',
          'netns/policy.test.ts > keeps the address of an outside client: %s',
          'netns/churn.test.ts > no connect fails, none reaches a stranger',
          ORACLE,
        ],
        why: 'what a cloud does is left out',
      },
      {
        theirs: 'funny_ips.go',
        holds: 'leading zeros are decimal',
        ours: ['unit/convert.test.ts > the address %s, which the API lets through, is %s'],
      },
      {
        theirs: 'service_cidrs.go',
        holds: 'Services of an added range',
        ours: ['cluster/traffic.test.ts > changes arrive: backends that go and come, a Service that ends'],
        why: 'no range is known to waggle: an address is as good as any other',
      },
      {
        theirs: 'pod_lifecycle.go',
        holds: 'pods that terminate still serve',
        ours: ['bpf/sock-datagram.test.ts > row 42: a terminating backend goes on serving those who have it', CHOICE],
      },
      {
        theirs: 'service_latency.go',
        holds: 'a new endpoint is soon reachable',
        ours: ['cli/agent.test.ts > an edit is in the kernel within a second'],
        why: 'figures: [performance.md](../performance.md)',
      },
      {
        theirs:
          'networking.go: Internet, static URLs; no_snat.go, hostport.go, proxy.go, dns.go, firewall.go, ingress*.go, network_policy*.go',
        holds: 'the CNI, the kubelet, the API server, DNS, policies',
        why: 'not a Service proxy’s',
      },
    ],
  },
]
