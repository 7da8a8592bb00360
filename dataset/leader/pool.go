package leader

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/verigraph/verigraph/task"
)

// candidate is a prompt that waits for its dispatch.
type candidate struct {
	held  Held[BacklogItem]
	order int64
}

func (c candidate) item() BacklogItem { return c.held.Value }

// Difficulty pools.
const (
	poolEasy   = "easy"
	poolNormal = "normal"
	poolHard   = "hard"
)

// of sorts a prompt into its pool.
func (d Difficulty) of(p *task.Prompt) string {
	if d.Key == "" {
		return ""
	}
	var meta map[string]any
	_ = json.Unmarshal(p.Meta, &meta) // no object: of normal difficulty
	accuracy, ok := meta[d.Key].(float64)
	switch {
	case ok && accuracy >= d.Easy:
		return poolEasy
	case ok && accuracy <= d.Hard:
		return poolHard
	}
	return poolNormal
}

func weight(of map[string]float64, name string) float64 {
	if w, ok := of[name]; ok {
		return w
	}
	return 1
}

// share is the queue of one kind of prompts. pass is its virtual time: it grows by 1/weight with every
// prompt that leaves, and the share with the smallest one is next.
type share struct {
	weight float64
	pass   float64
	queue  []candidate
}

// pool holds the prompts that wait, and chooses. It is a plain value, owned by the leader's loop.
//
// Order: higher priority first; within it by weight over data source and difficulty pool; within one
// of those as they came. A share that was empty starts at the time of the others, so that it cannot
// make up for the time when it had nothing.
type pool struct {
	cfg    Config
	train  map[int]map[string]*share // by priority
	valid  []candidate
	time   map[int]float64
	count  int
	onTurn bool // validation is next
	next   int64
}

func newPool(cfg Config) *pool {
	return &pool{cfg: cfg, train: map[int]map[string]*share{}, time: map[int]float64{}}
}

func (p *pool) add(h Held[BacklogItem]) {
	c := candidate{held: h, order: p.next}
	p.next++
	p.count++
	it := h.Value
	if it.Validate {
		p.valid = append(p.valid, c)
		slices.SortStableFunc(p.valid, func(a, b candidate) int { return cmp.Compare(b.item().Priority, a.item().Priority) })
		return
	}
	level := p.train[it.Priority]
	if level == nil {
		level = map[string]*share{}
		p.train[it.Priority] = level
	}
	name, w := p.kind(it.Prompt)
	s := level[name]
	if s == nil {
		s = &share{weight: w}
		level[name] = s
	}
	if len(s.queue) == 0 {
		s.pass = max(s.pass, p.time[it.Priority])
	}
	s.queue = append(s.queue, c)
}

// kind names the share of a prompt. Without weights there is one share, so that order is arrival.
func (p *pool) kind(prompt *task.Prompt) (string, float64) {
	name, w := "", 1.0
	if len(p.cfg.Weights) > 0 {
		name, w = prompt.DataSource, weight(p.cfg.Weights, prompt.DataSource)
	}
	if d := p.cfg.Difficulty.of(prompt); d != "" {
		name, w = name+"\x00"+d, w*weight(p.cfg.Difficulty.Weights, d)
	}
	return name, w
}

// take removes the next prompt. Validation and training take turns while both wait and have room.
func (p *pool) take(roomTrain, roomValidate bool) (candidate, bool) {
	level := p.level()
	valid := roomValidate && len(p.valid) > 0
	train := roomTrain && level != nil
	if !valid && !train {
		return candidate{}, false
	}
	p.count--
	if valid && (p.onTurn || !train) {
		p.onTurn = false
		c := p.valid[0]
		p.valid = p.valid[1:]
		return c, true
	}
	p.onTurn = true
	var best *share
	for _, s := range level {
		if len(s.queue) > 0 && (best == nil || s.before(best)) {
			best = s
		}
	}
	c := best.queue[0]
	best.queue = best.queue[1:]
	p.time[c.item().Priority] = best.pass
	best.pass += 1 / best.weight
	return c, true
}

func (s *share) before(o *share) bool {
	if s.pass != o.pass {
		return s.pass < o.pass
	}
	return s.queue[0].order < o.queue[0].order
}

// level is the highest priority that has prompts waiting.
func (p *pool) level() map[string]*share {
	var best map[string]*share
	top := 0
	for priority, level := range p.train {
		if best != nil && priority <= top {
			continue
		}
		for _, s := range level {
			if len(s.queue) > 0 {
				best, top = level, priority
				break
			}
		}
	}
	return best
}
