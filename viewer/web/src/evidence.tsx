import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { url, type GraphNode, type Rollout } from './api'
import { verdictOf } from './claim'
import { clip, visible, words } from './format'
import { arrange, closure, edgeKey, isClaim, type Box, type Laid } from './layout'
import { NodePanel } from './node'
import type { At } from './rollout'

// readable is the scale below which the text of a node is too small.
const readable = 0.65

interface View { x: number; y: number; k: number }

export function Evidence({ r, at, chosen, choose }: { r: Rollout; at: At; chosen: string; choose: (node: string) => void }) {
  const g = r.graph
  const [only, setOnly] = useState(false)
  const live = useMemo(() => new Set(g.live), [g])
  const shown = useMemo(() => new Set(only ? g.live : g.nodes.map(n => n.id)), [g, only])
  const laid = useMemo(() => arrange(g, shown), [g, shown])
  const picked = useMemo(() => chosen.split(',').filter(id => g.nodes.some(n => n.id === id)), [chosen, g])
  const lit = useMemo(() => closure(g, picked), [picked, g])
  const svg = useRef<SVGSVGElement>(null)
  if (g.nodes.length === 0) return <p class="empty">The evidence is empty.</p>
  const save = (e: Event) => { e.preventDefault(); if (svg.current) download(svg.current, laid, r.id) }
  const file = (format: string) => url('graph', { id: at.id, of: at.of, format, only: only ? 'submitted' : 'all' })
  return <div class="evidence">
    <p class="bar">
      <label><input type="checkbox" checked={only} onChange={e => setOnly(e.currentTarget.checked)} /> only what the answer rests on ({g.live.length} of {g.nodes.length})</label>
      <span class="legend">{(['source', 'variable', 'value', 'atomic', 'derived'] as const).map(k => <span key={k} class="key"><i class={'dot ' + k} />{k}</span>)}<span class="key dim">faded: not in the answer</span></span>
      <span class="space" />
      <span>save as <a href="#svg" onClick={save}>SVG</a> {['mermaid', 'dot', 'json'].map(f => <span key={f}> <a href={file(f)} download>{f === 'mermaid' ? 'Mermaid' : f.toUpperCase()}</a></span>)}</span>
    </p>
    <div class="canvas">
      <Drawing svg={svg} r={r} laid={laid} live={live} picked={picked} lit={lit} choose={choose} />
      <aside aria-label="Node" aria-live="polite">{picked.length === 0 ? <Hint r={r} choose={choose} /> : picked.map(id => <NodePanel key={id} r={r} id={id} choose={choose} />)}</aside>
    </div>
  </div>
}

function Hint({ r, choose }: { r: Rollout; choose: (id: string) => void }) {
  const g = r.graph
  return <>
    <p class="empty">Choose a claim to light up what it rests on.</p>
    <h3>Submitted claims</h3>
    {(g.submitted ?? []).length === 0 && <p class="dim">none</p>}
    <ul class="plainlist">{(g.submitted ?? []).slice(0, 60).map(id => <li key={id}><button class="linkish" onClick={() => choose(id)}>{visible(id)}</button> {clip(visible(g.nodes.find(n => n.id === id)?.text ?? ''), 120)}</li>)}</ul>
    {(g.refusals ?? []).length > 0 && <><h3>Refused calls</h3><ul class="plainlist">{g.refusals!.map((f, i) => <li key={i}>turn {f.turn + 1}, {visible(f.primitive)} ({visible(f.rule)}): {visible(f.message)}</li>)}</ul></>}
    {(g.taints ?? []).length > 0 && <><h3>Taints</h3><ul class="plainlist">{g.taints!.map((t, i) => <li key={i}>turn {t.turn + 1}: {visible(t.construct)}</li>)}</ul></>}
    {(g.flags ?? []).length > 0 && <><h3>Flags</h3><ul class="plainlist">{g.flags!.map(f => <li key={f}>{visible(f)}</li>)}</ul></>}
  </>
}

interface DrawingProps { svg: preact.RefObject<SVGSVGElement | null>; r: Rollout; laid: Laid; live: Set<string>; picked: string[]; lit: { nodes: Set<string>; edges: Set<number> }; choose: (id: string) => void }

