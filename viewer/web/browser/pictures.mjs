// Takes the pictures of docs/viewer.md from a real run.
import { mkdirSync } from 'node:fs'
import { Server, at, launch, open, root, run, second } from './harness.mjs'

const dir = `${root}docs/images/`
mkdirSync(dir, { recursive: true })
const browser = await launch()
const server = await Server.start(run, ['--compare', second])
const id = 'rollout/local/14-0/1'

async function take(name, from, hash, options = {}, act = async () => {}) {
  const page = await open(browser, at(from, hash), { viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options })
  await page.waitForLoadState('networkidle')
  await act(page)
  await page.waitForTimeout(200)
  await page.screenshot({ path: `${dir}${name}.png` })
  await page.done()
}

await take('viewer-run', server, 'run')
await take('viewer-list', server, 'list?sort=-total&termination=submitted')
await take('viewer-turns', server, id)
await take('viewer-tokens', server, `${id}?tab=tokens`)
await take('viewer-evidence', server, `${id}?tab=evidence&node=c4`)
await take('viewer-evidence-dark', server, 'rollout/local/14-0/2?tab=evidence&node=c4', { colorScheme: 'dark' })
await take('viewer-report', server, `${id}?tab=report`, {}, p => p.locator('.sentence').last().click())
await take('viewer-group', server, 'group/14-0')
await take('viewer-compare', server, 'compare')
await browser.close()
await server.stop()
