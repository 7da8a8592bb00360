import { useState } from 'preact/hooks'
import { ask, type Rollout, type Text, type Turn } from './api'
import { Code } from './code'
import { bytes, num, seconds, visible, whole, words } from './format'
import type { At } from './rollout'

// LongText shows the beginning of a text and brings the rest when it is asked for.
export function LongText({ text, at, part, turn, code }: { text: Text; at: At; part: string; turn?: number; code?: boolean }) {
  const [all, set] = useState<string | null>(null)
  const [error, fail] = useState('')
  const shown = all ?? text.text
  const size = new TextEncoder().encode(text.text).length
  const bring = () => ask<{ text: string }>('text', { id: at.id, of: at.of, part, turn: turn ?? 0 }).then(t => set(t.text), (e: Error) => fail(e.message))
  return <>
    {code ? <Code text={shown} /> : <pre class="text" tabIndex={shown.length > 2000 ? 0 : undefined}>{visible(shown)}</pre>}
    {all === null && size < text.size && <p class="more">{bytes(size)} of {bytes(text.size)} <button onClick={bring}>Show all</button> {error && <span class="bad">{error}</span>}</p>}
  </>
}

export function Turns({ r, at }: { r: Rollout; at: At }) {
  const longest = Math.max(...r.turns.map(t => t.generate_s + t.tool_s), 1e-9)
  return <div class="turns">
    {r.turns.length === 0 && <p class="empty">This rollout has no turn.</p>}
    {r.turns.map(t => <TurnView key={t.index} t={t} at={at} longest={longest} />)}
  </div>
}

function TurnView({ t, at, longest }: { t: Turn; at: At; longest: number }) {
  return <article class="turn" id={`turn-${t.index}`} aria-label={`turn ${t.index + 1}`}>
    <header>
      <h2>Turn {t.index + 1}</h2>
      <span class={'tag ' + (t.status || 'none')}>{words(t.status) || 'no cell'}</span>
      {t.reward !== null && <span class={'turnreward ' + (t.reward > 0 ? 'up' : t.reward < 0 ? 'down' : '')} title="what this turn earned">{t.reward > 0 ? '+' : ''}{num(t.reward)}</span>}
      <span class="note">{whole(t.sampled)} sampled tokens, stopped by {visible(t.finish_reason) || 'nothing'}{t.versions && `, version ${t.versions[0]}${t.versions[1] !== t.versions[0] ? ` to ${t.versions[1]}` : ''}`}</span>
      <span class="times" title={`policy ${seconds(t.generate_s)}, cell ${seconds(t.tool_s)}`}>
        <i class="gen" style={{ width: `${(60 * t.generate_s) / longest}px` }} /><i class="tool" style={{ width: `${(60 * t.tool_s) / longest}px` }} />
        <span>policy {seconds(t.generate_s)} · cell {seconds(t.tool_s)}</span>
      </span>
    </header>
    {(t.parts ?? []).length > 0 && <p class="parts">{t.parts!.map((p, i) => <span key={i} class="part" title={visible(p.reason ?? '')}>{visible(p.term)}{p.term === 'process' ? '' : ' ' + visible(p.name)} <b>{num(p.weight * p.value)}</b></span>)}</p>}
    <div class="two">
      <div>{t.reasoning.size > 0 && <section class="think"><h3>Reasoning</h3><LongText text={t.reasoning} at={at} part="reasoning" turn={t.index} /></section>}
        {t.code && <section><h3>Code</h3><LongText code text={t.code} at={at} part="code" turn={t.index} /></section>}</div>
      <div>{t.observation.size > 0 && <section><h3>Output and observation</h3><LongText text={t.observation} at={at} part="observation" turn={t.index} /></section>}</div>
    </div>
  </article>
}
