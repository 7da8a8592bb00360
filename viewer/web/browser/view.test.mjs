import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { Server, at, fixtures, index, launch, open, rollout, root, run, second } from './harness.mjs'

let browser, server, entries
before(async () => {
  browser = await launch()
  server = await Server.start(run, ['--compare', second])
  entries = index(run)
})
after(async () => { await browser?.close(); await server?.stop() })

const text = (page, selector) => page.locator(selector).first().innerText()
const matched = async page => {
  await page.waitForFunction(() => {
    const s = document.querySelector('.status')
    const asked = new URLSearchParams(location.hash.split('?')[1] ?? '')
    const applied = JSON.parse(s?.dataset.applied || '{}')
    return [...asked].every(([k, v]) => k === 'at' || applied[k] === v) && Object.keys(applied).every(k => k === 'of' || asked.has(k))
  })
  return Number((await text(page, '.status')).split(' ')[0].replaceAll(',', ''))
}
const derived = () => entries.find(e => e.verdicts?.entailed && e.grounding.replayed !== null) ?? entries.find(e => e.verdicts?.entailed)

test('the run page shows what the summary says', async () => {
  const page = await open(browser, server.url)
  const summary = JSON.parse(readFileSync(`${run}/summary.json`, 'utf8'))
  const cards = await text(page, '.cards')
  for (const want of [`${summary.rollouts}`, `${(100 * summary.accuracy).toFixed(1)} %`, summary.rewards.total.toFixed(3), `${(100 * summary.grounding.structural).toFixed(1)} %`]) {
    assert.ok(cards.includes(want), `${want} in ${cards}`)
  }
  assert.match(await text(page, '.ledger + .legend'), new RegExp(`^${summary.ledger.dispatched} dispatched = *${summary.ledger.delivered} delivered`))
  assert.equal(await page.locator('.live').innerText(), 'complete')
  assert.ok(await page.locator('.chart').count() > 12)
  await page.done()
})

test('filters, the search and a range take what the index says, and stay over a reload', async () => {
  const page = await open(browser, at(server, 'list'))
  assert.equal(await matched(page), entries.length)
  await page.getByLabel('ended').selectOption('submitted')
  assert.equal(await matched(page), entries.filter(e => e.submitted).length)
  await page.getByLabel('right').selectOption('yes')
  const right = entries.filter(e => e.submitted && e.correct)
  assert.equal(await matched(page), right.length)
  await page.getByLabel('search').fill('MEAN')
  const mean = right.filter(e => JSON.stringify(e).toLowerCase().includes('mean'))
  assert.ok(mean.length > 0 && mean.length < right.length)
  assert.equal(await matched(page), mean.length)
  await page.getByLabel('most total').fill('0.89')
  const low = mean.filter(e => e.rewards.total <= 0.89)
  assert.equal(await matched(page), low.length)
  await page.reload()
  assert.equal(await matched(page), low.length)
  assert.equal(await page.getByLabel('search').inputValue(), 'MEAN')
  await page.getByRole('button', { name: 'Clear' }).click()
  assert.equal(await matched(page), entries.length)
  await page.done()
})

test('a click on a heading sorts the whole run, not the rows in sight', async () => {
  const big = await Server.start(`${fixtures}/big`)
  const page = await open(browser, at(big, 'list'))
  const all = index(`${fixtures}/big`)
  assert.equal(await matched(page), all.length)
  await page.getByRole('columnheader', { name: 'Reward' }).getByRole('button').click()
  await matched(page)
  const first = async () => Number(await text(page, '.body .row[aria-rowindex="2"] .n'))
  const rewards = all.map(e => e.rewards.total).sort((a, b) => b - a)
  await page.waitForFunction(() => document.querySelector('[aria-sort=descending]'))
  assert.ok(Math.abs(await first() - rewards[0]) < 1e-3)
  await page.keyboard.press('End')
  await page.locator(`.row[aria-rowindex="${all.length + 1}"] a`).waitFor()
  assert.ok(Math.abs(Number(await text(page, `.row[aria-rowindex="${all.length + 1}"] .n`)) - rewards.at(-1)) < 1e-3)
  assert.ok(await page.locator('.body .row').count() < 80, 'only the rows in sight are in the page')
  await page.done()
  await big.stop()
})

