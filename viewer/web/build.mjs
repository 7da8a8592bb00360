// Bundles the page into ../dist, which is committed and embedded in the binary. SOURCES.sha256 there says what it
// was made from, so that a test without Node sees a bundle that is older than its source.
import { createHash } from 'node:crypto'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { build } from 'esbuild'

const dist = '../dist/'
await build({
  entryPoints: ['src/main.tsx'], outfile: dist + 'app.js', bundle: true, minify: true, format: 'esm', target: 'es2022',
  jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none', charset: 'utf8',
})
await build({ entryPoints: ['src/style.css'], outfile: dist + 'app.css', minify: true, charset: 'utf8' })
for (const name of ['index.html', 'icon.svg']) cpSync('src/' + name, dist + name)

const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages
const bundled = new Set()
const add = name => {
  if (bundled.has(name)) return
  bundled.add(name)
  Object.keys(lock['node_modules/' + name].dependencies ?? {}).forEach(add)
}
Object.keys(dependencies).forEach(add)
const notice = [...bundled].sort().map(name => {
  const { version, license } = lock['node_modules/' + name]
  const file = readdirSync('node_modules/' + name).find(f => /^licen[cs]e/i.test(f))
  return `${name} ${version} (${license})\n\n${readFileSync(`node_modules/${name}/${file}`, 'utf8').trim()}\n`
})
writeFileSync(dist + 'LICENSES.txt', 'app.js holds these packages.\n\n' + notice.join('\n' + '-'.repeat(80) + '\n\n'))

const hash = createHash('sha256')
for (const name of ['build.mjs', 'package-lock.json', ...readdirSync('src').sort().map(f => 'src/' + f)]) {
  hash.update(name + '\0').update(readFileSync(name)).update('\0')
}
writeFileSync(dist + 'SOURCES.sha256', hash.digest('hex') + '\n')
