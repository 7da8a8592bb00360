import type { Comparison, Overview, Stats } from './api'
import { Bars } from './charts'
import { num, percent, visible, whole, words } from './format'
import { useAsk } from './hooks'
import { link } from './route'

type Figure = [name: string, of: (s: Stats) => number | null | undefined, show: (v: number | null | undefined) => string, better?: 1 | -1]

const figures: Figure[] = [
  ['rollouts', s => s.rollouts, v => whole(v ?? 0)],
  ['accuracy', s => s.accuracy, percent, 1],
  ['submitted', s => (s.rollouts ? s.submitted / s.rollouts : null), percent, 1],
  ...['total', 'process', 'infer', 'outcome', 'penalty'].map(n => [n === 'total' ? 'mean reward' : n, s => meanOf(s, n), v => num(v), 1] as Figure),
  ...['structural', 'lexical', 'replayed', 'supported'].map(n => [n, s => meanOf(s, n), percent, 1] as Figure),
  ['turns', s => meanOf(s, 'turns'), v => num(v, 2)], ['failed cells', s => meanOf(s, 'errors'), v => num(v, 2), -1], ['tokens', s => meanOf(s, 'tokens'), v => num(v, 0)],
]

const meanOf = (s: Stats, name: string) => s.means.find(m => m.name === name)?.value

export function Compare({ run }: { run: Overview }) {
  const { data, error } = useAsk<Comparison>('compare', {}, run.rev)
  if (error) return <p class="problem" role="alert">{error}</p>
  if (!data) return <p class="wait" role="status">Reading both runs…</p>
  const [a, b] = data.stats
  return <div class="page">
    <h1>{data.names[0]} and {data.names[1]}</h1>
    <p class="note">{whole(data.both)} prompts are in both runs; the mean reward is higher in the second for {whole(data.better)} and lower for {whole(data.worse)}.</p>
    <div class="split">
      <table class="plain"><thead><tr><th scope="col">Figure</th><th scope="col" class="n">{data.names[0]}</th><th scope="col" class="n">{data.names[1]}</th><th scope="col" class="n">Change</th></tr></thead>
        <tbody>{figures.map(([name, of, show, better]) => {
          const x = of(a), y = of(b)
          return <tr key={name}><th scope="row">{name}</th><td class="n">{show(x)}</td><td class="n">{show(y)}</td><td class="n">{x != null && y != null ? <Change d={y - x} show={show} better={better} /> : ''}</td></tr>
        })}</tbody></table>
      <section aria-label="Distributions"><p class="legend"><span class="key s0">{data.names[0]}</span><span class="key s1">{data.names[1]}</span></p>
        <div class="grid">{data.histograms.map(sets => <Bars key={sets[0].name} title={words(sets[0].name)} sets={sets} />)}</div></section>
    </div>
    <h2>Prompts, the largest change first</h2>
    <table class="plain"><thead><tr><th scope="col">Prompt</th>{data.names.map(n => <th key={n} scope="col" class="n">mean reward, {n}</th>)}<th scope="col" class="n">Change</th>{data.names.map(n => <th key={n} scope="col" class="n">right, {n}</th>)}</tr></thead>
      <tbody>{data.pairs.map(p => <tr key={p.prompt}><th scope="row">{visible(p.prompt)}</th>
        {[0, 1].map(k => <td key={k} class="n">{p.n[k as 0 | 1] ? <a href={link('list', '', { of: k ? '1' : '', prompt: p.prompt })}>{num(p.reward[k as 0 | 1])}</a> : 'not there'}</td>)}
        <td class="n">{p.delta !== null && <Change d={p.delta} show={v => num(v)} better={1} />}</td>
        {[0, 1].map(k => <td key={k} class="n">{percent(p.acc[k as 0 | 1])}</td>)}
      </tr>)}</tbody></table>
    {data.matched > data.pairs.length && <p class="note">{whole(data.matched - data.pairs.length)} more with a smaller change are not shown.</p>}
  </div>
}

function Change({ d, show, better }: { d: number; show: (v: number) => string; better?: 1 | -1 }) {
  if (Math.abs(d) < 1e-9) return <span class="dim">0</span>
  return <span class={better ? (d * better > 0 ? 'up' : 'down') : ''}>{d > 0 ? '+' : '−'}{show(Math.abs(d))}</span>
}
