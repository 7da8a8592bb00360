// The list of rollouts: the server filters, sorts and pages; only the rows in sight are in the page.
import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, type ListPage, type ListRow, type Overview } from './api'
import { clip, none, num, seconds, visible, whole, words } from './format'
import { useKeys } from './hooks'
import { go, link, replace } from './route'

export const rowHeight = 34
const pageSize = 100

interface Col { key: string; width: string; name: string; sort?: string; help?: string; cell: (r: ListRow, n: (name: string) => number | null) => preact.ComponentChildren; cls?: string }

const allColumns: Col[] = [
  { key: 'id', width: '134px', name: 'Rollout', sort: 'ended', help: 'in the order in which they ended', cell: r => visible(r.id), cls: 'id' },
  { key: 'end', width: '112px', name: 'Ended', sort: 'termination', cell: r => <span class={'tag ' + r.termination}>{visible(words(r.termination))}</span>, cls: 'end' },
  { key: 'correct', width: '56px', name: 'Right', sort: 'correct', cell: r => verdict(r), cls: 'c' },
  { key: 'total', width: '76px', name: 'Reward', sort: 'total', cell: (r, n) => (r.status === 'ok' ? num(n('total')) : words(r.status)), cls: 'n' },
  { key: 'process', width: '48px', name: 'Proc', sort: 'process', help: 'R_process', cell: (_, n) => num(n('process'), 2), cls: 'n' },
  { key: 'infer', width: '54px', name: 'Infer', sort: 'infer', help: 'R_infer', cell: (_, n) => num(n('infer'), 2), cls: 'n' },
  { key: 'outcome', width: '50px', name: 'Outc', sort: 'outcome', help: 'R_outcome', cell: (_, n) => num(n('outcome'), 2), cls: 'n' },
  { key: 'ground', width: '70px', name: 'S N R J', sort: 'structural', help: 'share of submitted claims: structural, lexical, replayed, supported', cell: (_, n) => <Ground n={n} />, cls: 'g' },
  { key: 'source', width: '96px', name: 'Source', sort: 'source', cell: r => visible(r.source), cls: 's' },
  { key: 'errors', width: '58px', name: 'Errors', sort: 'errors', help: 'failed cells of all cells', cell: (_, n) => <>{n('errors') ? <b class="bad">{n('errors')}</b> : 0}<span class="dim">/{n('cells')}</span></>, cls: 'n' },
  { key: 'claims', width: '60px', name: 'Claims', sort: 'claims', cell: (_, n) => num(n('claims')), cls: 'n' },
  { key: 'tokens', width: '62px', name: 'Tokens', sort: 'tokens', help: 'longest row', cell: (_, n) => (n('tokens') === null ? none : whole(n('tokens')!)), cls: 'n' },
  { key: 'version', width: '38px', name: 'Ver', sort: 'version', help: 'oldest policy version', cell: (_, n) => num(n('version')), cls: 'n' },
  { key: 'time', width: '62px', name: 'Policy', sort: 'generate_s', help: 'time of policy calls', cell: (_, n) => seconds(n('generate_s')), cls: 'n' },
  { key: 'flags', width: '150px', name: 'Flags', sort: 'disagree', help: 'sorted by how much judges disagree', cell: r => <>{r.disagree && <span class="tag warn" title="judges disagree">⚖</span>}{r.flags?.slice(0, 2).map(f => <span key={f} class="tag warn">{clip(visible(f), 24)}</span>)}</>, cls: 'f' },
  { key: 'answer', width: 'minmax(190px, 1fr)', name: 'Answer', cell: r => clip(visible((r.answer || r.error).replace(/\s+/g, ' ')), 160), cls: 'a' },
]

// columnsOf leaves out what is the same in every row.
const columnsOf = (run: Overview): Col[] => allColumns.filter(c => c.key !== 'source' || run.stats.sources.length > 1)

