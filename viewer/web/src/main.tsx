import { render } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Compare } from './compare'
import { GroupPageView, Groups } from './groups'
import { useKeys, useRun } from './hooks'
import { List } from './list'
import { RolloutView } from './rollout'
import { go, link, useRoute } from './route'
import { RunPage } from './run'

const keys: [string, string][] = [
  ['1 2 3 4', 'run, rollouts, groups, compare'], ['/', 'search'], ['j k ↓ ↑', 'next and previous row'], ['Enter', 'open'],
  ['t o e r s', 'turns, tokens, evidence, report, score of a rollout'], ['[ ]', 'previous and next rollout of the list'], ['g', 'its group'],
  ['← → ↑ ↓', 'in the evidence: to what a node rests on, what rests on it, its neighbours'], ['Esc', 'back'], ['d', 'dark or light'], ['?', 'this list'],
]

function App() {
  const route = useRoute()
  const of = Number(route.params.of ?? 0) || 0
  const { run, error } = useRun(of)
  const help = useRef<HTMLDialogElement>(null)
  const theme = useTheme()
  const to = (page: string) => link(page, '', of ? { of: String(of) } : {})
  const tabs: [string, string][] = [['run', 'Run'], ['list', 'Rollouts'], ['groups', 'Groups']]
  if (run && run.runs.length > 1) tabs.push(['compare', 'Compare'])
  const openHelp = () => { if (help.current?.open) help.current.close(); else help.current?.showModal() }
  useKeys({
    1: () => go(to('run')), 2: () => go(to('list')), 3: () => go(to('groups')), 4: () => { if (tabs.length > 3) go(to('compare')) },
    '?': openHelp, d: theme.toggle,
  })
  const at = route.page === 'rollout' ? 'list' : route.page === 'group' ? 'groups' : route.page
  return <>
    <a class="skip" href="#main" onClick={e => { e.preventDefault(); document.getElementById('main')?.focus() }}>Skip to the content</a>
    <header>
      <a class="brand" href={to('run')}><img src="icon.svg" alt="" width="22" height="22" /> VeriGraph</a>
      <nav aria-label="Pages">
        {tabs.map(([page, name]) => <a key={page} href={to(page)} aria-current={at === page ? 'page' : undefined}>{name}</a>)}
      </nav>
      <span class="space" />
      {run && run.runs.length > 1
        ? <label class="runs">run <select value={of} onChange={e => go(link(at === 'compare' ? 'run' : at, '', { of: e.currentTarget.value }))}>
          {run.runs.map((name, i) => <option key={i} value={i}>{name}</option>)}
        </select></label>
        : <span class="name">{run?.name}</span>}
      {run && <span class={'live ' + (run.live ? 'on' : '')}>{run.live ? 'live' : run.status?.complete || run.summary?.complete ? 'complete' : 'not running'}</span>}
      <button class="quiet" onClick={theme.toggle} title="dark or light (d)" aria-label="dark or light">{theme.dark ? '☾' : '☀'}</button>
      <button class="quiet" onClick={openHelp} title="keys (?)" aria-label="keys">?</button>
    </header>
    <main id="main" tabIndex={-1}>
      {error && <p class="problem" role="alert">The viewer can’t be reached or can’t read the run: {error}</p>}
      {!run && !error && <p class="wait" role="status">Reading the run…</p>}
      {run && <Page key={of} route={route} run={run} of={of} />}
    </main>
    <dialog ref={help} aria-label="Keys" onClick={e => { if (e.target === e.currentTarget) e.currentTarget.close() }}>
      <h2>Keys</h2>
      <dl class="keys">{keys.map(([k, what]) => <div key={k}><dt>{k.split(' ').map(x => <kbd key={x}>{x}</kbd>)}</dt><dd>{what}</dd></div>)}</dl>
      <form method="dialog"><button onClick={e => { e.preventDefault(); help.current?.close() }}>Close</button></form>
    </dialog>
  </>
}

type Props = { route: ReturnType<typeof useRoute>; run: NonNullable<ReturnType<typeof useRun>['run']>; of: number }

function Page({ route, run, of }: Props) {
  switch (route.page) {
    case 'run': return <RunPage run={run} of={of} />
    case 'list': return <List run={run} of={of} params={route.params} />
    case 'groups': return <Groups run={run} of={of} params={route.params} />
    case 'group': return <GroupPageView id={route.id} run={run} of={of} />
    case 'rollout': return <RolloutView key={route.id} id={route.id} params={route.params} run={run} of={of} />
    case 'compare': return <Compare run={run} />
  }
  return <p class="problem" role="alert">There is no page “{route.page}”.</p>
}

function useTheme() {
  const system = matchMedia('(prefers-color-scheme: dark)')
  const [chosen, choose] = useState(() => localStorage.getItem('theme'))
  const [prefers, setPrefers] = useState(system.matches)
  useEffect(() => {
    const changed = () => setPrefers(system.matches)
    system.addEventListener('change', changed)
    return () => system.removeEventListener('change', changed)
  }, [])
  const dark = chosen ? chosen === 'dark' : prefers
  useEffect(() => { document.documentElement.dataset.theme = dark ? 'dark' : 'light' }, [dark])
  return { dark, toggle: () => { const next = dark ? 'light' : 'dark'; localStorage.setItem('theme', next); choose(next) } }
}

render(<App />, document.getElementById('app')!)
