// Python highlighted as text nodes in spans; a parser in linear time, since the code is hostile.
import { classHighlighter, highlightCode } from '@lezer/highlight'
import { parser } from '@lezer/python'
import { visible } from './format'

const tooLong = 128 << 10

// statements are the ranges of a cell's top-level statements, in the order that the graph counts them.
export function statements(code: string): { from: number; to: number }[] {
  const out: { from: number; to: number }[] = []
  const top = parser.parse(code).topNode
  const add = (node: typeof top) => {
    for (let n = node.firstChild; n; n = n.nextSibling) {
      if (n.name === 'StatementGroup') add(n)
      else if (n.name !== ';' && n.name !== 'Comment') out.push({ from: n.from, to: n.to })
    }
  }
  add(top)
  return out
}

export function Code({ text, mark }: { text: string; mark?: { from: number; to: number } }) {
  if (text.length > tooLong) return <pre class="code" tabIndex={0}>{visible(text)}</pre>
  const parts: preact.ComponentChild[] = []
  let at = 0
  const put = (piece: string, cls: string) => {
    const inside = mark && at < mark.to && at + piece.length > mark.from
    at += piece.length
    const c = [cls, inside ? 'mark' : ''].filter(Boolean).join(' ')
    parts.push(c ? <span class={c}>{visible(piece)}</span> : visible(piece))
  }
  highlightCode(text, parser.parse(text), classHighlighter, put, () => put('\n', ''))
  return <pre class="code" tabIndex={0}>{parts}</pre>
}