function Drawing({ svg, r, laid, live, picked, lit, choose }: DrawingProps) {
  const [view, setView] = useState<View>({ x: 0, y: 0, k: 1 })
  const box = useRef<HTMLDivElement>(null)
  const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null)
  const fit = () => {
    const b = box.current
    if (!b) return
    const k = Math.min(1.2, b.clientWidth / laid.width, b.clientHeight / laid.height)
    setView({ k, x: (b.clientWidth - laid.width * k) / 2, y: (b.clientHeight - laid.height * k) / 2 })
  }
  useEffect(fit, [laid])
  useEffect(() => { // bring what was chosen, and what it rests on, into sight; what can be read already stays
    const at = picked[0] && laid.boxes.get(picked[0]), b = box.current
    if (!at || !b) return
    setView(v => {
      const x = at.x * v.k + v.x, y = at.y * v.k + v.y
      if (v.k >= readable && x > 0 && y > 0 && x + at.w * v.k < b.clientWidth && y + at.h * v.k < b.clientHeight) return v
      const all = [...lit.nodes].map(id => laid.boxes.get(id)).filter(n => n !== undefined)
      const left = Math.min(...all.map(n => n.x)), right = Math.max(...all.map(n => n.x + n.w))
      const top = Math.min(...all.map(n => n.y)), bottom = Math.max(...all.map(n => n.y + n.h))
      const k = Math.min(1.1, (b.clientWidth - 40) / (right - left), (b.clientHeight - 40) / (bottom - top))
      if (k >= readable) return { k, x: (b.clientWidth - (left + right) * k) / 2, y: (b.clientHeight - (top + bottom) * k) / 2 }
      return { k: 0.85, x: b.clientWidth * 0.6 - at.x * 0.85, y: b.clientHeight / 2 - at.y * 0.85 }
    })
  }, [picked.join(), laid])
  const zoom = (by: number, cx?: number, cy?: number) => setView(v => {
    const b = box.current!, k = Math.max(0.05, Math.min(3, v.k * by))
    const x = cx ?? b.clientWidth / 2, y = cy ?? b.clientHeight / 2
    return { k, x: x - ((x - v.x) * k) / v.k, y: y - ((y - v.y) * k) / v.k }
  })
  useEffect(() => {
    const b = box.current
    if (!b) return
    const wheel = (e: WheelEvent) => {
      e.preventDefault()
      const rect = b.getBoundingClientRect()
      if (e.ctrlKey || e.deltaMode === 0 && Math.abs(e.deltaY) >= 40 && e.deltaX === 0) zoom(Math.exp(-Math.sign(e.deltaY) * 0.15), e.clientX - rect.left, e.clientY - rect.top)
      else setView(v => ({ ...v, x: v.x - e.deltaX, y: v.y - e.deltaY }))
    }
    b.addEventListener('wheel', wheel, { passive: false })
    return () => b.removeEventListener('wheel', wheel)
  }, [])
  const any = picked.length > 0
  const g = r.graph
  const edges = useMemo(() => (g.edges ?? []).map((e, i) => {
    const d = laid.paths.get(edgeKey(i))
    if (!d) return null
    const cls = ['edge', e.kind, e.kind === 'derive' ? verdictOf(r, e.to)?.kind ?? '' : '', lit.edges.has(i) ? 'lit' : any ? 'off' : live.has(e.to) ? '' : 'dead'].join(' ')
    return <path key={i} class={cls} d={d} marker-end="url(#arrow)"><title>{visible(`${e.from} to ${e.to}: ${e.kind}${e.role ? ' ' + e.role : ''}`)}</title></path>
  }), [g, laid, lit, any, live])
  const nodes = useMemo(() => g.nodes.map(n => {
    const at = laid.boxes.get(n.id)
    return at && <NodeShape key={n.id} n={n} at={at} r={r} cls={[live.has(n.id) ? '' : 'dead', picked.includes(n.id) ? 'picked' : '', lit.nodes.has(n.id) ? 'lit' : any ? 'off' : '', (g.submitted ?? []).includes(n.id) ? 'submitted' : ''].join(' ')} choose={id => choose(picked.length === 1 && picked[0] === id ? '' : id)} />
  }), [g, laid, lit, picked, any, live])
  const key = (e: KeyboardEvent) => {
    const id = (e.target as Element).closest('[data-id]')?.getAttribute('data-id')
    const next = id ? neighbourOf(g.edges ?? [], laid, id, e.key) : undefined
    if (next === undefined) {
      if (e.key === '+' || e.key === '-') zoom(e.key === '+' ? 1.2 : 1 / 1.2)
      if (e.key === '0') fit()
      return
    }
    e.preventDefault(); e.stopPropagation()
    const el = [...svg.current!.querySelectorAll('[data-id]')].find(x => x.getAttribute('data-id') === next)
    ;(el as SVGElement | undefined)?.focus()
    choose(next)
  }
  return <div class="drawing" ref={box} onKeyDown={key}
    onPointerDown={e => { if (e.button === 0 && !(e.target as Element).closest('[data-id], button')) { drag.current = { x: e.clientX, y: e.clientY, moved: false }; e.currentTarget.setPointerCapture(e.pointerId) } }}
    onPointerMove={e => { const d = drag.current; if (d) { const dx = e.clientX - d.x, dy = e.clientY - d.y; drag.current = { x: e.clientX, y: e.clientY, moved: true }; setView(v => ({ ...v, x: v.x + dx, y: v.y + dy })) } }}
    onPointerUp={() => { if (drag.current && !drag.current.moved) choose(''); drag.current = null }}>
    <div class="zoom"><button onClick={() => zoom(1.3)} aria-label="larger">+</button><button onClick={() => zoom(1 / 1.3)} aria-label="smaller">−</button><button onClick={fit}>Fit</button></div>
    <svg ref={svg} width="100%" height="100%" role="group" aria-label={`evidence of ${g.nodes.length} nodes`}>
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" class="arrow" /></marker></defs>
      <g transform={`translate(${view.x} ${view.y}) scale(${view.k})`}><g>{edges}</g><g>{nodes}</g></g>
    </svg>
  </div>
}

