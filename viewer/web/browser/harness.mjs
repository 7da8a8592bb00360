// A real browser on real servers. RUN and SECOND are output directories of two runs (make test-viewer makes them), FIXTURES where
// the fixtures command wrote the odd ones.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { once } from 'node:events'
import { chromium } from 'playwright-core'

export const root = new URL('../../../', import.meta.url).pathname
export const run = root + (process.env.RUN ?? 'out/viewer/run')
export const second = root + (process.env.SECOND ?? 'out/viewer/second')
export const fixtures = root + (process.env.FIXTURES ?? 'out/viewer/fixtures')

const candidates = [process.env.CHROMIUM, '/usr/bin/chromium-headless-shell', '/usr/bin/chromium', '/usr/bin/google-chrome']
export const executablePath = candidates.find(p => p && existsSync(p))
if (!executablePath) throw new Error('no Chromium found: set CHROMIUM to its path, or install chromium-headless-shell')

export const launch = () => chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] })

export const index = dir => readFileSync(`${dir}/trajectories/index.jsonl`, 'utf8').trim().split('\n').map(l => JSON.parse(l))
export const rollout = (dir, entry) => JSON.parse(readFileSync(`${dir}/${entry.file}`, 'utf8'))

// A test that fails leaves its server behind; that must end with the tests, or they would wait for it.
const servers = new Set()
process.on('exit', () => servers.forEach(child => child.kill('SIGKILL')))

export class Server {
  static async start(dir, args = [], env = {}) {
    const child = spawn(root + 'bin/verigraph', ['view', dir, ...args], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] })
    servers.add(child)
    child.once('exit', () => servers.delete(child))
    const [line] = await once(child.stdout, 'data')
    return Object.assign(new Server(), { child, url: String(line).trim() })
  }
  async stop() {
    const gone = once(this.child, 'exit')
    this.child.kill('SIGTERM')
    await gone
  }
}

// open gives a page that fails the test when anything goes wrong in it, or when it asks for anything elsewhere.
export async function open(browser, url, options = {}) {
  const { strict = true, ...rest } = options
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...rest })
  context.setDefaultTimeout(10_000)
  const page = await context.newPage()
  page.wrong = []
  const origin = new URL(url).origin
  page.on('pageerror', e => page.wrong.push(`error: ${e.message}`))
  page.on('console', m => { if (m.type() === 'error') page.wrong.push(`console: ${m.text()}`) })
  page.on('request', r => { if (!r.url().startsWith(origin) && !r.url().startsWith('blob:')) page.wrong.push(`asked for ${r.url()}`) })
  page.on('dialog', d => { page.wrong.push(`dialog: ${d.message()}`); d.dismiss() })
  await page.goto(url)
  await page.locator('main h1, main .fill, main .rhead').first().waitFor()
  page.done = async () => {
    await context.close()
    if (strict && page.wrong.length) throw new Error(page.wrong.join('\n'))
  }
  return page
}

export const at = (server, hash) => new URL('#/' + hash, server.url).href
