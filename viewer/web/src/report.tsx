import { useState } from 'preact/hooks'
import type { Report, Rollout } from './api'
import { visible } from './format'
import { ClaimCard } from './claim'
import { useAsk } from './hooks'
import type { At } from './rollout'

export function ReportTab({ r, at, to }: { r: Rollout; at: At; to: (node: string) => string }) {
  const submitted = (r.graph.submitted ?? []).length > 0
  if (!submitted) return <p class="empty">Nothing was submitted, so there is no report.</p>
  return <ReportView r={r} at={at} to={to} />
}

function ReportView({ r, at, to }: { r: Rollout; at: At; to: (node: string) => string }) {
  const { data, error } = useAsk<Report>('report', { id: at.id, of: at.of })
  const [chosen, choose] = useState('')
  if (error) return <p class="problem" role="alert">The report can’t be read: {error}</p>
  if (!data) return <p class="wait" role="status">Reading the report…</p>
  const claims = chosen ? (data.paragraphs.flatMap((p, i) => p.sentences.map((s, k) => ({ key: `${i}.${k}`, claims: s.claims }))).find(s => s.key === chosen)?.claims ?? []) : []
  return <div class="report split">
    <div>
      <p class="note">{data.stored ? (data.composed ? `Written by ${visible(data.model)} from the submitted claims, and checked.` : `The list of the claims stands in for the report: ${visible(data.problem)}.`) : 'No report was written (verigraph report); these are the submitted claims.'} A sentence leads to its claims.</p>
      {data.paragraphs.map((p, i) => {
        if (p.kind === 'heading') return <h2 key={i}>{visible(p.sentences[0]?.text ?? '')}</h2>
        const all = p.sentences.map((s, k) => <button key={k} class="sentence" aria-pressed={chosen === `${i}.${k}`} onClick={() => choose(`${i}.${k}`)}>{visible(s.text)} <span class="cites">{(s.claims ?? []).join(' ')}</span></button>)
        return <p key={i} class={p.kind}>{all}</p>
      })}
    </div>
    <aside aria-label="Claims of the sentence" aria-live="polite">
      {claims.length === 0 ? <p class="empty">Choose a sentence to see what it rests on.</p> : <>
        <p><a class="button" href={to(claims.join(','))}>Show in the evidence</a></p>
        {claims.map(id => <ClaimCard key={id} r={r} id={id} to={to} />)}
      </>}
    </aside>
  </div>
}
