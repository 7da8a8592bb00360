import { useState } from 'preact/hooks'
import type { Rollout, Span, TokenPage } from './api'
import { num, visible, whole } from './format'
import { useAsk } from './hooks'
import type { At } from './rollout'

const size = 1000
type Color = 'log-prob' | 'mask' | 'version'

export function Tokens({ r, at, named }: { r: Rollout; at: At; named: boolean }) {
  const segments = r.segments ?? []
  const [segment, setSegment] = useState(0)
  const [offset, setOffset] = useState(() => segments[0]?.prompt ?? 0)
  const [color, setColor] = useState<Color>('log-prob')
  const [picked, pick] = useState(-1)
  const { data, error } = useAsk<TokenPage>('tokens', { id: at.id, of: at.of, segment, offset, limit: size })
  if (segments.length === 0) return <p class="empty">This rollout has no token segment.</p>
  const s = segments[segment]!
  const total = s.prompt + s.response
  const move = (to: number) => { pick(-1); setOffset(Math.max(0, Math.min(to, total - 1))) }
  return <div class="tokens">
    <p class="bar">
      {segments.length > 1 && <label>segment <select value={segment} onChange={e => { const k = Number(e.currentTarget.value); setSegment(k); move(segments[k]?.prompt ?? 0) }}>{segments.map((_, i) => <option key={i} value={i}>{i + 1}</option>)}</select></label>}
      <label>colour <select value={color} onChange={e => setColor(e.currentTarget.value as Color)}><option>log-prob</option><option>mask</option><option>version</option></select></label>
      <button disabled={offset === 0} onClick={() => move(offset - size)}>Previous</button>
      <span>{whole(offset)} to {whole(Math.min(offset + size, total))} of {whole(total)} ({whole(s.prompt)} prompt)</span>
      <button disabled={offset + size >= total} onClick={() => move(offset + size)}>Next</button>
      <button disabled={offset === s.prompt} onClick={() => move(s.prompt)}>First answer</button>
    </p>
    {!named && <p class="note">No tokenizer is at hand, so that tokens are shown as ids; give one by --tokenizer.</p>}
    {(error || data?.warning) && <p class="problem" role="alert">{error || data!.warning}</p>}
    <Map s={s} offset={offset} move={move} />
    <p class="legend"><Legend color={color} spans={s.spans ?? []} /></p>
    {data && <Page page={data} color={color} picked={picked} pick={pick} />}
    <p class="status" role="status">{data && picked >= 0 ? describe(data, picked) : 'Point at a token, or walk with Tab, for its numbers.'}</p>
  </div>
}

// Map draws the whole segment: prompt, then its spans; a click goes there.
function Map({ s, offset, move }: { s: { prompt: number; response: number; spans: Span[] | null }; offset: number; move: (to: number) => void }) {
  const total = Math.max(1, s.prompt + s.response)
  return <div class="map">
    <button class="prompt" style={{ flexGrow: s.prompt / total }} onClick={() => move(0)} aria-label={`prompt, ${s.prompt} tokens`} title={`prompt, ${s.prompt} tokens`} />
    {(s.spans ?? []).map(sp => {
      const what = `${sp.kind} of turn ${sp.turn + 1}, ${sp.end - sp.start} tokens${sp.kind === 'sampled' ? `, version ${versions(sp)}` : ''}`
      return <button key={sp.start} class={sp.kind + (s.prompt + sp.start >= offset && s.prompt + sp.start < offset + size ? ' in' : '')} style={{ flexGrow: (sp.end - sp.start) / total }} onClick={() => move(s.prompt + sp.start)} aria-label={what} title={what} />
    })}
  </div>
}

const versions = (s: Span) => (s.policy_version === s.policy_version_end ? `${s.policy_version}` : `${s.policy_version} to ${s.policy_version_end} (mixed)`)

const kinds = { prompt: 'prompt', sampled: 'sampled', observation: 'observation', template: 'template', history: 'repeated history' }

function Legend({ color, spans }: { color: Color; spans: Span[] }) {
  return <>{Object.entries(kinds).filter(([k]) => k === 'prompt' || spans.some(sp => sp.kind === k)).map(([k, name]) => <span key={k} class="key"><i class={'dot span ' + k} />{name}</span>)}<Scale color={color} spans={spans} /></>
}

// Scale is what the colours of the tokens mean.
function Scale({ color, spans }: { color: Color; spans: Span[] }) {
  if (color === 'mask') return <><span class="tok m1">mask 1, trained</span> <span class="tok m0">mask 0</span></>
  if (color === 'version') return <>{[...new Set(spans.filter(sp => sp.kind === 'sampled').map(sp => sp.policy_version))].map(v => <span key={v} class={'tok v' + (v % 6)}>version {v}</span>)} <span class="tok m0">mask 0</span></>
  return <>{[0, 1, 2, 3, 4, 5].map(k => <span key={k} class={'tok lp' + k}>{['p > 0.9', '0.5 to 0.9', '0.1 to 0.5', '0.01 to 0.1', '0.001 to 0.01', 'below'][k]}</span>)} <span class="tok m0">mask 0</span></>
}

function level(lp: number): number {
  const p = Math.exp(lp)
  return p > 0.9 ? 0 : p > 0.5 ? 1 : p > 0.1 ? 2 : p > 0.01 ? 3 : p > 0.001 ? 4 : 5
}

function spanAt(page: TokenPage, i: number): Span | undefined {
  const k = page.offset + i - page.prompt
  return k < 0 ? undefined : (page.spans ?? []).find(s => k >= s.start && k < s.end)
}

function Page({ page, color, picked, pick }: { page: TokenPage; color: Color; picked: number; pick: (i: number) => void }) {
  const ids = page.ids ?? []
  const at = (e: Event) => { const i = (e.target as HTMLElement).dataset.i; if (i !== undefined) pick(Number(i)) }
  let last: Span | undefined
  const out = ids.map((id, i) => {
    const span = spanAt(page, i), mask = page.mask?.[i] ?? 0
    const begins = span !== undefined && span !== last
    last = span
    const cls = ['tok', mask ? 'm1' : 'm0', begins ? 'begin' : '', i === picked ? 'picked' : '']
    if (mask && color === 'log-prob') cls.push('lp' + level(page.log_probs?.[i] ?? 0))
    if (mask && color === 'version') cls.push('v' + ((span?.policy_version ?? 0) % 6))
    const text = page.texts?.[i]
    const shown = text === undefined ? `${id} ` : visible(text).replace(/\n/g, '↵\n')
    return <span key={i} class={cls.join(' ')} data-i={i}>{shown === '' ? '∅' : shown}</span>
  })
  return <pre class="tokentext" tabIndex={0} aria-label="tokens" onMouseOver={at} onClick={at} onKeyDown={e => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key]
    if (step) { e.preventDefault(); pick(Math.max(0, Math.min(ids.length - 1, picked + step))) }
  }}>{out}</pre>
}

function describe(page: TokenPage, i: number): string {
  const span = spanAt(page, i), lp = page.log_probs?.[i] ?? 0, mask = page.mask?.[i] ?? 0
  const where = span ? `${span.kind}, turn ${span.turn + 1}` : 'prompt'
  const text = page.texts?.[i]
  return `position ${page.offset + i} · id ${page.ids?.[i]}${text === undefined ? '' : ` · “${visible(text).replace(/\n/g, '↵')}”`} · ${where} · mask ${mask}` +
    (mask ? ` · log-prob ${num(lp, 4)} (p ${num(Math.exp(lp), 4)})` : '') + (span && mask ? ` · version ${versions(span)}` : '')
}
