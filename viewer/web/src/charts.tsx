import { compact, num } from './format'

interface Line { name: string; values: (number | null)[]; color: number }

// Lines draws series over the same buckets; a line goes on over a bucket without a value.
export function Lines({ title, lines, from, to, low, high }: { title: string; lines: Line[]; from: string; to: string; low?: number; high?: number }) {
  const all = lines.flatMap(l => l.values).filter((v): v is number => v !== null)
  const shown = lines.filter(l => l.values.some(v => v !== null))
  if (all.length === 0) return <figure class="chart"><figcaption>{title}</figcaption><p class="wait">nothing was measured</p></figure>
  let min = Math.min(low ?? Infinity, ...all), max = Math.max(high ?? -Infinity, ...all)
  if (min === max) { min -= 0.5; max += 0.5 }
  const w = 400, h = 120
  const y = (v: number) => h - 4 - ((v - min) / (max - min)) * (h - 8)
  const last = (l: Line) => l.values.findLast(v => v !== null)
  return <figure class="chart">
    <figcaption>{title} <span class="legend">{shown.map(l => <span key={l.name} class={`key s${l.color}`}>{l.name} <b>{num(last(l))}</b></span>)}</span></figcaption>
    <div class="plot">
      <span class="axis top">{short(max)}</span><span class="axis bottom">{short(min)}</span>
      <svg viewBox={`0 0 ${w} ${h}`} preserveAspectRatio="none" role="img" aria-label={`${title}: ` + shown.map(l => `${l.name} ends at ${num(last(l))}`).join(', ')}>
        <line x1="0" x2={w} y1={y(Math.max(min, 0))} y2={y(Math.max(min, 0))} class="zero" />
        {shown.map(l => <path key={l.name} class={`line s${l.color}`} d={path(l.values, w, y)} />)}
      </svg>
    </div>
    <div class="ends"><span>{from}</span><span>{to}</span></div>
  </figure>
}

function path(values: (number | null)[], w: number, y: (v: number) => number): string {
  const step = w / Math.max(values.length - 1, 1)
  let out = ''
  values.forEach((v, i) => { if (v !== null) out += `${out ? 'L' : 'M'}${(i * step).toFixed(1)} ${y(v).toFixed(1)}` })
  return out.includes('L') ? out : out + 'h3' // a lonely value is a dot
}

interface Bins { min: number; max: number; bins: number[] }

// Bars draws a histogram, or two of them over each other on a common axis.
export function Bars({ title, sets, note, href }: { title: string; sets: (Bins & { name: string })[]; note?: string; href?: (from: number, to: number) => string }) {
  const min = Math.min(...sets.map(s => s.min)), max = Math.max(...sets.map(s => s.max))
  const span = max - min || 1
  const top = Math.max(...sets.flatMap(s => s.bins.map(n => n / total(s))))
  const w = 240, h = 70
  return <figure class="chart small">
    <figcaption>{title} {note && <span class="legend">{note}</span>}</figcaption>
    <svg viewBox={`0 0 ${w} ${h}`} preserveAspectRatio="none" role={href ? undefined : 'img'} aria-label={href ? undefined : `distribution of ${title} from ${num(min)} to ${num(max)}`}>
      {sets.map((s, k) => s.bins.map((n, i) => {
        const width = (s.max - s.min) / s.bins.length
        const from = s.min + i * width, to = from + width
        const x = ((from - min) / span) * w, bw = Math.max(((width || span / 24) / span) * w - 1, 1)
        const bh = n === 0 ? 0 : Math.max((n / total(s) / top) * h, 1.5)
        if (n === 0) return null
        const bar = <rect key={`${k}.${i}`} class={`bar s${k}`} x={x} width={bw} y={h - bh} height={bh}><title>{`${num(from)} to ${num(to)}: ${n}`}</title></rect>
        return href ? <a key={`${k}.${i}`} href={href(from, to)} aria-label={`${title} ${num(from)} to ${num(to)}: ${n} rollouts`}>{bar}</a> : bar
      }))}
    </svg>
    <div class="ends"><span>{short(min)}</span><span>{short(max)}</span></div>
  </figure>
}

const short = (v: number) => (Math.abs(v) >= 1000 ? compact(v) : num(v, 2))
const total = (s: Bins) => s.bins.reduce((a, b) => a + b, 0) || 1
