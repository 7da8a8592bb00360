// Where nodes and edges stand: sources left, claims right.
import { Graph as Dagre, layout } from '@dagrejs/dagre'
import type { Graph, GraphNode } from './api'

export interface Box { x: number; y: number; w: number; h: number }
export interface Laid { boxes: Map<string, Box>; paths: Map<string, string>; width: number; height: number }

export const edgeKey = (i: number): string => `e${i}`
export const isClaim = (n: GraphNode): boolean => n.kind === 'atomic' || n.kind === 'derived'

// arrange leaves out nodes that shown does not hold.
export function arrange(g: Graph, shown: Set<string>): Laid {
  const d = new Dagre({ multigraph: true })
  d.setGraph({ rankdir: 'LR', nodesep: 12, ranksep: 36, marginx: 10, marginy: 10, ranker: shown.size > 150 ? 'tight-tree' : 'network-simplex' })
  d.setDefaultEdgeLabel(() => ({}))
  for (const n of g.nodes) if (shown.has(n.id)) d.setNode(n.id, { width: isClaim(n) ? 210 : n.kind === 'variable' ? 118 : 150, height: isClaim(n) ? 50 : 38 })
  const edges = g.edges ?? []
  edges.forEach((e, i) => { if (shown.has(e.from) && shown.has(e.to)) d.setEdge(e.from, e.to, {}, edgeKey(i)) })
  layout(d)
  const boxes = new Map<string, Box>(), paths = new Map<string, string>()
  for (const id of d.nodes()) {
    const n = d.node(id) as { x: number; y: number; width: number; height: number }
    boxes.set(id, { x: n.x - n.width / 2, y: n.y - n.height / 2, w: n.width, h: n.height })
  }
  for (const e of d.edges()) paths.set(e.name ?? '', smooth((d.edge(e) as { points: Point[] }).points))
  const size = d.graph() as { width?: number; height?: number }
  return { boxes, paths, width: size.width ?? 100, height: size.height ?? 100 }
}

interface Point { x: number; y: number }

function smooth(p: Point[]): string {
  const at = (q: Point) => `${q.x.toFixed(1)} ${q.y.toFixed(1)}`
  let out = 'M' + at(p[0]!)
  for (let i = 1; i < p.length - 1; i++) {
    const a = p[i]!, b = p[i + 1]!
    out += `Q${at(a)} ${at(i === p.length - 2 ? b : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 })}`
  }
  if (p.length === 2) out += 'L' + at(p[1]!)
  return out
}

// closure is the nodes that a set rests on, itself included, and the edges between.
export function closure(g: Graph, from: string[]): { nodes: Set<string>; edges: Set<number> } {
  const into = new Map<string, number[]>()
  const edges = g.edges ?? []
  edges.forEach((e, i) => into.set(e.to, [...(into.get(e.to) ?? []), i]))
  const nodes = new Set<string>(), used = new Set<number>()
  const open = [...from]
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (nodes.has(id)) continue
    nodes.add(id)
    for (const i of into.get(id) ?? []) { used.add(i); open.push(edges[i]!.from) }
  }
  return { nodes, edges: used }
}
