package dispatch

import "slices"

// Pools choose the next prompt: higher priority first, then between data sources by smooth weighted
// round robin, then in order of arrival. Without weights it is a plain queue.
type Pools[T any] struct {
	weights map[string]float64
	pools   []*pool[T]
	n       int
}

type pool[T any] struct {
	priority int
	source   string
	credit   float64
	items    []T
}

// NewPools takes the weights by data source; a source without one has weight 1. Nil means that data
// sources do not matter.
func NewPools[T any](weights map[string]float64) *Pools[T] { return &Pools[T]{weights: weights} }

// Len counts the waiting prompts.
func (p *Pools[T]) Len() int { return p.n }

// Push adds a prompt.
func (p *Pools[T]) Push(item T, source string, priority int) {
	if p.weights == nil {
		source = ""
	}
	i, found := slices.BinarySearchFunc(p.pools, pool[T]{priority: priority, source: source}, comparePools)
	if !found {
		p.pools = slices.Insert(p.pools, i, &pool[T]{priority: priority, source: source})
	}
	p.pools[i].items = append(p.pools[i].items, item)
	p.n++
}

func comparePools[T any](a *pool[T], b pool[T]) int {
	switch {
	case a.priority != b.priority:
		return b.priority - a.priority // highest first
	case a.source < b.source:
		return -1
	case a.source > b.source:
		return 1
	}
	return 0
}

// Pop takes the next prompt.
func (p *Pools[T]) Pop() (item T, ok bool) {
	best := p.next()
	if best == nil {
		return item, false
	}
	item, best.items = best.items[0], best.items[1:]
	p.n--
	return item, true
}

// next is smooth weighted round robin among the non-empty pools of the highest priority: every pool
// earns its weight, the richest one pays what all earned.
func (p *Pools[T]) next() *pool[T] {
	var best *pool[T]
	total := 0.0
	for _, q := range p.pools {
		if len(q.items) == 0 {
			continue
		}
		if best != nil && q.priority < best.priority {
			break
		}
		w := p.weight(q.source)
		q.credit += w
		total += w
		if best == nil || q.credit > best.credit {
			best = q
		}
	}
	if best != nil {
		best.credit -= total
	}
	return best
}

func (p *Pools[T]) weight(source string) float64 {
	if w, ok := p.weights[source]; ok {
		return w
	}
	return 1
}

// Drain takes everything, for handing back.
func (p *Pools[T]) Drain() []T {
	var out []T
	for _, q := range p.pools {
		out = append(out, q.items...)
		q.items = nil
	}
	p.n = 0
	return out
}
