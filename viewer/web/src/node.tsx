import type { GraphNode, Rollout } from './api'
import { GroundingParts, VerdictView, groundingOf, verdictOf } from './claim'
import { Code, statements } from './code'
import { visible, words } from './format'
import { closure, isClaim } from './layout'

export function NodePanel({ r, id, choose }: { r: Rollout; id: string; choose: (id: string) => void }) {
  const g = r.graph
  const n = g.nodes.find(n => n.id === id)!
  const into = (g.edges ?? []).filter(e => e.to === id), out = (g.edges ?? []).filter(e => e.from === id)
  const grounding = groundingOf(r, id), verdict = verdictOf(r, id)
  const below = closure(g, [id]).nodes
  const sources = g.nodes.filter(s => s.kind === 'source' && below.has(s.id))
  const flags = (g.flags ?? []).filter(f => f.endsWith(':' + id))
  return <article class="nodepanel">
    <h2>{visible(id)} <button class="quiet close" onClick={() => choose('')} aria-label="close">×</button></h2>
    <p class="note">{n.kind}{n.turn >= 0 && `, made in turn ${n.turn + 1}, statement ${n.statement + 1}`}{!g.live.includes(id) && ', not in the answer'}</p>
    {n.untracked && <p class="problem">untracked: {visible(n.untracked)}</p>}
    {n.tainted && <p class="problem">made after the session was tainted</p>}
    {isClaim(n) && <p class="said">{visible(n.text ?? '')}</p>}
    {n.template && <><h3>Template and values</h3><Template n={n} /></>}
    {n.kind === 'value' && <dl class="facts"><div><dt>expression</dt><dd><code>{visible(n.expression ?? '')}</code></dd></div><div><dt>value</dt><dd><code>{visible(n.repr ?? '')}</code></dd></div><div><dt>type</dt><dd>{visible(n.type ?? '')}</dd></div></dl>}
    {n.sha256 && <p class="note hash">SHA-256 {n.sha256}</p>}
    {n.reasoning && <><h3>Reasoning</h3><p>{visible(n.reasoning)}</p></>}
    {n.restates && <p class="problem">merely restates {visible(n.restates)}</p>}
    {(n.new_numbers ?? []).length > 0 && <p class="problem">numbers from nowhere: {n.new_numbers!.map(visible).join(', ')}</p>}
    {grounding && <><h3>Grounding</h3><GroundingParts g={grounding} /></>}
    {isClaim(n) && <><h3>Replay</h3><p>{replay(r, id, flags)}</p></>}
    {verdict && <><h3>Verdict</h3><VerdictView v={verdict} /></>}
    {into.length > 0 && <><h3>Rests on</h3><ul class="plainlist">{into.map((e, i) => <li key={i}>
      <button class="linkish" onClick={() => choose(e.from)}>{visible(e.from)}</button> <span class="note">{e.kind}{e.role ? ` {${visible(e.role)}}` : ''}{e.kind === 'control' ? ', grounds nothing' : ''}</span>
      {e.kind === 'derive' && verdict && <span class={'tag ' + verdict.kind} title={visible(verdict.reason)}>{words(verdict.kind)}</span>}
    </li>)}</ul></>}
    {n.kind !== 'source' && <p class="note">reaches {sources.length === 0 ? 'no source' : sources.map((s, i) => <span key={s.id}>{i ? ', ' : ''}<button class="linkish" onClick={() => choose(s.id)}>{visible(s.name ?? s.id)}</button></span>)}</p>}
    {out.length > 0 && <><h3>Used by</h3><ul class="plainlist">{out.slice(0, 40).map((e, i) => <li key={i}><button class="linkish" onClick={() => choose(e.to)}>{visible(e.to)}</button> <span class="note">{e.kind}</span></li>)}{out.length > 40 && <li>and {out.length - 40} more</li>}</ul></>}
    <Cell r={r} n={n} />
  </article>
}

function replay(r: Rollout, id: string, flags: string[]) {
  const g = groundingOf(r, id)
  const found = flags.map(f => words(f.slice(0, -id.length - 1)))
  if (found.length > 0) return <span class="bad">{found.map(visible).join(', ')}</span>
  if (!g) return 'shown with the submitted claims that rest on it'
  if (g.replayed === null) return 'was not run (verigraph replay)'
  return g.replayed ? <span class="good">the cells, run again, give the same text</span> : <span class="bad">the cells, run again, give another text</span>
}

// Template is the text with its placeholders beside what filled them.
function Template({ n }: { n: GraphNode }) {
  const values = new Map((n.values ?? []).map(v => [v.name, v]))
  return <>
    <p class="template">{visible(n.template ?? '')}</p>
    <table class="plain"><thead><tr><th scope="col">Placeholder</th><th scope="col">Value</th><th scope="col">In the text</th></tr></thead><tbody>{(n.fields ?? []).map((f, i) => {
      const v = values.get(f.name)
      return <tr key={i}><th scope="row">{visible(f.name)}</th><td><code>{visible(v?.repr ?? '')}</code> <span class="note">{visible(v?.type ?? '')}</span></td><td>{visible(f.text)}{(n.given ?? []).includes(f.name) && <span class="note"> stands in the question</span>}</td></tr>
    })}</tbody></table>
  </>
}

function Cell({ r, n }: { r: Rollout; n: GraphNode }) {
  const cell = (r.graph.cells ?? []).find(c => c.turn === n.turn)
  if (!cell || n.turn < 0) return null
  const mark = cell.code.length < 64 << 10 ? statements(cell.code)[n.statement] : undefined
  return <><h3>Cell of turn {n.turn + 1}</h3><p class="note">{words(cell.status)}, {cell.completed} of {cell.statements} statements completed</p><Code text={cell.code.slice(0, 64 << 10)} mark={mark} /></>
}
