package scan

import (
	"strings"
	"unicode"

	"github.com/cespare/xxhash/v2"
)

// passage is a question or a long answer as hashes of its grams.
type passage struct {
	hit   Hit
	grams int
}

// grams finds passages by the runs of words that they are made of.
type grams struct {
	passages []passage
	index    map[uint64][]int32
}

func (g *grams) add(hit Hit, text string) {
	hashes := gramsOf(text)
	if len(hashes) == 0 {
		return
	}
	n := int32(len(g.passages))
	g.passages = append(g.passages, passage{hit, len(hashes)})
	for h := range hashes {
		g.index[h] = append(g.index[h], n)
	}
}

func (g *grams) find(text string) (Hit, bool) {
	counts := map[int32]int{}
	best := int32(-1)
	list := words(text)
	seen := map[uint64]bool{}
	for n := minWords; n <= gram; n++ {
		for i := 0; i+n <= len(list); i++ {
			h := gramHash(list[i : i+n])
			if seen[h] {
				continue
			}
			passages := g.index[h]
			if len(passages) == 0 {
				continue
			}
			seen[h] = true
			for _, p := range passages {
				counts[p]++
				if float64(counts[p]) >= overlap*float64(g.passages[p].grams) && (best < 0 || p < best) {
					best = p
				}
			}
		}
	}
	if best < 0 {
		return Hit{}, false
	}
	return g.passages[best].hit, true
}

// gramsOf are the hashes of all runs of gram words; of a shorter text, of all its words.
func gramsOf(text string) map[uint64]struct{} {
	list := words(text)
	if len(list) < minWords {
		return nil
	}
	n := min(gram, len(list))
	out := map[uint64]struct{}{}
	for i := 0; i+n <= len(list); i++ {
		out[gramHash(list[i:i+n])] = struct{}{}
	}
	return out
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func gramHash(list []string) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(len(list)))
	for _, w := range list {
		_, _ = d.WriteString(w)
		_, _ = d.WriteString(" ")
	}
	return d.Sum64()
}
