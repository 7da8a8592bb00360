import type { Count, Overview, Status } from './api'
import { Bars, Lines } from './charts'
import { compact, none, num, percent, seconds, visible, whole, words } from './format'
import { link } from './route'

const ledgerParts = ['delivered', 'filtered', 'stale', 'unscored', 'failed', 'set_aside', 'in_flight'] as const

export function RunPage({ run, of }: { run: Overview; of: number }) {
  const s = run.stats
  const filter = (params: Record<string, string>) => link('list', '', { ...(of ? { of: String(of) } : {}), ...params })
  const mean = (name: string) => s.means.find(m => m.name === name)?.value
  const sum = (name: string) => s.sums.find(m => m.name === name)?.value
  const wall = run.summary?.wall_seconds as number | undefined
  return <div class="page">
    <h1>Run {run.name}</h1>
    <Problems run={run} />
    {s.rollouts === 0 && <p class="empty">No rollout has been archived yet. {run.live ? 'This page follows the run.' : ''}</p>}
    <section class="cards" aria-label="Key figures">
      <Card name="rollouts" value={whole(s.rollouts)} note={`${whole(s.groups)} groups of ${whole(s.prompts)} prompts`} />
      <Card name="accuracy" value={percent(s.accuracy)} note={s.judged ? `by the rule, of ${whole(s.judged)}` : 'no rule spoke'} />
      <Card name="mean reward" value={num(mean('total'))} note={`process ${num(mean('process'), 2)} · infer ${num(mean('infer'), 2)} · outcome ${num(mean('outcome'), 2)}`} />
      <Card name="submitted" value={percent(s.rollouts ? s.submitted / s.rollouts : null)} note={whole(s.submitted)} />
      <Card name="structurally grounded" value={percent(mean('structural'))} note={`lexical ${percent(mean('lexical'))} · replayed ${percent(mean('replayed'))} · supported ${percent(mean('supported'))}`} />
      <Card name="throughput" value={rate(run, wall)} note={throughputNote(run, wall)} />
      <Card name="sampled tokens" value={sum('sampled') == null ? none : compact(sum('sampled')!)} note={`mean ${num(mean('sampled'), 0)} a rollout, longest row ${longest(run)}`} />
      <Card name="policy time" value={seconds(sum('generate_s'))} note={`of all rollouts · sandbox ${seconds(sum('tool_s'))} · waiting ${seconds(sum('queue_s'))} · reward ${seconds(sum('score_s'))}`} />
    </section>
    {run.status ? <LedgerView status={run.status} live={run.live} /> : <p class="note">There is no status.json, so that the ledger is not known.</p>}
    <Over run={run} />
    {s.histograms && <section><h2>Distributions <span class="note">with p5 · p50 · p95</span></h2><div class="grid">{s.histograms.map(h =>
      <Bars key={h.name} title={words(h.name)} sets={[h]} note={h.quantiles.map(q => num(q, 2)).join(' · ')}
        href={(from, to) => filter({ [`min.${h.name}`]: String(from), [`max.${h.name}`]: String(to) })} />)}</div></section>}
    <section class="tables">
      <Counts title="Ended" rows={s.terminations} href={n => filter({ termination: n })} />
      <Counts title="Scored" rows={s.statuses} href={n => filter({ status: n })} />
      <Counts title="Sources" rows={s.sources} href={n => filter({ source: n })} />
      <Counts title="Flags" rows={s.flags} href={n => filter({ flag: n })} />
      <Counts title="Lost or not scored, by reason" rows={s.reasons} href={n => filter({ q: n.slice(0, 60) })} />
      {s.disagree > 0 && <Counts title="Judges" rows={[{ name: 'disagree with each other or the rule', n: s.disagree }]} href={() => filter({ disagree: 'true' })} />}
      {run.status && <StatusTables status={run.status} />}
    </section>
  </div>
}

function Problems({ run }: { run: Overview }) {
  if (run.problems.length === 0 && run.bad === 0) return null
  return <section class="problem" aria-label="Damaged files">
    <strong>{run.bad > 0 ? `${whole(run.bad)} ${run.bad === 1 ? 'line' : 'lines'} of the index can’t be read. ` : ''}What is whole is shown.</strong>
    <ul>{run.problems.map((p, i) => <li key={i}><code>{visible(p.file)}{p.line ? `:${p.line}` : ''}</code> {visible(p.error)}</li>)}</ul>
  </section>
}

function Card({ name, value, note }: { name: string; value: string; note: string }) {
  return <div class="card"><span class="label">{name}</span><span class="value">{value}</span><span class="note">{note}</span></div>
}

function rate(run: Overview, wall?: number): string {
  if (run.live && run.status) return `${num(run.status.delivered_per_second, 2)} /s`
  return wall ? `${num(run.stats.rollouts / wall, 2)} /s` : none
}