function verdict(r: ListRow) {
  if (r.correct === null) return <span class="dim" title="no rule">{none}</span>
  return r.correct ? <span class="good" title="right">✓</span> : <span class="bad" title="wrong">✗</span>
}

function Ground({ n }: { n: (name: string) => number | null }) {
  return <>{(['structural', 'lexical', 'replayed', 'supported'] as const).map(p => {
    const v = n(p)
    return <i key={p} class={'dot ' + (v === null ? 'null' : v === 1 ? 'yes' : v === 0 ? 'no' : 'part')} title={`${p}: ${v === null ? 'not run' : num(v, 2)}`} />
  })}</>
}

interface Props { run: Overview; of: number; params: Record<string, string> }

// asked is what of the address goes to the server.
function asked(params: Record<string, string>): Record<string, string> {
  const out: Record<string, string> = {}
  for (const [k, v] of Object.entries(params)) if (v !== '' && k !== 'at') out[k] = v
  return out
}

export function List({ run, of, params }: Props) {
  const columns = columnsOf(run)
  const template = columns.map(c => c.width).join(' ')
  const query = asked({ ...params, of: String(of) })
  const key = JSON.stringify(query)
  const { page, rowAt, show, error, applied } = usePages(query, key, run.rev)
  const [at, setAt] = useState(Number(params.at) || 0)
  const [top, setTop] = useState(0)
  const scroll = useRef<HTMLDivElement>(null)
  const height = useHeight(scroll)
  const matched = page?.matched ?? 0
  const first = Math.max(0, Math.floor(top / rowHeight) - 6), last = Math.min(matched, first + Math.ceil(height / rowHeight) + 12)
  useEffect(() => show(first, last), [first, last, key, run.rev])
  useEffect(() => { scroll.current?.scrollTo(0, 0); setTop(0) }, [key])
  useEffect(() => { if (params.at) scroll.current?.scrollTo(0, Math.max(0, (Number(params.at) - 5) * rowHeight)) }, [])

  const set = (change: Record<string, string>) => { setAt(0); replace(link('list', '', { ...params, ...change, at: '' })) }
  const move = (to: number) => {
    const next = Math.max(0, Math.min(matched - 1, to))
    setAt(next)
    const box = scroll.current
    if (!box) return
    const y = next * rowHeight
    if (y < box.scrollTop) box.scrollTop = y
    else if (y + 2 * rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = y + 2 * rowHeight - box.clientHeight
  }
  const open = (i: number) => {
    const r = rowAt(i)
    if (!r) return
    remember(query, i, matched)
    replace(link('list', '', { ...params, at: String(i) }))
    go(link('rollout', r.id, of ? { of: String(of) } : {}))
  }
  const rows = Math.max(1, Math.floor(height / rowHeight) - 1)
  const by = (d: number) => (e: KeyboardEvent) => { e.preventDefault(); move(at + d) }
  useKeys({
    j: by(1), k: by(-1), ArrowDown: by(1), ArrowUp: by(-1), PageDown: by(rows), PageUp: by(-rows), Home: by(-matched), End: by(matched),
    Enter: e => { if (!(e.target as HTMLElement).closest('a, button')) open(at) },
    '/': e => { e.preventDefault(); document.getElementById('search')?.focus() },
    Escape: () => (document.activeElement as HTMLElement)?.blur(),
  })

  const shown = []
  for (let i = first; i < last; i++) shown.push(<Row key={i} i={i} row={rowAt(i)} page={page} on={i === at} open={open} of={of} columns={columns} template={template} />)
  return <div class="fill">
    <Filters run={run} params={params} set={set} />
    <p class="status" role="status" data-applied={applied}>{error ? <span class="bad">{error}</span> : page ? `${whole(matched)} of ${whole(page.total)} rollouts` : 'Reading…'}</p>
    <div class="table" role="grid" aria-label="Rollouts" aria-rowcount={matched + 1} aria-colcount={columns.length}>
      <div class="scroll" ref={scroll} tabIndex={0} role="rowgroup" aria-label="rows" onScroll={e => setTop(e.currentTarget.scrollTop)}>
        <div class="head row" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>{columns.map(c => <Head key={c.key} col={c} sort={params.sort ?? ''} set={set} />)}</div>
        <div role="presentation" class="body" style={{ height: `${matched * rowHeight}px` }}>{shown}</div>
      </div>
    </div>
  </div>
}

function Head({ col, sort, set }: { col: Col; sort: string; set: (c: Record<string, string>) => void }) {
  const state = col.sort && (sort === col.sort ? 'ascending' : sort === '-' + col.sort ? 'descending' : undefined)
  return <span role="columnheader" class={col.cls} aria-sort={state || undefined} title={col.help}>
    {col.sort ? <button class="quiet" onClick={() => set({ sort: state === 'descending' ? col.sort! : '-' + col.sort! })}>{col.name}{state === 'ascending' ? '↑' : state === 'descending' ? '↓' : ''}</button> : col.name}
  </span>
}

function Row({ i, row, page, on, open, of, columns, template }: { columns: Col[]; template: string; i: number; row: ListRow | undefined; page: ListPage | null; on: boolean; open: (i: number) => void; of: number }) {
  const at = { top: `${i * rowHeight}px`, gridTemplateColumns: template }
  if (!row || !page) return <div class="row" role="row" aria-rowindex={i + 2} style={at}><span role="gridcell" class="dim">…</span></div>
  const n = (name: string) => row.numbers[page.columns.indexOf(name)] ?? null
  return <div class={'row' + (on ? ' on' : '')} role="row" aria-rowindex={i + 2} aria-selected={on} style={at} onClick={e => { if (!(e.target as HTMLElement).closest('a')) open(i) }}>
    {columns.map(c => <span key={c.key} role="gridcell" class={c.cls}>
      {c.key === 'id' ? <><a href={link('rollout', row.id, of ? { of: String(of) } : {})} onClick={e => { e.preventDefault(); open(i) }}>{visible(row.id)}</a></> : c.cell(row, n)}
    </span>)}
  </div>
}

const bounds = ['total', 'process', 'infer', 'outcome', 'penalty', 'structural', 'lexical', 'replayed', 'supported', 'errors', 'cells', 'claims', 'turns', 'tokens', 'nodes', 'refuted', 'split', 'disagree', 'version', 'generate_s', 'tool_s']

export function Filters({ run, params, set }: { run: Overview; params: Record<string, string>; set: (c: Record<string, string>) => void }) {
  const s = run.stats
  const bounded = bounds.find(b => params['min.' + b] !== undefined || params['max.' + b] !== undefined)
  const [col, setCol] = useState(bounded ?? 'total')
  const used = Object.keys(params).filter(k => !['of', 'sort', 'at', 'by'].includes(k) && params[k] !== '')
  const choice = (key: string, name: string, options: [string, string][]) =>
    <label>{name} <select value={params[key] ?? ''} onChange={e => set({ [key]: e.currentTarget.value })}>
      <option value="">any</option>{options.map(([v, label]) => <option key={v} value={v}>{label}</option>)}
    </select></label>
  return <form class="filters" onSubmit={e => e.preventDefault()} aria-label="Filters">
    <label class="search">search <input id="search" type="search" placeholder="id, answer, flag, error" value={params.q ?? ''} onInput={e => set({ q: e.currentTarget.value })} /></label>
    {choice('termination', 'ended', s.terminations.map(t => [t.name, `${words(t.name)} (${whole(t.n)})`]))}
    {choice('status', 'scored', s.statuses.map(t => [t.name, `${words(t.name)} (${whole(t.n)})`]))}
    {s.sources.length > 1 && choice('source', 'source', s.sources.map(t => [t.name, `${clip(visible(t.name), 40)} (${whole(t.n)})`]))}
    {choice('correct', 'right', [['yes', 'yes'], ['no', 'no'], ['none', 'no rule']])}
    {choice('min.structural', 'grounded', [['1', 'all claims']])}
    {s.flags.length > 0 && choice('flag', 'flag', s.flags.map(f => [f.name, `${clip(visible(f.name), 30)} (${whole(f.n)})`]))}
    <label><input type="checkbox" checked={params['min.errors'] === '1'} onChange={e => set({ 'min.errors': e.currentTarget.checked ? '1' : '' })} /> errors</label>
    <label><input type="checkbox" checked={params.disagree === 'true'} onChange={e => set({ disagree: e.currentTarget.checked ? 'true' : '' })} /> judges disagree</label>
    <span class="range">
      <select aria-label="column of the range" value={col} onChange={e => setCol(e.currentTarget.value)}>{bounds.map(b => <option key={b} value={b}>{words(b)}</option>)}</select>
      <input aria-label={`least ${col}`} type="number" step="any" placeholder="from" value={params['min.' + col] ?? ''} onInput={e => set({ ['min.' + col]: e.currentTarget.value })} />
      <input aria-label={`most ${col}`} type="number" step="any" placeholder="to" value={params['max.' + col] ?? ''} onInput={e => set({ ['max.' + col]: e.currentTarget.value })} />
    </span>
    {used.length > 0 && <button type="button" onClick={() => set(Object.fromEntries(used.map(k => [k, ''])))}>Clear</button>}
  </form>
}

// usePages holds the pages of one question. When the run grows, the old rows stay in sight until the new ones come.
function usePages(query: Record<string, string>, key: string, rev: string) {
  const store = useRef({ key: '', rev: '', pages: new Map<number, ListRow[]>(), old: new Map<number, ListRow[]>(), asked: new Set<number>(), stop: new AbortController() })
  const [state, set] = useState<{ page: ListPage | null; error: string; applied: string; n: number }>({ page: null, error: '', applied: '', n: 0 })
  const s = store.current
  if (s.key !== key || s.rev !== rev) {
    s.stop.abort()
    Object.assign(s, { old: s.key === key ? s.pages : new Map(), key, rev, pages: new Map(), asked: new Set(), stop: new AbortController() })
  }
  useEffect(() => () => store.current.stop.abort(), [])
  const need = (offset: number) => {
    if (s.asked.has(offset)) return
    s.asked.add(offset)
    const { pages, stop } = s
    ask<ListPage>('rollouts', { ...query, offset, limit: pageSize }, stop.signal).then(
      page => { pages.set(offset, page.rows); set(old => ({ page, error: '', applied: key, n: old.n + 1 })) },
      (e: Error) => { if (!stop.signal.aborted) set(old => ({ ...old, page: old.page, error: e.message, applied: key })) },
    )
  }
  return {
    page: state.page, error: state.error, applied: state.applied,
    rowAt: (i: number): ListRow | undefined => {
      const offset = i - (i % pageSize)
      return (s.pages.get(offset) ?? s.old.get(offset))?.[i - offset]
    },
    show: (first: number, last: number) => {
      need(first - (first % pageSize))
      if (last > 0) need(last - 1 - ((last - 1) % pageSize))
    },
  }
}

function useHeight(box: preact.RefObject<HTMLElement | null>): number {
  const [h, set] = useState(800)
  useEffect(() => {
    if (!box.current) return
    const watch = new ResizeObserver(all => { const e = all[0]; if (e) set(e.contentRect.height) })
    watch.observe(box.current)
    return () => watch.disconnect()
  }, [])
  return h
}

// The list that a rollout was opened from, for the keys [ and ].
let opened: { query: Record<string, string>; at: number; matched: number } | null = null

function remember(query: Record<string, string>, at: number, matched: number): void { opened = { query, at, matched } }

export async function neighbour(step: number): Promise<string | null> {
  if (!opened || opened.at + step < 0 || opened.at + step >= opened.matched) return null
  const page = await ask<ListPage>('rollouts', { ...opened.query, offset: opened.at + step, limit: 1 })
  if (!page.rows[0]) return null
  opened.at += step
  return page.rows[0].id
}
