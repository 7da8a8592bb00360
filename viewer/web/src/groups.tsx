import { useState } from 'preact/hooks'
import type { GroupPage, GroupView, Member, Overview } from './api'
import { clip, none, num, visible, whole, words } from './format'
import { useAsk, useKeys } from './hooks'
import { Filters } from './list'
import { link, replace } from './route'
import { Code } from './code'

const size = 100

export function Groups({ run, of, params }: { run: Overview; of: number; params: Record<string, string> }) {
  const [offset, setOffset] = useState(0)
  const query: Record<string, string | number> = { of, offset, limit: size }
  for (const [k, v] of Object.entries(params)) if (v !== '' && k !== 'of') query[k] = v
  const { data, error } = useAsk<GroupPage>('groups', query, run.rev)
  const set = (change: Record<string, string>) => { setOffset(0); replace(link('groups', '', { ...params, ...change })) }
  useKeys({ '/': e => { e.preventDefault(); document.getElementById('search')?.focus() } })
  const head = (name: string, by: string, help: string) => {
    const state = params.by === by ? 'ascending' : params.by === '-' + by ? 'descending' : undefined
    return <th scope="col" class="n" aria-sort={state} title={help}><button class="quiet" onClick={() => set({ by: state === 'descending' ? by : '-' + by })}>{name}{state === 'ascending' ? ' ↑' : state === 'descending' ? ' ↓' : ''}</button></th>
  }
  return <div class="page">
    <h1>Groups</h1>
    <Filters run={run} params={params} set={set} />
    <p class="status" role="status">{error ? <span class="bad">{error}</span> : data ? `${whole(data.matched)} groups with a rollout that the filter takes; means are over these rollouts` : 'Reading…'}</p>
    <table class="plain">
      <thead><tr><th scope="col">Group</th><th scope="col">Prompt</th><th scope="col" class="n">Rollouts</th>{head('Right', 'correct', 'share of right answers')}{head('Mean reward', 'mean', '')}{head('Spread', 'spread', 'standard deviation; a group without spread teaches nothing')}<th scope="col">Range</th></tr></thead>
      <tbody>{data?.groups.map(g => <tr key={g.group}>
        <th scope="row"><a href={link('group', g.group, of ? { of: String(of) } : {})}>{visible(g.group)}</a></th><td>{clip(visible(g.prompt), 40)}</td><td class="n">{g.rollouts}</td>
        <td class="n">{g.judged ? `${g.correct}/${g.judged}` : none}</td><td class="n">{num(g.mean)}</td>
        <td class="n">{num(g.spread)}</td><td>{g.min !== null && g.max !== null && <Range low={g.min} mean={g.mean!} high={g.max} />}</td>
      </tr>)}</tbody>
    </table>
    {data && data.matched > size && <p class="pager">
      <button disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - size))}>Previous</button> {whole(offset + 1)} to {whole(Math.min(offset + size, data.matched))} of {whole(data.matched)} <button disabled={offset + size >= data.matched} onClick={() => setOffset(offset + size)}>Next</button>
    </p>}
  </div>
}

// Range draws from -1 to 1, where rewards usually lie.
function Range({ low, mean, high }: { low: number; mean: number; high: number }) {
  const x = (v: number) => 60 + Math.max(-1, Math.min(1, v)) * 58
  return <svg class="rangebar" viewBox="0 0 120 12" width="120" height="12" role="img" aria-label={`from ${num(low)} to ${num(high)}`}>
    <line x1="60" x2="60" y1="0" y2="12" class="zero" /><line x1={x(low)} x2={x(high)} y1="6" y2="6" class="line s0" /><circle cx={x(mean)} cy="6" r="3.5" class="bar s0" />
  </svg>
}

export function GroupPageView({ id, run, of }: { id: string; run: Overview; of: number }) {
  const { data, error } = useAsk<GroupView>('group', { of, id }, run.rev)
  const [turn, setTurn] = useState(-1)
  const turns = Math.max(0, ...(data?.members ?? []).map(m => m.turns?.length ?? 0))
  useKeys({ Escape: () => history.back() })
  return <div class="page full">
    <h1>Group {visible(id)}</h1>
    {error && <p class="problem" role="alert">{error}</p>}
    {data && <p class="note">prompt {visible(data.members[0]?.prompt ?? '')} · {data.members.length} rollouts · turn
      <select aria-label="turn to compare" value={turn} onChange={e => setTurn(Number(e.currentTarget.value))}>
        <option value={-1}>all in short</option>{Array.from({ length: turns }, (_, i) => <option key={i} value={i}>{i + 1}</option>)}
      </select> side by side</p>}
    <div class="columns" tabIndex={0} role="region" aria-label="rollouts side by side">{data?.members.map(m => <MemberView key={m.id} m={m} of={of} turn={turn} columns={data.columns} />)}</div>
  </div>
}

function MemberView({ m, of, turn, columns }: { m: Member; of: number; turn: number; columns: string[] }) {
  const n = (name: string) => m.numbers[columns.indexOf(name)] ?? null
  return <article class="member" aria-label={`rollout ${m.sample}`}>
    <h2><a href={link('rollout', m.id, of ? { of: String(of) } : {})}>{m.sample}</a> <span class={'tag ' + m.termination}>{words(m.termination)}</span> {m.correct === null ? '' : m.correct ? <span class="good">✓ right</span> : <span class="bad">✗ wrong</span>}</h2>
    <dl class="facts">
      <div><dt>reward</dt><dd>{m.status === 'ok' ? <b>{num(n('total'))}</b> : words(m.status)}</dd></div>
      <div><dt>proc · infer · outc</dt><dd title="process, infer, outcome">{num(n('process'), 2)} · {num(n('infer'), 2)} · {num(n('outcome'), 2)}</dd></div>
      <div><dt>S N R J</dt><dd>{shares(['structural', 'lexical', 'replayed', 'supported'].map(n))}</dd></div>
      <div><dt>failed cells</dt><dd>{n('errors')}/{n('cells')}</dd></div>
    </dl>
    {m.error && <p class="problem">{visible(m.error)}</p>}
    {m.unread && <p class="problem">{m.unread}</p>}
    <h3>Submitted</h3>
    {m.claims?.length ? <ol>{m.claims.map((c, i) => <li key={i}>{visible(c)}</li>)}</ol> : <p class="dim">nothing</p>}
    <h3>Turns</h3>
    <ol class="shortturns">{m.turns?.map((t, i) => (turn < 0 || turn === i) && <li key={i} value={i + 1}>
      <span class={'tag ' + (t.status || 'none')}>{words(t.status) || 'no cell'}</span> <span class="dim">{num(t.reward)}</span>
      {t.code && <Code text={turn < 0 ? firstLines(t.code, 3) : t.code} />}
    </li>)}</ol>
  </article>
}

// shares stand in per cent, short enough for four beside each other.
const shares = (of: (number | null)[]) => of.map(v => (v === null ? none : Math.round(100 * v))).join(' · ') + (of.some(v => v !== null) ? ' %' : '')

const firstLines = (s: string, n: number) => { const l = s.split('\n'); return l.length > n ? l.slice(0, n).join('\n') + '\n…' : s }
