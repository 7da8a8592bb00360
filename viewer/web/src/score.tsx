import type { Rollout } from './api'
import { num, visible, words } from './format'
import { VerdictView } from './claim'

export function ScoreTab({ r, to }: { r: Rollout; to: (node: string) => string }) {
  const s = r.score
  if (s.status !== 'ok') return <p class="empty">There is no reward: {words(s.status)}{s.reason ? `, ${visible(s.reason)}` : ''}.</p>
  const step = (name: string, v: number, help: string) => <tr key={name}><th scope="row">{name}</th><td class="n">{num(v, 4)}</td><td class="note">{help}</td></tr>
  return <div class="split">
    <section><h2>From parts to reward</h2>
      <table class="plain"><tbody>
        {step('R_process', s.process, 'before its weight')}{step('R_infer', s.infer, 'before its weight')}{step('R_outcome', s.outcome, visible(s.method ?? ''))}
        {step('penalty', s.penalty, 'for a missing or worthless submission')}{step('score', s.total, 'sum before the clip')}{step('seq_reward', s.clipped, 'after the clip')}
        {step('overlong', s.overlong, 'soft punishment of long rows')}{step('reward', s.reward, 'what the trainer gets')}{step('acc', s.accuracy, '')}
      </tbody></table>
      <p class="note">preset {visible(s.preset)}</p>
      {s.gov && <p>Graph of Verification: {s.gov.valid ? 'valid' : <>not valid, first failing claim <a href={to(s.gov.first_failing ?? '')}>{s.gov.first_failing}</a></>}; {s.gov.units} units, {s.gov.calls} calls, {s.gov.calls_saved} saved.</p>}
      <h2>Verdicts</h2>
      {(s.verdicts ?? []).length === 0 ? <p class="dim">no derived claim was judged</p> : s.verdicts!.map(v => <div key={v.claim}><h3><a href={to(v.claim)}>{visible(v.claim)}</a> from {(v.premises ?? []).map(visible).join(', ')}</h3><VerdictView v={v} /></div>)}
    </section>
    <section><h2>Parts</h2>
      <table class="plain"><thead><tr><th scope="col">Term</th><th scope="col">Part</th><th scope="col" class="n">Turn</th><th scope="col" class="n">Value</th><th scope="col" class="n">Weight</th><th scope="col" class="n">Adds</th><th scope="col">Reason</th></tr></thead>
        <tbody>{(s.parts ?? []).map((p, i) => <tr key={i}><td>{visible(p.term)}</td><td>{visible(p.name)}</td><td class="n">{p.turn + 1}</td><td class="n">{num(p.value)}</td><td class="n">{num(p.weight)}</td><td class="n"><b>{num(p.weight * p.value)}</b></td><td>{visible(p.reason ?? '')}</td></tr>)}</tbody></table>
    </section>
  </div>
}
