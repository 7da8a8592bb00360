package generate

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"

	"github.com/verigraph/verigraph/task"
)

// schedule says which prompt is dispatched next. It is a pure value: the same calls give the same answers.
//
// Invariants: a dispatch is given out once; while no source is done, each has had its weight's share of the
// dispatches, to within one; a source that has what it wants gets no more.
type schedule struct {
	config  Config
	sources []progress
}

// progress is one source.
type progress struct {
	prompts []task.Prompt // in the seed's order
	// next counts dispatches looked at, over all rounds; given those given out; known those of an earlier session.
	next, given int
	known       map[string]bool
	accepted    int
	open        int // given out and not back yet
}

func newSchedule(c Config, prompts [][]task.Prompt) *schedule {
	s := &schedule{config: c, sources: make([]progress, len(c.Sources))}
	for i := range s.sources {
		list := append([]task.Prompt(nil), prompts[i]...)
		r := rand.New(rand.NewPCG(uint64(c.Seed), hash(c.Sources[i].Name)))
		r.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
		s.sources[i] = progress{prompts: list, known: map[string]bool{}}
	}
	return s
}

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// knows marks a dispatch of an earlier session.
func (s *schedule) knows(source int, dispatch string) {
	p := &s.sources[source]
	if !p.known[dispatch] {
		p.known[dispatch] = true
		p.given++
	}
}

// take gives the next dispatch and its source; false when no source needs one now, or has a prompt left.
func (s *schedule) take() (task.Dispatch, int, bool) {
	for {
		best := -1
		for i := range s.sources {
			if s.enough(i) || s.sources[i].next >= len(s.sources[i].prompts)*s.config.Rounds {
				continue
			}
			if best < 0 || s.behind(i) < s.behind(best) {
				best = i
			}
		}
		if best < 0 {
			return task.Dispatch{}, 0, false
		}
		p := &s.sources[best]
		prompt, round := p.prompts[p.next%len(p.prompts)], p.next/len(p.prompts)
		p.next++
		id := task.NewDispatchID(prompt.ID, round)
		if p.known[id] {
			continue
		}
		p.given++
		p.open++
		return task.Dispatch{
			ID: id, Run: s.config.Run, Index: int64(p.given), Prompt: prompt, GroupSize: s.config.Samples,
			Seed: int64(hash(strconv.FormatInt(s.config.Seed, 10)+"/"+id) >> 1),
		}, best, true
	}
}

// behind is smallest for the source that has had the least for its weight.
func (s *schedule) behind(i int) float64 {
	return float64(s.sources[i].given) / s.config.Sources[i].Weight
}

// enough: what is there and what may still come back reach the wanted number.
func (s *schedule) enough(i int) bool {
	return s.sources[i].accepted+s.sources[i].open*s.config.Samples >= s.config.Sources[i].Want
}

// back says that a dispatch of a source came back.
func (s *schedule) back(i int) { s.sources[i].open-- }