function throughputNote(run: Overview, wall?: number): string {
  if (run.live) return 'delivered rollouts, last minute'
  return wall ? `over ${seconds(wall)}, peak memory ${num(run.summary?.peak_memory_mib as number, 0)} MiB` : 'no summary.json yet'
}

const longest = (run: Overview) => { const h = run.stats.histograms?.find(h => h.name === 'tokens'); return h ? whole(h.max) : none }

function LedgerView({ status, live }: { status: Status; live: boolean }) {
  const l = status.ledger, all = Math.max(l.dispatched, 1)
  const left = l.dispatched - l.in_flight
  return <section>
    <h2>Ledger</h2>
    {status.unaccounted !== 0 && <p class="problem" role="alert">{status.unaccounted} rollouts are not accounted for. If this stays, messages were lost.</p>}
    <div class="ledger" role="img" aria-label={`${l.dispatched} dispatched: ` + ledgerParts.map(p => `${l[p]} ${words(p)}`).join(', ')}>
      {ledgerParts.map(p => l[p] > 0 && <span key={p} class={`part ${p}`} style={{ flexGrow: l[p] / all }} title={`${words(p)}: ${whole(l[p])}`} />)}
    </div>
    <p class="legend">{whole(l.dispatched)} dispatched = {ledgerParts.map((p, i) => <span key={p} class="key">{i ? '+ ' : ''}<i class={`dot ${p}`} />{whole(l[p])} {words(p)}</span>)}</p>
    <p class="note">{whole(left)} of {whole(l.dispatched)} have left · {status.backlog} prompts wait for their dispatch · batches: {status.batches_written} written, {status.batches_acknowledged} acknowledged · policy version {status.policy_version}{status.policy_paused ? ' (paused)' : ''}{live ? '' : ' · as of ' + status.time.replace('T', ' ').slice(0, 19) + ' UTC'}</p>
  </section>
}

function Over({ run }: { run: Overview }) {
  const s = run.stats, buckets = s.buckets
  if (!buckets || buckets.length < 2) return null
  const line = (name: string, label: string, color: number) => {
    const k = s.series.indexOf(name)
    return { name: label, color, values: buckets.map(b => b.values[k] ?? null) }
  }
  const first = buckets[0]!, last = buckets[buckets.length - 1]!
  const width = first.to - first.from
  const clock = (t: number) => (s.timed ? new Date(t * 1000).toISOString().slice(11, 19) : `rollout ${whole(Math.round(t))}`)
  const ends = { from: clock(first.from), to: clock(last.to) }
  return <section>
    <h2>Over time</h2>
    {!s.timed && <p class="note">The index holds no times, so that the axis is the order in which rollouts ended.</p>}
    <div class="grid wide">
      <Lines title="Reward" {...ends} lines={[line('total', 'total', 0), line('process', 'process', 1), line('infer', 'infer', 2), line('outcome', 'outcome', 3), line('penalty', 'penalty', 4)]} />
      <Lines title="Accuracy" {...ends} low={0} high={1} lines={[line('accuracy', 'by the rule', 0)]} />
      <Lines title="Grounding" {...ends} low={0} high={1} lines={[line('structural', 'structural', 0), line('lexical', 'lexical', 1), line('replayed', 'replayed', 2), line('supported', 'supported', 3)]} />
      <Lines title="Tokens a rollout" {...ends} low={0} lines={[line('tokens', 'longest row', 0), line('sampled', 'sampled', 1)]} />
      <Lines title="Turns and failed cells" {...ends} low={0} lines={[line('turns', 'turns', 0), line('errors', 'failed cells', 4)]} />
      {s.timed && width > 0 && <Lines title="Throughput" {...ends} low={0} lines={[{ name: 'rollouts/s', color: 0, values: buckets.map(b => b.n / width) }]} />}
    </div>
  </section>
}

function Counts({ title, rows, href }: { title: string; rows: Count[]; href?: (name: string) => string }) {
  if (rows.length === 0) return null
  return <table class="counts"><caption>{title}</caption><tbody>
    {rows.map(r => <tr key={r.name}><th scope="row">{href ? <a href={href(r.name)}>{visible(words(r.name)) || '(none)'}</a> : visible(words(r.name))}</th><td>{whole(r.n)}</td></tr>)}
  </tbody></table>
}

function StatusTables({ status }: { status: Status }) {
  const list = (m: Record<string, number> | null) => Object.entries(m ?? {}).map(([name, n]) => ({ name, n })).sort((a, b) => b.n - a.n)
  return <>
    <Counts title="Not delivered, by reason" rows={list(status.reasons)} />
    <Counts title="Batches by age" rows={list(status.ages).map(a => ({ ...a, name: `${a.name} versions` }))} />
    <Counts title="Waiting" rows={(status.waiting ?? []).map(w => ({ name: `${w.what} for ${w.reason}`, n: w.count }))} />
  </>
}