test('the keys walk the list, open a rollout, its parts and its neighbours, and come back', async () => {
  const page = await open(browser, at(server, 'list?termination=submitted'))
  await matched(page)
  const list = entries.filter(e => e.submitted)
  await page.locator('.body .row a').first().waitFor()
  for (const k of ['j', 'j', 'k', 'ArrowDown']) await page.keyboard.press(k)
  await page.locator('.body .row.on[aria-rowindex="4"]').waitFor()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: list[2].rollout_id }).waitFor()
  await page.keyboard.press(']')
  await page.getByRole('heading', { name: list[3].rollout_id }).waitFor()
  await page.keyboard.press('[')
  await page.getByRole('heading', { name: list[2].rollout_id }).waitFor()
  for (const [key, tab] of [['o', 'Tokens'], ['e', 'Evidence'], ['r', 'Report'], ['s', 'Score'], ['t', 'Turns']]) {
    await page.keyboard.press(key)
    await page.locator('.tabs a[aria-current=page]', { hasText: tab }).waitFor()
  }
  await page.keyboard.press('g')
  await page.getByRole('heading', { name: /^Group/ }).waitFor()
  await page.keyboard.press('2')
  await page.locator('.body .row a').first().waitFor()
  await page.keyboard.press('/')
  await page.waitForFunction(() => document.activeElement.id === 'search')
  await page.keyboard.type('j')
  assert.equal(await page.getByLabel('search').inputValue(), 'j', 'a key that is typed is no command')
  await page.keyboard.press('Escape')
  await page.keyboard.press('?')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'hidden' })
  await page.done()
})

test('back returns to the row that was opened, with the filter', async () => {
  const page = await open(browser, at(server, 'list?correct=yes'))
  const n = await matched(page)
  await page.locator('.body .row[aria-rowindex="7"] a').click()
  await page.locator('.rhead').waitFor()
  await page.goBack()
  assert.equal(await matched(page), n)
  await page.locator('.body .row.on[aria-rowindex="7"]').waitFor()
  await page.done()
})

test('a trajectory shows every turn with its code, observation, parts and reward', async () => {
  const e = derived()
  const { trajectory, score } = rollout(run, e)
  const page = await open(browser, at(server, `rollout/${e.rollout_id}`))
  assert.equal(await page.locator('.turn').count(), trajectory.turns.length)
  for (const [i, turn] of trajectory.turns.entries()) {
    const shown = page.locator(`#turn-${i}`)
    if (turn.has_code) assert.equal((await shown.locator('pre.code').innerText()).trimEnd(), turn.code.trimEnd())
    assert.ok((await shown.innerText()).includes('version 0'))
    if (score.turn_rewards[i]) assert.ok((await shown.locator('.turnreward').innerText()).includes(score.turn_rewards[i].toFixed(3)))
  }
  assert.ok(await page.locator('.tok-keyword').count() > 0, 'the code is highlighted')
  await page.done()
})

