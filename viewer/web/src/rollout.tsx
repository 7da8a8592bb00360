import { useEffect } from 'preact/hooks'
import type { Overview, Rollout } from './api'
import { clip, none, num, seconds, visible, whole, words } from './format'
import { Evidence } from './evidence'
import { useAsk, useKeys } from './hooks'
import { neighbour } from './list'
import { ReportTab } from './report'
import { go, link, replace } from './route'
import { ScoreTab } from './score'
import { Tokens } from './tokens'
import { LongText, Turns } from './turns'

const tabs: [string, string, string][] = [['turns', 'Turns', 't'], ['tokens', 'Tokens', 'o'], ['evidence', 'Evidence', 'e'], ['report', 'Report', 'r'], ['score', 'Score', 's']]

export interface At { id: string; of: number }

export function RolloutView({ id, params, run, of }: { id: string; params: Record<string, string>; run: Overview; of: number }) {
  const { data, error } = useAsk<Rollout>('rollout', { of, id })
  const tab = params.tab ?? 'turns'
  const here = (change: Record<string, string | undefined>) => link('rollout', id, { ...(of ? { of: String(of) } : {}), tab, ...change })
  const jump = (step: number) => neighbour(step).then(next => { if (next) go(link('rollout', next, { ...(of ? { of: String(of) } : {}), tab })) }, () => undefined)
  useKeys({
    ...Object.fromEntries(tabs.map(([name, , key]) => [key, () => replace(here({ tab: name }))])),
    '[': () => jump(-1), ']': () => jump(1), g: () => { if (data) go(link('group', data.group, of ? { of: String(of) } : {})) },
    Escape: () => { if (history.length > 1) history.back(); else go(link('list')) },
  })
  useEffect(() => { document.title = `${id} · VeriGraph`; return () => { document.title = 'VeriGraph' } }, [id])
  if (error) return <div class="page"><h1>{visible(id)}</h1><p class="problem" role="alert">This rollout can’t be shown: {error}</p></div>
  if (!data) return <p class="wait" role="status">Reading the rollout…</p>
  const at = { id, of }
  return <div class={'rollout ' + tab}>
    <Head r={data} at={at} />
    <nav class="tabs" aria-label="Parts of the rollout">{tabs.map(([name, label, key]) =>
      <a key={name} href={here({ tab: name })} aria-current={tab === name ? 'page' : undefined} title={`key ${key}`}>{label}{count(data, name)}</a>)}</nav>
    {tab === 'turns' && <Turns r={data} at={at} />}
    {tab === 'tokens' && <Tokens r={data} at={at} named={run.tokens} />}
    {tab === 'evidence' && <Evidence r={data} at={at} chosen={params.node ?? ''} choose={node => replace(here({ tab: 'evidence', node }))} />}
    {tab === 'report' && <ReportTab r={data} at={at} to={node => here({ tab: 'evidence', node })} />}
    {tab === 'score' && <ScoreTab r={data} to={node => here({ tab: 'evidence', node })} />}
    {!tabs.some(([name]) => name === tab) && <p class="problem">There is no part “{tab}”.</p>}
  </div>
}

function count(r: Rollout, tab: string) {
  const n = { turns: r.turns.length, tokens: (r.segments ?? []).reduce((n, s) => n + s.prompt + s.response, 0), evidence: r.graph.nodes.length, report: r.graph.submitted?.length ?? 0 }[tab]
  return n === undefined ? '' : <span class="badge">{whole(n)}</span>
}

function Head({ r, at }: { r: Rollout; at: At }) {
  const s = r.score, t = r.timing
  return <section class="rhead">
    <h1>{visible(r.id)} <span class={'tag ' + r.termination}>{words(r.termination)}</span> {s.correct === null ? '' : s.correct ? <span class="good">✓ right</span> : <span class="bad">✗ wrong</span>}
      <b class="reward">{s.status === 'ok' ? num(s.reward) : words(s.status)}</b></h1>
    <p class="note">
      <a href={link('group', r.group, at.of ? { of: String(at.of) } : {})}>group {visible(r.group)}</a> · prompt {visible(clip(r.prompt, 60))} · {visible(clip(r.source, 40)) || 'no source'} · attempt {r.attempt}
      {' '}· waited {seconds(t.queue_s)} · policy {seconds(t.generate_s)} · cells {seconds(t.tool_s)} · scoring {seconds(t.score_s)}
      {r.text_only && ' · text only: no token ids'}{r.drift_turns > 0 && ` · ${r.drift_turns} turns would be encoded to other ids than were sampled`}
    </p>
    {(r.flags ?? []).length > 0 && <p>{r.flags!.map(f => <span key={f} class="tag warn">{clip(visible(f), 80)}</span>)}</p>}
    {r.error && <p class="problem">{visible(r.error)}</p>}
    {s.status !== 'ok' && s.reason && <p class="problem">not scored: {visible(s.reason)}</p>}
    {r.broken && <p class="problem" role="alert">broken token invariant: {r.broken}</p>}
    <details class="question"><summary>Question</summary><LongText text={r.question} at={at} part="question" /></details>
    <details class="question"><summary>System prompt</summary><LongText text={r.system} at={at} part="system" /></details>
    <div class="answer"><h2>Answer</h2>{r.answer.text ? <LongText text={r.answer} at={at} part="answer" /> : <p class="dim">{none} nothing was submitted</p>}</div>
  </section>
}
