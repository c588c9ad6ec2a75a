import { KUBE_PROXY_FIELDS } from '../../src/config/kube-proxy-fields.js'
import { OTHER_VARIABLES } from '../../src/config/names.js'
import { environmentName, OPTION_KEYS, type OptionKey, optionOf } from '../../src/config/options.js'
import { code, page, table } from './markdown.js'

/** docs/reference/configuration.md: every setting of `waggle run`. */
export function configurationPage(): string {
  const groups = [...new Set(OPTION_KEYS.map(key => optionOf(key).group))]
  return page(
    '# Configuration',
    `Settings of \`waggle run\`. Each can be given as a flag, as an environment variable or in a YAML file named by
\`--config\`; a flag counts before the variable, that before the file, that before the default. An empty variable counts
as not set. Unknown names are errors, and all mistakes are reported at once. Settings are read at start: a change takes a
restart, which traffic does not notice. When the file comes to ask for other settings, the agent ends with status 3 within
five seconds, so that its supervisor starts it again; a file that is broken or gone is told, and the settings stay. The
limits hold from when the maps are made; to change them, \`waggle cleanup\` must remove the maps first.`,
    `\`\`\`yaml
# /etc/waggle/waggle.yaml
source: dir:/etc/waggle/manifests
nodePortAddresses: [primary]
logFormat: json
\`\`\``,
    ...groups.map(group => `## ${group}\n\n${settings(OPTION_KEYS.filter(key => optionOf(key).group === group))}`),
    `## Types

- duration: numbers with units, such as \`50ms\`, \`30s\`, \`2h4m\`.
- list: separated by commas, or the flag repeated, or a YAML list.
- address:port: \`10.0.0.1:80\`, \`[2001:db8::1]:80\`, or the address alone for the default port.
- name of a device: may hold \`*\` and \`?\`.`,
    kubeProxy(),
    `## Other environment variables\n\n${table(
      ['Variable', 'Meaning'],
      Object.entries(OTHER_VARIABLES).map(([name, meaning]) => [code(name), meaning]),
    )}`,
  )
}

/** What becomes of kube-proxy's own configuration, from the table that translates it. */
function kubeProxy(): string {
  const rows = KUBE_PROXY_FIELDS.map(({ path, flag, type, standard, key, effect }) => [
    path === undefined ? '-' : code(path),
    flag === undefined ? '-' : code(flag.length === 1 ? `-${flag}` : `--${flag}`),
    type.name,
    standard === '' ? '-' : code(standard),
    key === undefined ? 'no' : 'yes',
    effect,
  ])
  return `## kube-proxy's configuration

\`--config\` also takes a \`KubeProxyConfiguration\` of \`kubeproxy.config.k8s.io/v1alpha1\`, and \`waggle run\` kube-proxy's
flags. waggle's own settings may stand in the same file, as a second YAML document without \`kind\`; kube-proxy reads the
first document alone, unless the file begins as JSON. There, and among flags, waggle's own name counts before kube-proxy's. Unlike in kube-proxy, flags
count before the file.

\`\`\`yaml
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.244.0.0/16
---
devices: [auto, flannel.1]
\`\`\`

With such a file or with \`--proxy-mode\`, \`nodePortAddresses\`, \`oomScoreAdj\`, the IPVS scheduler and the addresses of an
IPv6 node have kube-proxy's defaults where nobody sets them. All other settings keep waggle's: an unset
\`minSyncPeriod\` is 50 ms. null, empty and zero values count as not set where they do in kube-proxy.

A field that becomes a setting is checked and followed like it. Of the others, each that is set to something else than
kube-proxy's default is named once at start, with what happens instead. Unknown fields, and values that kube-proxy would
refuse, end the start with status 2.

${table(['Field', 'Flag', 'Type', 'Default of kube-proxy', 'Followed', 'What waggle does'], rows)}

\`--cleanup\`, \`--init-only\`, \`--version\` and \`--write-config-to\` are refused with what to use instead.`
}

function settings(keys: readonly OptionKey[]): string {
  return table(
    ['Flag', 'Variable', 'File', 'Type', 'Default', 'Stability', 'Meaning'],
    keys.map(key => {
      const { flag, type, fallback, description, stability } = optionOf(key)
      const shown = 'value' in fallback ? code(type.print(fallback.value)) : fallback.derived
      const cells = [
        code(`--${flag}`),
        code(environmentName(flag)),
        code(key),
        type.name,
        shown,
        stability,
        description,
      ]
      return cells
    }),
  )
}
