import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, type Overview, type Params } from './api'

export interface Loaded<T> { data: T | null; error: string; key: string }

// useAsk asks again when the question changes and keeps the last answer until the next one is there.
export function useAsk<T>(path: string, params: Params, again: string = ''): Loaded<T> {
  const [state, set] = useState<Loaded<T>>({ data: null, error: '', key: '' })
  const key = path + JSON.stringify(params)
  useEffect(() => {
    const stop = new AbortController()
    ask<T>(path, params, stop.signal).then(
      data => set({ data, error: '', key }),
      (e: Error) => { if (!stop.signal.aborted) set({ data: null, error: e.message, key }) },
    )
    return () => stop.abort()
  }, [key, again])
  return state
}

const calm = 2000

// useRun follows a run: every two seconds while the page is looked at. It goes on after a mistake.
export function useRun(of: number): { run: Overview | null; error: string } {
  const [state, set] = useState<{ run: Overview | null; error: string }>({ run: null, error: '' })
  const last = useRef('')
  useEffect(() => {
    let timer = 0
    const stop = new AbortController()
    last.current = ''
    const look = async (): Promise<void> => {
      if (!document.hidden || last.current === '') {
        try {
          const run = await ask<Overview>('run', { of }, stop.signal)
          const now = JSON.stringify([run.rev, run.status, run.live, run.problems, run.summary])
          if (now !== last.current) set({ run, error: '' })
          last.current = now
        } catch (e) {
          if (stop.signal.aborted) return
          last.current = 'failed'
          set(old => ({ ...old, error: (e as Error).message }))
        }
      }
      if (!stop.signal.aborted) timer = window.setTimeout(look, calm)
    }
    void look()
    return () => { stop.abort(); clearTimeout(timer) }
  }, [of])
  return state
}

// useKeys listens to single keys, but not while a person types.
export function useKeys(keys: Record<string, (e: KeyboardEvent) => void>): void {
  const held = useRef(keys)
  held.current = keys
  useEffect(() => {
    const pressed = (e: KeyboardEvent): void => {
      const at = e.target as HTMLElement
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return
      if (at.closest('input, select, textarea') && e.key !== 'Escape') return
      held.current[e.key]?.(e)
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [])
}
