/**
 * Counters in BPF programs: turns the LLVM IR that clang writes with its source-based
 * coverage into IR that a BPF object can be made of.
 *
 * Clang leaves a call of `llvm.instrprof.increment` at every place that counts, and the map
 * from counters to lines and branches in sections of their own, which libbpf skips. What
 * LLVM would make of the calls needs a runtime, so they become an atomic add into one array
 * in `.data.coverage`: libbpf makes a map of that, and user space reads it. The add is
 * inline assembly and leaves no register behind that is live, so that the verifier still
 * recognises states that it has seen. Written for the typed pointers of LLVM 14 and the
 * opaque ones of later versions.
 */

/** Section, and so name of the map, of the counters: 64-bit numbers, in memory order. */
export const COUNTERS_SECTION = '.data.coverage'

/** A C function with counters. */
export interface CountedFunction {
  /** As the profile of LLVM knows it: static ones with the file in front. */
  readonly name: string
  /** Of its control flow; a profile with another one is not its own. Unsigned, 64 bits. */
  readonly hash: bigint
  /** Index of its first counter in the array, and how many it has. */
  readonly first: number
  readonly counters: number
}

const NAME = /^@__profn_(?<symbol>\S+) = .*? c"(?<name>[^"]*)"/gm
const INCREMENT =
  /call void @llvm\.instrprof\.increment(?:\.step)?\([^@]*@__profn_(?<symbol>[^,)]+)(?:, i32 0, i32 0\))?, i64 (?<hash>-?\d+), i32 (?<counters>\d+), i32 (?<index>\d+)(?:, i64 (?<step>[^)]+))?\)/g

/** The functions with counters, by the symbol of their name, in order of their first appearance. */
export function countedFunctions(ir: string): Map<string, CountedFunction> {
  const names = new Map([...ir.matchAll(NAME)].map(({ groups }) => [groups?.symbol ?? '', groups?.name ?? '']))
  const functions = new Map<string, CountedFunction>()
  let first = 0
  for (const { groups } of ir.matchAll(INCREMENT)) {
    const { symbol = '', hash = '0', counters = '0' } = groups ?? {}
    if (functions.has(symbol)) continue
    const name = names.get(symbol)
    if (name === undefined) throw new Error(`counters of ${symbol}, which has no name`)
    functions.set(symbol, { name, hash: BigInt.asUintN(64, BigInt(hash)), first, counters: Number(counters) })
    first += Number(counters)
  }
  return functions
}

/** The IR with the counters of the functions that `chosen` takes; all others do not count. */
export function instrument(ir: string, chosen: (fn: CountedFunction, position: number) => boolean): string {
  const functions = countedFunctions(ir)
  const counting = new Set([...functions].filter(([, fn], position) => chosen(fn, position)).map(([symbol]) => symbol))
  const total = [...functions.values()].reduce((sum, fn) => sum + fn.counters, 0)
  // The type of a pointer to the array, as this IR writes pointers.
  const pointer = /^declare void @llvm\.instrprof\.increment(?:\.step)?\(i8\*/m.test(ir) ? `[${total} x i64]*` : 'ptr'
  const body = ir
    .replace(INCREMENT, (call, ...rest) => {
      const { symbol, index, step = '1' } = rest.at(-1) as Record<string, string | undefined>
      const fn = functions.get(symbol ?? '')
      if (!fn) throw new Error(`not understood: ${call}`)
      if (!counting.has(symbol ?? '')) return 'call void asm "", ""()'
      const at = `${pointer} @waggle_coverage`
      const add = (value: string) => `lock *(u64 *)(r1 + ${(fn.first + Number(index)) * 8}) += ${value}`
      return step === '1'
        ? `call void asm sideeffect "r1 = $0 ll\\0Ar0 = 1\\0A${add('r0')}", "i,~{r0},~{r1}"(${at})`
        : `call void asm sideeffect "r1 = $0 ll\\0A${add('$1')}", "i,r,~{r1}"(${at}, i64 ${step})`
    })
    .replace(/^declare void @llvm\.instrprof\.increment.*$/gm, '')
  const array = `@waggle_coverage = dso_local global [${total} x i64] zeroinitializer, section "${COUNTERS_SECTION}", align 8`
  return `${body}\n${array}\n${namesOf(ir)}\n`
}

/** What llvm-cov reads the names of functions from: their length, 0 for "not compressed", the names. */
function namesOf(ir: string): string {
  const names = [...ir.matchAll(NAME)].map(({ groups }) => groups?.name ?? '').join('\u0001')
  const bytes = [...uleb(names.length), 0, ...new TextEncoder().encode(names)]
  const text = bytes.map(byte => `\\${byte.toString(16).padStart(2, '0')}`).join('')
  return `@__llvm_prf_nm = dso_local constant [${bytes.length} x i8] c"${text}", section "__llvm_prf_names", align 1`
}

function uleb(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...uleb(value >> 7)]
}

/** A profile as llvm-profdata reads it: counts of all functions, in memory order of the counters. */
export function profileText(functions: Iterable<CountedFunction>, counts: readonly bigint[]): string {
  return [...functions]
    .map(({ name, hash, first, counters }) => {
      const own = Array.from({ length: counters }, (_, i) => counts[first + i] ?? 0n)
      return [name, hash, counters, ...own, ''].join('\n')
    })
    .join('\n')
}
