// The address after # is the state of the page, so that reload, back and a copied link come to the same place.
import { useEffect, useState } from 'preact/hooks'

export interface Route { page: string; id: string; params: Record<string, string> }

export function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [page = '', ...rest] = path.split('/')
  const params: Record<string, string> = {}
  for (const [k, v] of new URLSearchParams(query)) params[k] = v
  return { page: page || 'run', id: rest.map(decode).join('/'), params }
}

function decode(s: string): string {
  try { return decodeURIComponent(s) } catch { return s }
}

export function link(page: string, id = '', params: Record<string, string | undefined> = {}): string {
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== '') q.set(k, v)
  const path = id ? `${page}/${id.split('/').map(encodeURIComponent).join('/')}` : page
  return `#/${path}${q.size ? '?' + q : ''}`
}

export const go = (to: string): void => { location.hash = to }

// replace changes the address without a step of the history, for filters that are typed.
export function replace(to: string): void {
  history.replaceState(null, '', to)
  dispatchEvent(new HashChangeEvent('hashchange'))
}

export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash))
  useEffect(() => {
    const changed = (): void => set(parse(location.hash))
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  return route
}