// neighbourOf: left is what a node rests on, right is what rests on it, up and down are those of its column.
function neighbourOf(edges: { from: string; to: string }[], laid: Laid, id: string, key: string): string | undefined {
  const here = laid.boxes.get(id)
  if (!here) return undefined
  const near = (ids: string[]) => ids.filter(i => laid.boxes.has(i)).sort((a, b) => Math.abs(laid.boxes.get(a)!.y - here.y) - Math.abs(laid.boxes.get(b)!.y - here.y))[0]
  if (key === 'ArrowLeft') return near(edges.filter(e => e.to === id).map(e => e.from))
  if (key === 'ArrowRight') return near(edges.filter(e => e.from === id).map(e => e.to))
  if (key !== 'ArrowUp' && key !== 'ArrowDown') return undefined
  const up = key === 'ArrowUp'
  return near([...laid.boxes].filter(([i, b]) => i !== id && Math.abs(b.x + b.w / 2 - here.x - here.w / 2) < 110 && (up ? b.y < here.y : b.y > here.y)).map(([i]) => i))
}

function label(n: GraphNode): [string, string] {
  if (n.kind === 'source') return [n.name ?? n.id, 'source']
  if (n.kind === 'value') return [`${n.name} = ${n.repr ?? ''}`, n.expression ?? '']
  if (n.kind === 'variable') return [n.id, `turn ${n.turn + 1}`]
  return [`${n.id} ${n.text ?? ''}`, '']
}

// wrap breaks a text at a blank if one is near the end of the line.
function wrap(text: string, long: number): [string, string] {
  const all = [...text.replace(/\s+/g, ' ')]
  if (all.length <= long) return [all.join(''), '']
  const blank = all.lastIndexOf(' ', long)
  const at = blank > long / 2 ? blank : long
  return [all.slice(0, at).join(''), all.slice(at).join('').trim()]
}

function NodeShape({ n, at, r, cls, choose }: { n: GraphNode; at: Box; r: Rollout; cls: string; choose: (id: string) => void }) {
  const [first, second] = label(n)
  const long = isClaim(n) ? 29 : n.kind === 'variable' ? 15 : 20
  const [line, rest] = isClaim(n) ? wrap(visible(first), long) : [clip(visible(first), long), '']
  const v = verdictOf(r, n.id)
  const bad = n.untracked || n.tainted
  return <g class={`node ${n.kind} ${cls}`} transform={`translate(${at.x} ${at.y})`} data-id={n.id} tabindex={0} role="button" aria-pressed={cls.includes('picked')}
    onClick={() => choose(n.id)} onKeyDown={e => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); e.stopPropagation(); choose(n.id) } }}>
    <rect width={at.w} height={at.h} rx={n.kind === 'value' ? at.h / 2 : n.kind === 'source' ? 3 : isClaim(n) ? 10 : 5} class={bad ? 'warned' : ''} />
    <text x={n.kind === 'value' ? 14 : 9} y="16">{line}</text>
    <text x={n.kind === 'value' ? 14 : 9} y="30" class="sub">{isClaim(n) ? clip(rest, long + 3) : clip(visible(n.untracked ? 'untracked' : second), long)}</text>
    {isClaim(n) && <text x="9" y="44" class="sub">{[v && words(v.kind), n.tainted && 'tainted', n.restates && 'restates ' + n.restates].filter(Boolean).join(' · ') || n.kind}</text>}
  </g>
}

// download writes the drawing as a file of its own: with the colours of the page, and text as text.
function download(svg: SVGSVGElement, laid: Laid, id: string): void {
  const copy = svg.cloneNode(true) as SVGSVGElement
  const from = svg.querySelectorAll('rect, path, text, .node'), to = copy.querySelectorAll('rect, path, text, .node')
  to.forEach((el, i) => {
    const s = getComputedStyle(from[i]!)
    for (const p of ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'font-size', 'font-family', 'opacity']) {
      const value = s.getPropertyValue(p)
      if (value && value !== 'none' || p === 'fill') el.setAttribute(p, value)
    }
    el.removeAttribute('class')
  })
  copy.querySelector(':scope > g')!.removeAttribute('transform')
  copy.querySelectorAll('[data-id]').forEach(el => { for (const a of ['data-id', 'tabindex', 'role', 'class', 'aria-pressed']) el.removeAttribute(a) })
  copy.setAttribute('viewBox', `0 0 ${laid.width} ${laid.height}`)
  copy.setAttribute('width', String(laid.width))
  copy.setAttribute('height', String(laid.height))
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg')
  const a = document.createElement('a')
  a.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: 'image/svg+xml' }))
  a.download = id.replaceAll('/', '-') + '.svg'
  a.click()
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000)
}
