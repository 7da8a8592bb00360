import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { Server, at, fixtures, index, launch, open, run } from './harness.mjs'

let browser
before(async () => { browser = await launch() })
after(() => browser?.close())

test('what a policy wrote is shown and never runs', async () => {
  const server = await Server.start(`${fixtures}/hostile`)
  const id = 'hostile/h-0/0'
  for (const hash of ['run', 'list', 'groups', 'group/h-0', ...['turns', 'tokens', 'evidence', 'evidence&node=c1', 'evidence&node=c2', 'evidence&node=v1', 'report', 'score'].map(t => `rollout/${id}?tab=${t}`)]) {
    const page = await open(browser, at(server, hash))
    for (const d of await page.locator('details').all()) await d.evaluate(e => { e.open = true })
    for (const s of await page.locator('.sentence').all()) await s.click()
    await page.waitForTimeout(100) // an attack may take its time
    assert.equal(await page.evaluate(() => window.hacked), undefined, hash)
    assert.equal(await page.evaluate(() => document.scripts.length), 1, hash)
    assert.equal(await page.locator('iframe, object, embed, img:not([src="icon.svg"]), a[href^="data:"], a[href^="javascript:"], [onerror], [onload], style').count(), 0, hash)
    assert.equal(await page.evaluate(() => /[\u0000-\u0008\u000e-\u001f\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent)), false, hash)
    if (hash.includes('turns')) {
      const shown = await page.locator('#turn-0 pre.code').innerText()
      for (const want of ['<script>window.hacked=1</script>', '⟨U+001B⟩[31mred', '⟨U+0007⟩', '⟨U+202E⟩', '⟨U+0000⟩']) assert.ok(shown.includes(want), want)
    }
    await page.done()
  }
  const page = await open(browser, at(server, `rollout/${id}?tab=evidence`))
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'SVG', exact: true }).click()])
  const svg = readFileSync(await file.path(), 'utf8')
  await page.done()
  const blank = await (await browser.newContext()).newPage() // without the policy that forbids to parse
  const inside = await blank.evaluate(text => {
    const all = [...new DOMParser().parseFromString(text, 'image/svg+xml').querySelectorAll('*')]
    return { names: [...new Set(all.map(e => e.localName))].sort(), events: all.flatMap(e => [...e.attributes]).filter(a => /^on|href/i.test(a.name)).length }
  }, svg)
  assert.deepEqual(inside, { names: ['defs', 'g', 'marker', 'path', 'rect', 'svg', 'text', 'title'], events: 0 })
  await blank.context().close()
  await server.stop()
})

test('the page forbids inline scripts, markup from text and other hosts', async () => {
  const server = await Server.start(run)
  const page = await open(browser, server.url, { strict: false })
  const got = await page.evaluate(async () => {
    const out = {}
    const tried = async (name, f) => { try { await f(); out[name] = 'went through' } catch (e) { out[name] = e.name } }
    await tried('innerHTML', () => { document.createElement('div').innerHTML = '<b>x</b>' })
    await tried('fetch', () => fetch('http://127.0.0.2:9/'))
    const s = document.createElement('script')
    await tried('script', () => { s.text = 'window.hacked=1'; document.head.append(s) })
    const style = document.createElement('style')
    style.textContent = 'body{display:none}'
    document.head.append(style)
    out.display = getComputedStyle(document.body).display
    return out
  })
  assert.deepEqual(got, { innerHTML: 'TypeError', fetch: 'TypeError', script: 'TypeError', display: 'block' })
  await page.done()
  await server.stop()
})

test('with a token the address is clean after the first load, and nobody else gets in', async () => {
  const server = await Server.start(run, ['--listen', '0.0.0.0:0'])
  const url = new URL(server.url.replace(/0\.0\.0\.0|\[::\]/, '127.0.0.1'))
  assert.ok(url.searchParams.get('token').length >= 26)
  const page = await open(browser, url.href)
  assert.equal(new URL(page.url()).search, '')
  await page.reload()
  await page.locator('.card').first().waitFor()
  assert.equal(await page.evaluate(() => document.cookie), '', 'no script reads the cookie')
  await page.done()
  for (const path of ['', 'api/run', 'app.js', '?token=wrong']) assert.equal((await fetch(url.origin + '/' + path)).status, 401)
  await server.stop()
})

test('no address of a run holds what only the reward side may read', async () => {
  const server = await Server.start(run)
  for (const path of ['reward/items.jsonl', 'run.json', 'trajectories/index.jsonl', 'nats/', 'api/text?id=../reward/items.jsonl']) {
    assert.equal((await fetch(new URL(path, server.url))).status, 404, path)
  }
  assert.ok(index(run).length > 0)
  await server.stop()
})