test('tokens carry mask, log-prob and version of the stored segment', async () => {
  const e = derived()
  const seg = rollout(run, e).trajectory.segments[0]
  const page = await open(browser, at(server, `rollout/${e.rollout_id}?tab=tokens`))
  await page.locator('.tok[data-i]').first().waitFor()
  const shown = Math.min(1000, seg.response_ids.length)
  assert.equal(await page.locator('.tok[data-i]').count(), shown)
  assert.equal(await page.locator('.tok.m1[data-i]').count(), seg.response_mask.slice(0, shown).filter(m => m === 1).length)
  assert.equal(await page.locator('.tok.lp5[data-i]').count(), seg.log_probs.slice(0, shown).filter((lp, i) => seg.response_mask[i] && Math.exp(lp) <= 0.001).length)
  assert.equal(await page.locator('.map button').count(), seg.spans.length + 1)
  assert.ok((await text(page, '.tokentext')).replaceAll('↵', '').startsWith(rollout(run, e).trajectory.turns[0].text.slice(0, 30).split('\n')[0]))
  await page.locator('.tok[data-i="3"]').click()
  const line = await text(page, '.tokens > .status')
  assert.ok(line.includes(`position ${seg.prompt_ids.length + 3} `) && line.includes(`id ${seg.response_ids[3]} `) && line.includes(`log-prob ${seg.log_probs[3].toFixed(4)}`), line)
  await page.getByLabel('colour').selectOption('version')
  assert.ok(await page.locator('.tok.v0').count() > 0)
  await page.getByRole('button', { name: 'Next' }).isEnabled() && await page.getByRole('button', { name: 'Next' }).click()
  await page.done()
})

// ancestors is the oracle of what must light up.
function ancestors(graph, id) {
  const all = new Set([id])
  for (let grew = true; grew;) {
    grew = false
    for (const e of graph.edges) if (all.has(e.to) && !all.has(e.from)) { all.add(e.from); grew = true }
  }
  return [...all].sort()
}

test('a click on a claim lights up what it rests on, and says why it holds', async () => {
  const e = derived()
  const { trajectory: { graph }, score } = rollout(run, e)
  const verdict = score.verdicts.find(v => v.kind === 'entailed')
  const page = await open(browser, at(server, `rollout/${e.rollout_id}?tab=evidence`))
  const node = id => page.locator(`[data-id="${id}"]`)
  await node(verdict.claim).click()
  const lit = () => page.locator('.node.lit').evaluateAll(all => all.map(n => n.dataset.id).sort())
  assert.deepEqual(await lit(), ancestors(graph, verdict.claim))
  const panel = page.locator('.nodepanel')
  const said = await panel.innerText()
  for (const want of ['entailed', verdict.reason, '✓ structural', 'statement', ...verdict.premises, graph.nodes.find(n => n.id === verdict.claim).reasoning]) assert.ok(said.includes(want), want)
  assert.ok(said.includes('run again, give the same text') || said.includes('was not run'), said)
  const mark = await panel.locator('.code .mark').allInnerTexts()
  assert.ok(mark.join('').includes('infer('), `the statement is marked: ${mark.join('')}`)

  await panel.getByRole('button', { name: verdict.premises[0], exact: true }).click()
  assert.deepEqual(await lit(), ancestors(graph, verdict.premises[0]))
  const premise = graph.nodes.find(n => n.id === verdict.premises[0])
  for (const f of premise.fields) assert.ok((await panel.innerText()).includes(f.text))
  await node(premise.id).focus()
  const move = async (key, from) => {
    await page.keyboard.press(key)
    await page.waitForFunction(id => ![...document.querySelectorAll('.node.picked')].some(n => n.dataset.id === id), from)
    return page.locator('.node.picked').getAttribute('data-id')
  }
  const parent = await move('ArrowLeft', premise.id)
  assert.ok(graph.edges.some(x => x.to === premise.id && x.from === parent), parent)
  const child = await move('ArrowRight', parent)
  assert.ok(graph.edges.some(x => x.from === parent && x.to === child), child)

  const keep = new Set(graph.submitted.flatMap(id => ancestors(graph, id)))
  await page.locator('.nodepanel .close').click()
  const dead = await page.locator('.node.dead').evaluateAll(all => all.map(n => n.dataset.id).sort())
  assert.deepEqual(dead, graph.nodes.map(n => n.id).filter(id => !keep.has(id)).sort(), 'dead branches are dimmed')
  await page.getByLabel('only what the answer rests on').check()
  await page.waitForFunction(n => document.querySelectorAll('.node').length === n, keep.size)
  await page.reload()
  await node(verdict.claim).waitFor()
  await page.done()
})

