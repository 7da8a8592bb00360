package viewer

import (
	"cmp"
	"math"
	"slices"
)

// PromptPair is one prompt in two runs.
type PromptPair struct {
	Prompt string      `json:"prompt"`
	Reward [2]*float64 `json:"reward"`
	Acc    [2]*float64 `json:"acc"`
	N      [2]int      `json:"n"`
	// Delta is the second reward less the first; null where one run has none.
	Delta *float64 `json:"delta"`
}

// Comparison sets two runs beside each other.
type Comparison struct {
	Names [2]string `json:"names"`
	Stats [2]Stats  `json:"stats"`
	// Histograms are both runs' distributions over the same bins; columns that only one run has are left out.
	Histograms [][]Histogram `json:"histograms"`
	Both       int           `json:"both"` // prompts of both runs
	Better     int           `json:"better"`
	Worse      int           `json:"worse"`
	Matched    int           `json:"matched"`
	Pairs      []PromptPair  `json:"pairs"`
}

// sameReward is what a mean reward may differ by and count as equal.
const sameReward = 1e-9

func compareRuns(a, b *Run, offset, limit int) (Comparison, error) {
	out := Comparison{Names: [2]string{a.name, b.name}}
	means := [2]map[string]*promptMeans{}
	var rows [2][]row
	for side, r := range []*Run{a, b} {
		s, err := r.index.refresh()
		if err != nil {
			return out, err
		}
		out.Stats[side], means[side], rows[side] = r.statsOf(s), byPrompt(s.rows), s.rows
	}
	out.Histograms = sameBins(rows)
	pairs := pair(means)
	for _, p := range pairs {
		if p.N[0] > 0 && p.N[1] > 0 {
			out.Both++
		}
		if p.Delta != nil && *p.Delta > sameReward {
			out.Better++
		}
		if p.Delta != nil && *p.Delta < -sameReward {
			out.Worse++
		}
	}
	out.Matched = len(pairs)
	out.Pairs = append([]PromptPair{}, pairs[min(offset, len(pairs)):min(offset+limit, len(pairs))]...)
	return out, nil
}

// sameBins counts both runs between the least and the largest value of either.
func sameBins(rows [2][]row) [][]Histogram {
	out := [][]Histogram{}
	for _, c := range histogramColumns {
		a, b := measured(rows[0], c), measured(rows[1], c)
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		low, high := min(a[0], b[0]), max(a[len(a)-1], b[len(b)-1])
		out = append(out, []Histogram{histogramOf(columnNames[c], a, low, high), histogramOf(columnNames[c], b, low, high)})
	}
	return out
}

type promptMeans struct {
	reward, acc mean
	n           int
}

func byPrompt(rows []row) map[string]*promptMeans {
	out := map[string]*promptMeans{}
	for i := range rows {
		r := &rows[i]
		m := out[r.prompt]
		if m == nil {
			m = &promptMeans{}
			out[r.prompt] = m
		}
		m.n++
		m.reward.add(r.num[colTotal], 1)
		if r.correct >= 0 {
			m.acc.add(float64(r.correct), 1)
		}
	}
	return out
}

// pair joins by prompt id, the largest change first; prompts of one run only come last.
func pair(means [2]map[string]*promptMeans) []PromptPair {
	at := map[string]*PromptPair{}
	for side := range means {
		for prompt, m := range means[side] {
			if at[prompt] == nil {
				at[prompt] = &PromptPair{Prompt: prompt}
			}
			at[prompt].Reward[side], at[prompt].Acc[side], at[prompt].N[side] = m.reward.value(), m.acc.value(), m.n
		}
	}
	out := make([]PromptPair, 0, len(at))
	for _, p := range at {
		if p.Reward[0] != nil && p.Reward[1] != nil {
			d := *p.Reward[1] - *p.Reward[0]
			p.Delta = &d
		}
		out = append(out, *p)
	}
	weight := func(p PromptPair) float64 {
		if p.Delta == nil {
			return -1
		}
		return math.Abs(*p.Delta)
	}
	slices.SortFunc(out, func(a, b PromptPair) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a.Prompt, b.Prompt))
	})
	return out
}
