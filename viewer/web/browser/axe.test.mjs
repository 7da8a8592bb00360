import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before, test } from 'node:test'
import { Server, at, index, launch, open, run, second } from './harness.mjs'

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
let browser, server
before(async () => { browser = await launch(); server = await Server.start(run, ['--compare', second]) })
after(async () => { await browser?.close(); await server?.stop() })

const e = index(run).find(e => e.verdicts?.entailed)
const pages = ['run', 'list', 'groups', `group/${e.rollout_id.split('/')[1]}`, 'compare', ...['turns', 'tokens', 'evidence', 'report', 'score'].map(t => `rollout/${e.rollout_id}?tab=${t}`)]

for (const colorScheme of ['light', 'dark']) {
  test(`axe finds nothing serious on any page, ${colorScheme}`, async () => {
    const found = []
    for (const hash of pages) {
      const page = await open(browser, at(server, hash), { colorScheme, bypassCSP: true, reducedMotion: 'reduce' })
      await page.waitForLoadState('networkidle')
      if (hash.includes('evidence')) await page.locator('.node.derived').first().click()
      if (hash.includes('report')) await page.locator('.sentence').last().click()
      await page.evaluate(source)
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
      found.push(...violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => `${hash}: ${v.id}: ${v.nodes.slice(0, 4).map(n => n.html.slice(0, 160) + ' | ' + (n.any[0]?.message ?? n.all[0]?.message ?? '')).join('\n   ')}`))
      await page.done()
    }
    assert.deepEqual(found, [])
  })
}
