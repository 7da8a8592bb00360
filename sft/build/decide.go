package build

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/near"
)

// plan is what was decided over all records. Samples holds the ids of the samples of stage 1 that fit their
// quota; validation the records of that split.
type plan struct {
	validation map[string]bool
	atomic     map[string]bool
}

// takes reports whether a sample of a taken record is written.
func (p *plan) takes(s *SampleFacts) bool { return s.Stage != 1 || p.atomic[s.ID] }

// decide marks near-duplicates and what is too much of one prompt in facts, and draws quotas and the split.
func (b *builder) decide(facts [][]Facts) *plan {
	var taken []*Facts
	seen := map[string]bool{}
	for _, chunk := range facts {
		for i := range chunk {
			f := &chunk[i]
			switch {
			case f.Reason != "":
			case seen[f.ID]:
				f.Reason = sft.Duplicate
			default:
				seen[f.ID] = true
				taken = append(taken, f)
			}
		}
	}
	// The better record of two is kept: higher reward, then fewer turns, then the smaller id.
	slices.SortFunc(taken, func(x, y *Facts) int {
		return cmp.Or(cmp.Compare(y.Reward, x.Reward), cmp.Compare(x.Turns, y.Turns), strings.Compare(x.ID, y.ID))
	})
	taken = b.dropNear(taken)
	taken = b.dropExcess(taken)
	return &plan{validation: b.split(taken), atomic: b.quotas(taken)}
}

func (b *builder) dropNear(taken []*Facts) []*Facts {
	if b.Config.NearDuplicates.Threshold == 0 {
		return taken
	}
	index := near.NewIndex(b.Config.NearDuplicates.Threshold)
	return slices.DeleteFunc(taken, func(f *Facts) bool {
		if index.Add(&f.Signature) < 0 {
			return false
		}
		f.Reason = sft.NearDuplicate
		return true
	})
}

// dropExcess keeps at most per_prompt records of each prompt of a data source.
func (b *builder) dropExcess(taken []*Facts) []*Facts {
	most := b.Config.Select.PerPrompt
	if most == 0 {
		return taken
	}
	type prompt struct{ source, id string }
	groups := map[prompt][]*Facts{}
	for _, f := range taken {
		k := prompt{f.DataSource, f.PromptID}
		groups[k] = append(groups[k], f)
	}
	for _, g := range groups {
		if len(g) <= most {
			continue
		}
		if b.Config.Select.Prefer == sft.PreferDiverse {
			diverse(g, most)
		}
		for _, f := range g[most:] {
			f.Reason = sft.PerPrompt
		}
	}
	return slices.DeleteFunc(taken, func(f *Facts) bool { return f.Reason != "" })
}

// diverse puts the first n in front: the best one, then always the one whose nearest chosen one is farthest.
func diverse(g []*Facts, n int) {
	nearest := make([]float64, len(g))
	for chosen := 1; chosen < n; chosen++ {
		best := chosen
		for i := chosen; i < len(g); i++ {
			nearest[i] = max(nearest[i], near.Similarity(&g[i].Signature, &g[chosen-1].Signature))
			if nearest[i] < nearest[best] {
				best = i
			}
		}
		f, d := g[best], nearest[best]
		copy(g[chosen+1:best+1], g[chosen:best])
		copy(nearest[chosen+1:best+1], nearest[chosen:best])
		g[chosen], nearest[chosen] = f, d
	}
}

// draw is the seed's own number for a text.
func (b *builder) draw(what, text string) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(b.Config.Seed))
	_, _ = d.WriteString(what)
	_, _ = d.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(text))))
	_, _ = d.WriteString(text)
	return d.Sum64()
}

// quotas draws the samples of stage 1.
func (b *builder) quotas(taken []*Facts) map[string]bool {
	type candidate struct {
		id   string
		draw uint64
	}
	kinds := map[sft.Kind][]candidate{}
	for _, f := range taken {
		for i := range f.Samples {
			if s := &f.Samples[i]; s.Stage == 1 {
				kinds[s.Kind] = append(kinds[s.Kind], candidate{s.ID, b.draw("quota", s.ID)})
			}
		}
	}
	out := map[string]bool{}
	for kind, list := range kinds {
		slices.SortFunc(list, func(x, y candidate) int {
			return cmp.Or(cmp.Compare(x.draw, y.draw), strings.Compare(x.id, y.id))
		})
		if q := b.Config.Stage1.Quota(kind); q >= 0 && len(list) > q {
			list = list[:q]
		}
		for _, c := range list {
			out[c.id] = true
		}
	}
	return out
}

// split draws whole components of records that share a prompt or a data file, so that neither a question nor
// a table of validation is trained on, until the wanted share is reached.
func (b *builder) split(taken []*Facts) map[string]bool {
	parent := map[string]string{}
	var find func(string) string
	find = func(x string) string {
		p, ok := parent[x]
		if !ok || p == x {
			parent[x] = x
			return x
		}
		root := find(p)
		parent[x] = root
		return root
	}
	keyOf := func(f *Facts) string { return "prompt " + f.DataSource + " " + f.PromptID }
	for _, f := range taken {
		root := find(keyOf(f))
		for _, t := range f.Tables {
			if other := find("table " + t); other != root {
				lo, hi := min(root, other), max(root, other)
				parent[hi], root = lo, lo
			}
		}
	}
	members := map[string][]*Facts{}
	for _, f := range taken {
		root := find(keyOf(f))
		members[root] = append(members[root], f)
	}
	roots := make([]string, 0, len(members))
	for root := range members {
		roots = append(roots, root)
	}
	slices.SortFunc(roots, func(x, y string) int {
		return cmp.Or(cmp.Compare(b.draw("split", x), b.draw("split", y)), strings.Compare(x, y))
	})
	out := map[string]bool{}
	room := int(b.Config.Validation * float64(len(taken)))
	for _, root := range roots {
		if len(members[root]) > room {
			continue
		}
		room -= len(members[root])
		for _, f := range members[root] {
			out[f.ID] = true
		}
	}
	return out
}
