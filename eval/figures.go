package eval

import (
	"cmp"
	"slices"
)

// Figures are what is said of one benchmark, or of one type of its items. Scores and rates are in percent.
type Figures struct {
	Items    int           `json:"items"`
	Rollouts int           `json:"rollouts"`
	States   map[State]int `json:"states"`
	Outcomes Outcomes      `json:"outcomes"`
	// Score is mean@n over the items that have a scored sample.
	Score *Interval `json:"score"`
	// Low and High are the score if everything without one were wrong, and if it were right.
	Low  *float64  `json:"low,omitempty"`
	High *float64  `json:"high,omitempty"`
	Best *float64  `json:"best_at_n,omitempty"`
	Pass []PassAt  `json:"pass_at_k,omitempty"`
	Fix  *Interval `json:"fixed"`
	// Submission is over the rollouts that ended for the policy's own reasons.
	Submission *Interval `json:"submission"`
	Grounding  Grounding `json:"grounding"`
	Extra      []Named   `json:"extra,omitempty"`
}

// PassAt is the unbiased pass@k, in percent, over the items whose samples were all scored with a verdict.
type PassAt struct {
	K     int     `json:"k"`
	Value float64 `json:"value"`
	Items int     `json:"items"`
}

// Named is one more figure that a benchmark's own script gives.
type Named struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Grounding is over submitted claims.
type Grounding struct {
	Claims int `json:"claims"`
	// Rate is the Grounding Rate, Macro its mean over rollouts, All the same with 0 for each without claims.
	// Null where a part did not run.
	Rate  *Interval `json:"rate"`
	Macro *float64  `json:"macro"`
	All   *float64  `json:"all"`
	// Shares of the parts; null where the part ran on no claim.
	Structural *float64 `json:"structural"`
	Replayed   *float64 `json:"replayed"`
	Lexical    *float64 `json:"lexical"`
	Supported  *float64 `json:"supported"`
	// Open claims lack a part's verdict and are left out of the rate; Unsplit answers have no list of claims.
	Open    int `json:"open"`
	Unsplit int `json:"unsplit"`
}

// itemRecords are one item's samples, in order.
type itemRecords struct {
	id      string
	records []Record
}

func byItem(records []Record) []itemRecords {
	at := map[string]int{}
	var out []itemRecords
	for _, r := range records {
		i, ok := at[r.Item]
		if !ok {
			i = len(out)
			at[r.Item] = i
			out = append(out, itemRecords{id: r.Item})
		}
		out[i].records = append(out[i].records, r)
	}
	for _, it := range out {
		slices.SortFunc(it.records, func(a, b Record) int { return cmp.Compare(a.Sample, b.Sample) })
	}
	return out
}

// value is the item's mean over its scored samples.
func (it itemRecords) mean(of func(Record) *float64) (float64, bool) {
	total, n := 0.0, 0
	for _, r := range it.records {
		if v := of(r); v != nil {
			total += *v
			n++
		}
	}
	return total / float64(max(n, 1)), n > 0
}

func valueOf(r Record) *float64 { return r.Value }
func fixedOf(r Record) *float64 { return r.Fixed }

// measure computes the figures of some records; name keeps their random numbers apart.
func measure(records []Record, seed uint64, name string) Figures {
	f := Figures{Rollouts: len(records), States: map[State]int{}}
	items := byItem(records)
	f.Items = len(items)
	for _, r := range records {
		f.States[r.State]++
		f.Outcomes.add(r)
	}
	f.Score = percent(interval(means(items, valueOf), newRand(seed, name+"/score")))
	f.Fix = percent(interval(means(items, fixedOf), newRand(seed, name+"/fixed")))
	f.bounds(items)
	f.best(items)
	f.pass(items)
	f.submission(items, seed, name)
	f.Grounding = grounding(items, seed, name)
	return f
}

func means(items []itemRecords, of func(Record) *float64) []float64 {
	var out []float64
	for _, it := range items {
		if v, ok := it.mean(of); ok {
			out = append(out, v)
		}
	}
	return out
}

func percent(i *Interval) *Interval {
	if i == nil {
		return nil
	}
	return &Interval{100 * i.Value, 100 * i.Low, 100 * i.High}
}

// bounds put what has no value into the denominator, as wrong and as right.
func (f *Figures) bounds(items []itemRecords) {
	open, low, high, n := 0, 0.0, 0.0, 0
	for _, it := range items {
		l, h, all := 0.0, 0.0, 0
		for _, r := range it.records {
			switch {
			case r.State == Hidden:
				continue
			case r.Value != nil:
				l, h = l+*r.Value, h+*r.Value
			default:
				h++
				open++
			}
			all++
		}
		if all > 0 {
			low, high, n = low+l/float64(all), high+h/float64(all), n+1
		}
	}
	if open == 0 || n == 0 {
		return
	}
	low, high = 100*low/float64(n), 100*high/float64(n)
	f.Low, f.High = &low, &high
}

