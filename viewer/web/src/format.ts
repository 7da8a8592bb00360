// Numbers and texts as people read them.
export const none = '–'

export function num(v: number | null | undefined, digits = 3): string {
  if (v === null || v === undefined || Number.isNaN(v)) return none
  if (Number.isInteger(v) && Math.abs(v) < 1e6) return String(v)
  const size = Math.abs(v)
  if (size >= 1e5) return compact(v)
  return v.toFixed(size >= 1000 ? 0 : size >= 100 ? Math.min(digits, 1) : digits)
}

const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
const grouped = new Intl.NumberFormat('en')

export const compact = (v: number): string => short.format(v)
export const whole = (v: number): string => grouped.format(v)
export const percent = (v: number | null | undefined): string => (v === null || v === undefined ? none : `${(100 * v).toFixed(1)} %`)

export function seconds(s: number | null | undefined): string {
  if (s === null || s === undefined) return none
  if (s < 0.001) return s === 0 ? '0 s' : '<1 ms'
  if (s < 1) return `${Math.round(s * 1000)} ms`
  if (s < 120) return `${s.toFixed(1)} s`
  if (s < 7200) return `${(s / 60).toFixed(1)} min`
  return `${(s / 3600).toFixed(1)} h`
}

export const bytes = (n: number): string => (n < 1024 ? `${n} B` : n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`)

export const words = (name: string): string => name.replaceAll('_', ' ')

// visible shows what a terminal or the reading direction would act on, and what hides, by its number.
export function visible(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    c => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`)
}

export function clip(text: string, n: number): string {
  const all = [...text.slice(0, 2 * n + 2)]
  return all.length > n ? all.slice(0, n - 1).join('') + '…' : all.join('')
}