test('sources stand left and claims right of what they rest on', async () => {
  const e = derived()
  const { graph } = rollout(run, e).trajectory
  const page = await open(browser, at(server, `rollout/${e.rollout_id}?tab=evidence`))
  await page.locator('.node').first().waitFor()
  const x = await page.locator('.node').evaluateAll(all => Object.fromEntries(all.map(n => [n.dataset.id, n.getBoundingClientRect().x])))
  for (const edge of graph.edges) assert.ok(x[edge.from] < x[edge.to], `${edge.from} left of ${edge.to}`)
  await page.done()
})

test('the evidence is saved as SVG, Mermaid, DOT and JSON', async () => {
  const e = derived()
  const { graph } = rollout(run, e).trajectory
  const page = await open(browser, at(server, `rollout/${e.rollout_id}?tab=evidence`))
  const save = async name => {
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name, exact: true }).click()])
    return { name: file.suggestedFilename(), body: readFileSync(await file.path(), 'utf8') }
  }
  const svg = await save('SVG')
  assert.match(svg.name, /\.svg$/)
  assert.equal((svg.body.match(/<rect/g) ?? []).length, graph.nodes.length)
  assert.ok((await save('Mermaid')).body.startsWith('flowchart'))
  assert.ok((await save('DOT')).body.startsWith('digraph evidence'))
  assert.deepEqual(JSON.parse((await save('JSON')).body).nodes.map(n => n.id), graph.nodes.map(n => n.id))
  await page.done()
})

test('a sentence of the report leads to its claims in the evidence', async () => {
  const e = derived()
  const page = await open(browser, at(server, `rollout/${e.rollout_id}?tab=report`))
  const sentence = page.locator('.sentence').last()
  const claims = (await sentence.locator('.cites').innerText()).split(' ')
  await sentence.click()
  assert.deepEqual(await page.locator('aside .claim h3 a').allInnerTexts(), claims)
  await page.getByRole('link', { name: 'Show in the evidence' }).click()
  await page.locator('.node.picked').first().waitFor()
  assert.deepEqual(await page.locator('.node.picked').evaluateAll(all => all.map(n => n.dataset.id)), claims)
  await page.done()
})

test('a group stands side by side, in short or turn by turn', async () => {
  const e = derived(), group = e.rollout_id.split('/')[1]
  const members = entries.filter(x => x.rollout_id.split('/')[1] === group)
  const page = await open(browser, at(server, `groups?prompt=${e.prompt_id}`))
  await page.getByRole('link', { name: group, exact: true }).click()
  await page.locator('.member').first().waitFor()
  assert.equal(await page.locator('.member').count(), members.length)
  const tops = await page.locator('.member').evaluateAll(all => all.map(m => m.getBoundingClientRect().y))
  assert.equal(new Set(tops).size, 1)
  for (const [i, m] of members.entries()) assert.ok((await page.locator('.member').nth(i).innerText()).includes(m.rewards.total.toFixed(3).replace(/\.000$/, '')))
  await page.getByLabel('turn to compare').selectOption({ label: '2' })
  await page.waitForFunction(() => [...document.querySelectorAll('.shortturns')].every(l => [...l.children].every(t => t.value === 2)))
  await page.done()
})

test('two runs are compared prompt by prompt', async () => {
  const page = await open(browser, at(server, 'compare'))
  const other = index(second)
  const both = new Set(other.map(e => e.prompt_id).filter(p => entries.some(e => e.prompt_id === p)))
  await page.locator('.split').waitFor()
  assert.ok((await text(page, '.page > .note')).startsWith(`${both.size} prompts are in both runs`))
  const row = await page.getByRole('row', { name: /^rollouts / }).innerText()
  assert.ok(row.includes(String(entries.length)) && row.includes(String(other.length)), row)
  await page.done()
})