func (f *Figures) best(items []itemRecords) {
	var best []float64
	several := false
	for _, it := range items {
		v, seen := 0.0, false
		several = several || len(it.records) > 1
		for _, r := range it.records {
			if r.Value != nil {
				v, seen = max(v, *r.Value), true
			}
		}
		if seen {
			best = append(best, v)
		}
	}
	if several && len(best) > 0 {
		v := 100 * mean(best)
		f.Best = &v
	}
}

// pass estimates pass@k for k of 1, 2, 4, ... and n. Graded items have no verdict and no pass@k.
func (f *Figures) pass(items []itemRecords) {
	n := 0
	for _, it := range items {
		n = max(n, len(it.records))
	}
	var ks []int
	for k := 1; k < n; k *= 2 {
		ks = append(ks, k)
	}
	if ks = append(ks, n); n < 2 {
		return
	}
	for _, k := range ks {
		var values []float64
		for _, it := range items {
			right, verdicts := 0, 0
			for _, r := range it.records {
				if r.Binary && r.Value != nil {
					verdicts++
					right += int(*r.Value)
				}
			}
			if verdicts == n {
				values = append(values, PassAtK(n, right, k))
			}
		}
		if len(values) > 0 {
			f.Pass = append(f.Pass, PassAt{k, 100 * mean(values), len(values)})
		}
	}
}

func (f *Figures) submission(items []itemRecords, seed uint64, name string) {
	var yes, all []float64
	for _, it := range items {
		y, n := 0.0, 0.0
		for _, r := range it.records {
			if r.State != Lost && r.State != Missing {
				y, n = y+truth(r.Submitted), n+1
			}
		}
		yes, all = append(yes, y), append(all, n)
	}
	f.Submission = percent(ratioInterval(yes, all, newRand(seed, name+"/submission")))
}

func grounding(items []itemRecords, seed uint64, name string) Grounding {
	var g Grounding
	var yes, all, macro []float64
	without := 0
	parts := [4]struct{ yes, n float64 }{}
	for _, it := range items {
		y, n := 0.0, 0.0
		for _, r := range it.records {
			if r.State == Lost || r.State == Missing {
				continue
			}
			if r.ClaimsUnsplit != "" {
				g.Unsplit++
				continue
			}
			ry, rn := r.grounded(&g, &parts)
			switch {
			case rn > 0:
				macro = append(macro, ry/rn)
			case len(r.Claims) == 0:
				without++
			}
			y, n = y+ry, n+rn
		}
		yes, all = append(yes, y), append(all, n)
	}
	for i, p := range []**float64{&g.Structural, &g.Replayed, &g.Lexical, &g.Supported} {
		if parts[i].n > 0 {
			v := 100 * parts[i].yes / parts[i].n
			*p = &v
		}
	}
	if len(macro) == 0 {
		return g
	}
	g.Rate = percent(ratioInterval(yes, all, newRand(seed, name+"/grounding")))
	m, whole := 100*mean(macro), 100*sum(macro)/float64(len(macro)+without)
	g.Macro, g.All = &m, &whole
	return g
}

// grounded counts a record's grounded claims and those that could be told.
func (r *Record) grounded(g *Grounding, parts *[4]struct{ yes, n float64 }) (yes, n float64) {
	words := len(r.Claims) > 0 && r.Claims[0].Structural == nil
	for _, c := range r.Claims {
		g.Claims++
		for i, p := range []*bool{c.Structural, c.Replayed, c.Lexical, c.Supported} {
			if p != nil {
				parts[i].n++
				parts[i].yes += truth(*p)
			}
		}
		if whole := c.Grounded(words); whole != nil {
			n++
			yes += truth(*whole)
		} else {
			g.Open++
		}
	}
	return yes, n
}

// Outcomes divides all rollouts; the counts add up to them.
type Outcomes struct {
	Right      int `json:"right"`
	Partly     int `json:"partly"`
	Wrong      int `json:"wrong"`
	Unanswered int `json:"unanswered"`
}

func (o *Outcomes) add(r Record) {
	switch {
	case r.Value == nil:
	case *r.Value == 1:
		o.Right++
	case *r.Value > 0:
		o.Partly++
	case r.Submitted:
		o.Wrong++
	default:
		o.Unanswered++
	}
}

// parts are the outcomes as a plot shows them.
func (f Figures) parts() []part {
	return []part{
		{"s-right", "right", f.Outcomes.Right},
		{"s-part", "partly right", f.Outcomes.Partly},
		{"s-wrong", "wrong", f.Outcomes.Wrong},
		{"s-none", "not answered", f.Outcomes.Unanswered},
		{"s-open", "no score", f.Open()},
		{"s-hidden", "answer hidden", f.States[Hidden]},
	}
}
