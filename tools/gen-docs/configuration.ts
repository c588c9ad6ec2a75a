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
restart, which traffic does not notice. The limits hold from when the maps are made; to change them, \`waggle cleanup\`
must remove the maps first.`,
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
    `## Other environment variables\n\n${table(
      ['Variable', 'Meaning'],
      Object.entries(OTHER_VARIABLES).map(([name, meaning]) => [code(name), meaning]),
    )}`,
  )
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
