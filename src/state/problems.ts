import type { ProblemEvent } from '../model/objects.js'

export type Problem = Extract<ProblemEvent, { readonly type: 'problem' }>

/** What stands wrong now, by where; fed by the events of sources and of plan. */
export class Problems {
  readonly #byWhere = new Map<string, Problem[]>()

  /** Takes the events in order. Returns what was not known before, for the log. */
  apply(events: Iterable<ProblemEvent>): readonly Problem[] {
    const before = new Map<string, readonly Problem[]>()
    for (const event of events) {
      const known = this.#byWhere.get(event.where)
      if (!before.has(event.where)) before.set(event.where, known ?? [])
      if (event.type === 'resolved') this.#byWhere.delete(event.where)
      else this.#byWhere.set(event.where, [...(known ?? []).filter(other => !same(other, event)), event])
    }
    const fresh: Problem[] = []
    for (const [where, old] of before) {
      for (const problem of this.#byWhere.get(where) ?? []) {
        if (!old.some(other => same(other, problem))) fresh.push(problem)
      }
    }
    return fresh
  }

  /** All of them, in the order of their first report. */
  list(): readonly Problem[] {
    return [...this.#byWhere.values()].flat()
  }
}

function same(a: Problem, b: Problem): boolean {
  return a.where === b.where && a.field === b.field && a.message === b.message
}