test('a live run grows in the page without a reload', async () => {
  const child = spawn(`${root}out/viewer/fixtures-bin`, ['-live', '-from', run, '-to', fixtures], { stdio: ['pipe', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  const add = async n => { for (let i = 0; i < n; i++) { child.stdin.write('\n'); await once(child.stdout, 'data') } }
  const live = await Server.start(`${fixtures}/live`)
  const page = await open(browser, live.url)
  await page.getByText('No rollout has been archived yet').waitFor()
  await add(3)
  await page.locator('.card .value', { hasText: /^3$/ }).first().waitFor()
  await page.keyboard.press('2')
  await page.getByText('3 of 3 rollouts').waitFor()
  await add(2)
  await page.getByText('5 of 5 rollouts').waitFor()
  await page.locator('.row[aria-rowindex="6"] a').waitFor()
  await page.done()
  child.stdin.end()
  await once(child, 'exit')
  await live.stop()
})

test('an empty run says so', async () => {
  const empty = await Server.start(`${fixtures}/empty`)
  for (const [hash, words] of [['run', 'No rollout has been archived yet'], ['list', '0 of 0 rollouts'], ['groups', '0 groups']]) {
    const page = await open(browser, at(empty, hash))
    await page.getByText(words).first().waitFor()
    await page.done()
  }
  await empty.stop()
})

test('a broken run names its damage and shows the rest', async () => {
  const broken = await Server.start(`${fixtures}/broken`)
  let page = await open(browser, broken.url)
  const damage = await page.getByLabel('Damaged files').innerText()
  assert.match(damage, /1 line of the index.*\n?.*trajectories\/index\.jsonl:2/s)
  assert.match(damage, /summary\.json unexpected end of JSON input/)
  await page.done()
  page = await open(browser, at(broken, 'list'))
  await page.getByText('38 of 38 rollouts').waitFor()
  await page.locator('.row[aria-rowindex="3"] a').click()
  await page.getByText(/This rollout can’t be shown: .*unexpected EOF/).waitFor()
  await page.reload()
  await page.getByText(/This rollout can’t be shown/).waitFor()
  await page.goBack()
  await page.locator('.row[aria-rowindex="10"] a').click()
  await page.locator('.turn').first().waitFor()
  assert.deepEqual(page.wrong.filter(w => !w.includes('Failed to load resource')), [])
  page.wrong.length = 0
  await page.done()
  await broken.stop()
})

test('turns of 512 kB and a graph of 300 nodes are shown', async () => {
  const huge = await Server.start(`${fixtures}/huge`)
  const page = await open(browser, at(huge, 'rollout/huge/huge-0/0'))
  await page.locator('.turn').nth(2).waitFor()
  const observation = page.locator('#turn-0').getByRole('button', { name: 'Show all' }).last()
  await observation.click()
  await page.waitForFunction(() => [...document.querySelectorAll('#turn-0 pre')].some(p => p.textContent.length === 512 * 1024))
  await page.keyboard.press('o')
  await page.getByText('of 30,500').waitFor()
  await page.keyboard.press('e')
  await page.waitForFunction(() => document.querySelectorAll('.node').length === 300)
  await page.locator('.plainlist button').nth(5).click()
  assert.ok(await page.locator('.node.lit').count() > 8)
  assert.ok(await page.locator('.node.picked').evaluate(n => n.getBoundingClientRect().width > 80), 'the chosen node can be read')
  await page.done()
  await huge.stop()
})

test('dark and light follow the system and the key, and stay', async () => {
  const page = await open(browser, server.url, { colorScheme: 'dark' })
  const theme = () => page.evaluate(() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor].join(' '))
  const dark = await theme()
  assert.match(dark, /^dark/)
  await page.keyboard.press('d')
  await page.waitForFunction(() => document.documentElement.dataset.theme === 'light')
  assert.notEqual((await theme()).split(' ').slice(1).join(), dark.split(' ').slice(1).join())
  await page.reload()
  await page.waitForFunction(() => document.documentElement.dataset.theme === 'light')
  await page.done()
})
