// One claim with its grounding parts and verdict, in the report and beside the graph.
import type { Grounding, Rollout, Verdict } from './api'
import { visible, words } from './format'

export const groundingOf = (r: Rollout, id: string): Grounding | undefined => (r.graph.grounding ?? []).find(g => g.claim === id)
export const verdictOf = (r: Rollout, id: string): Verdict | undefined => (r.score.verdicts ?? []).find(v => v.claim === id)

export function GroundingParts({ g }: { g: Grounding }) {
  const part = (name: string, v: boolean | null) => <span class={'gpart ' + (v === null ? 'null' : v ? 'yes' : 'no')}>{v === null ? '○' : v ? '✓' : '✗'} {name}{v === null && ' (not run)'}</span>
  return <><p class="gparts">{part('structural', g.structural)}{part('lexical', g.lexical)}{part('replayed', g.replayed)}{part('supported', g.supported)}</p>
    {g.why && <p class="note">{visible(g.why)}</p>}</>
}

export function VerdictView({ v }: { v: Verdict }) {
  return <div class="verdict"><span class={'tag ' + v.kind}>{words(v.kind)}</span> <span class="note">by {visible(v.judge)}{v.cached && ', from the store'}{v.repaired && ', repaired'}{v.split && ', the judges were split'}</span><p>{visible(v.reason)}</p></div>
}

export function ClaimCard({ r, id, to }: { r: Rollout; id: string; to: (node: string) => string }) {
  const n = r.graph.nodes.find(n => n.id === id)
  if (!n) return <p class="problem">{visible(id)} is not in the graph</p>
  const g = groundingOf(r, id), v = verdictOf(r, id)
  return <article class="claim"><h3><a href={to(id)}>{visible(id)}</a> {n.kind}, turn {n.turn + 1}</h3><p>{visible(n.text ?? '')}</p>
    {n.reasoning && <p class="note">because: {visible(n.reasoning)}</p>}{g && <GroundingParts g={g} />}{v && <VerdictView v={v} />}</article>
}
