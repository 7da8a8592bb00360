// What the server answers, and how it is asked. The types follow the Go structs of the viewer package.
export interface Count { name: string; n: number }
export interface Mean { name: string; value: number | null; n: number }
export interface Histogram { name: string; min: number; max: number; bins: number[]; quantiles: [number, number, number] }
export interface Bucket { from: number; to: number; n: number; values: (number | null)[] }
export interface Stats {
  rollouts: number; groups: number; prompts: number; submitted: number; accuracy: number | null; judged: number; disagree: number
  terminations: Count[]; statuses: Count[]; sources: Count[]; flags: Count[]; reasons: Count[]; means: Mean[]; sums: Mean[]
  histograms: Histogram[] | null; series: string[]; timed: boolean; buckets: Bucket[] | null
}
export interface Ledger {
  dispatched: number; delivered: number; filtered: number; stale: number; unscored: number; failed: number; set_aside: number; in_flight: number
}
export interface Status {
  time: string; run: string; complete: boolean; prompts: number; backlog: number; groups: number; ledger: Ledger; unaccounted: number
  batches_written: number; batches_acknowledged: number; policy_version: number; policy_paused: boolean; delivered_per_second: number
  unscored_share: number; reasons: Record<string, number> | null; ages: Record<string, number> | null
  waiting: { what: string; count: number; reason: string }[] | null
}
export interface Problem { file: string; line?: number; error: string }
export interface Overview {
  rev: string; name: string; run: Record<string, unknown> | null; summary: Record<string, any> | null; status: Status | null; live: boolean
  stats: Stats; problems: Problem[]; bad: number; tokens: boolean; runs: string[]
}
export interface ListRow {
  id: string; group: string; sample: number; prompt: string; source: string; termination: string; status: string; correct: boolean | null
  disagree: boolean; flags: string[] | null; answer: string; error: string; numbers: (number | null)[]
}
export interface ListPage { rev: string; total: number; matched: number; offset: number; columns: string[]; rows: ListRow[] }
export interface GroupRow {
  group: string; prompt: string; source: string; rollouts: number; scored: number; correct: number; judged: number
  mean: number | null; min: number | null; max: number | null; spread: number | null
}
export interface GroupPage { rev: string; matched: number; offset: number; groups: GroupRow[] }
export interface Member extends ListRow { turns: { status: string; reward: number | null; code: string }[] | null; claims: string[] | null; unread: string }
export interface GroupView { columns: string[]; members: Member[] }
export interface Text { text: string; size: number }
export interface Part { term: string; name: string; turn: number; value: number; weight: number; reason?: string }
export interface Turn {
  index: number; reasoning: Text; code: Text | null; observation: Text; status: string; finish_reason: string; sampled: number
  generate_s: number; tool_s: number; reward: number | null; parts: Part[] | null; versions: [number, number] | null
}
export interface Verdict { claim: string; premises: string[] | null; kind: string; reason: string; judge: string; cached?: boolean; repaired?: boolean; split?: boolean }
export interface Score {
  status: string; reason?: string; preset: string; process: number; infer: number; outcome: number; penalty: number; total: number; clipped: number
  overlong: number; reward: number; correct: boolean | null; accuracy: number; parts: Part[] | null; verdicts: Verdict[] | null; method?: string
  gov?: { valid: boolean; first_failing?: string; units: number; calls: number; calls_saved: number }
}
export interface GraphNode {
  id: string; kind: 'source' | 'variable' | 'value' | 'atomic' | 'derived'; turn: number; statement: number; name?: string; version?: number; sha256?: string
  untracked?: string; expression?: string; type?: string; value_kind?: string; repr?: string; template?: string
  fields?: { name: string; text: string }[]; values?: { name: string; kind: string; type: string; repr: string }[]; given?: string[]
  text?: string; reasoning?: string; restates?: string; new_numbers?: string[]; tainted?: boolean
}
export interface GraphEdge { from: string; to: string; kind: 'compute' | 'control' | 'ground' | 'derive'; role?: string }
export interface Grounding { claim: string; structural: boolean | null; replayed: boolean | null; lexical: boolean | null; supported: boolean | null; why?: string }
export interface Graph {
  nodes: GraphNode[]; edges: GraphEdge[] | null; submitted: string[] | null; submit_turn: number
  cells: { turn: number; code: string; statements: number; completed: number; status: string }[] | null
  refusals?: { turn: number; primitive: string; rule: string; message: string }[]
  taints?: { turn: number; statement: number; construct: string }[]; flags?: string[]; grounding: Grounding[] | null; live: string[]; order: string[]
}
export interface Span { start: number; end: number; kind: string; turn: number; policy_version: number; policy_version_end: number }
export interface Segment { prompt: number; response: number; spans: Span[] | null }
export interface Rollout {
  id: string; group: string; sample: number; attempt: number; prompt: string; source: string; seed: number; termination: string; error: string
  text_only: boolean; flags: string[] | null; drift_turns: number; timing: { queue_s: number; generate_s: number; tool_s: number; score_s: number }
  system: Text; question: Text; answer: Text; turns: Turn[]; segments: Segment[] | null; score: Score; graph: Graph; broken: string
}
export interface TokenPage {
  segment: number; offset: number; total: number; prompt: number; ids: number[] | null; texts: string[] | null; mask: number[] | null
  log_probs: number[] | null; spans: Span[] | null; warning: string
}
export interface Report {
  composed: boolean; problem: string; model: string; stored: boolean
  paragraphs: { kind: 'heading' | 'item' | 'text'; sentences: { text: string; claims: string[] | null }[] }[]
}
export interface PromptPair { prompt: string; reward: [number | null, number | null]; acc: [number | null, number | null]; n: [number, number]; delta: number | null }
export interface Comparison { names: [string, string]; stats: [Stats, Stats]; histograms: [Histogram, Histogram][]; both: number; better: number; worse: number; matched: number; pairs: PromptPair[] }

export type Params = Record<string, string | number>

export function url(path: string, params: Params): string {
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(params)) q.set(k, String(v))
  return `api/${path}?${q}`
}

export async function ask<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  const answer = await fetch(url(path, params), { signal })
  const body = await answer.text()
  if (answer.ok) return JSON.parse(body) as T
  let why = body
  try { why = (JSON.parse(body) as { error: string }).error } catch { /* not from the viewer itself */ }
  throw new Error(why || `the server answered ${answer.status}`)
}
