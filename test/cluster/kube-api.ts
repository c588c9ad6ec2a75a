import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { Command } from 'commander'
import { parseAllDocuments } from 'yaml'
import { ApiServer } from './api-server.js'

/** The command line of tools/kube-api. Exit status: 0 done, 1 failed or not running, 2 wrong usage. */

interface Options {
  readonly dir: string
  readonly listen: string
}

const program = new Command('kube-api')
  .description('A real kube-apiserver over etcd, for tests and labs; no controllers.')
  .option('--netns <name>', 'run in this network namespace (of /run/netns)') // taken by tools/kube-api itself
  .exitOverride(error => process.exit(error.exitCode === 0 ? 0 : 2))

const command = (name: string, description: string) =>
  program.command(name).description(description).requiredOption('--dir <dir>', 'where it keeps its files')

function print(api: ApiServer): void {
  const { server, agentKubeconfig, adminKubeconfig } = api
  process.stdout.write(`server=${server}\nkubeconfig=${agentKubeconfig}\nadmin-kubeconfig=${adminKubeconfig}\n`)
}

command('up', 'start both; prints server, the kubeconfig for agents and that of an administrator')
  .option('--listen <address>', 'address of the API server', '127.0.0.1')
  .action(async ({ dir, listen }: Options) => print(await ApiServer.up(path.resolve(dir), listen)))

command('stop', 'end the API server; etcd keeps the objects').action(({ dir }: Options) =>
  ApiServer.open(path.resolve(dir)).stop(),
)

command('start', 'start the API server again').action(({ dir }: Options) => ApiServer.open(path.resolve(dir)).start())

command('down', 'end both and remove their files').action(async ({ dir }: Options) => {
  // Nothing there is as good as done.
  if (statSync(path.join(dir, 'state.json'), { throwIfNoEntry: false })) await ApiServer.open(path.resolve(dir)).down()
})

command('status', 'print what runs; status 1 when a part does not').action(({ dir }: Options) => {
  const api = ApiServer.open(path.resolve(dir))
  const { etcd, apiserver } = api.running
  print(api)
  process.stdout.write(`etcd=${etcd ? 'running' : 'stopped'}\nkube-apiserver=${apiserver ? 'running' : 'stopped'}\n`)
  if (!etcd || !apiserver) process.exitCode = 1
})

command('apply', 'create the objects of manifests, or make them so; their status, too')
  .argument('<path...>', 'YAML or JSON files, or directories of them')
  .action(async (paths: string[], { dir }: Options) => {
    const objects = ApiServer.open(path.resolve(dir)).objects()
    await objects.apply(...paths.flatMap(read))
    objects.close()
  })

command('delete', 'delete the objects of manifests')
  .argument('<path...>', 'YAML or JSON files, or directories of them')
  .action(async (paths: string[], { dir }: Options) => {
    const objects = ApiServer.open(path.resolve(dir)).objects()
    await objects.delete(...paths.flatMap(read))
    objects.close()
  })

function read(file: string): object[] {
  if (statSync(file).isDirectory()) {
    const files = readdirSync(file).filter(name => /\.(ya?ml|json)$/.test(name))
    return files.sort().flatMap(name => read(path.join(file, name)))
  }
  return parseAllDocuments(readFileSync(file, 'utf8')).flatMap(document => {
    if (document.errors.length > 0) throw new Error(`${file}: ${document.errors[0]?.message}`)
    const object = document.toJS()
    return object === null ? [] : object.kind === 'List' ? object.items : [object]
  })
}

try {
  await program.parseAsync()
} catch (error) {
  process.stderr.write(`kube-api: ${(error as Error).message}\n`)
  process.exitCode = 1
}
