package viewer

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Count is how often a value occurs.
type Count struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// Mean is the mean of a column over the rows that have it; null without any.
type Mean struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"`
	N     int      `json:"n"`
}

// Histogram counts a column's values in equal bins from Min to Max.
type Histogram struct {
	Name string  `json:"name"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Bins []int   `json:"bins"`
	// Quantiles are the 5th, 50th and 95th percentile.
	Quantiles [3]float64 `json:"quantiles"`
}

// Bucket is a stretch of the run: the rollouts that ended in it and the means of their numbers.
type Bucket struct {
	// From and To are Unix seconds, or positions in the index where an older run has no times.
	From   float64    `json:"from"`
	To     float64    `json:"to"`
	N      int        `json:"n"`
	Values []*float64 `json:"values"` // beside Stats.Series
}

// Stats is what the run page shows of the index.
type Stats struct {
	Rollouts     int      `json:"rollouts"`
	Groups       int      `json:"groups"`
	Prompts      int      `json:"prompts"`
	Submitted    int      `json:"submitted"`
	Accuracy     *float64 `json:"accuracy"`
	Judged       int      `json:"judged"` // rows with a rule's verdict
	Disagree     int      `json:"disagree"`
	Terminations []Count  `json:"terminations"`
	Statuses     []Count  `json:"statuses"`
	Sources      []Count  `json:"sources"`
	Flags        []Count  `json:"flags"`
	// Reasons are why rollouts were lost or not scored, in the words of the index.
	Reasons    []Count     `json:"reasons"`
	Means      []Mean      `json:"means"`
	Sums       []Mean      `json:"sums"`
	Histograms []Histogram `json:"histograms"`
	Series     []string    `json:"series"`
	Timed      bool        `json:"timed"`
	Buckets    []Bucket    `json:"buckets"`
}

var (
	meanColumns      = []column{colTotal, colProcess, colInfer, colOutcome, colPenalty, colTurns, colTokens, colSampled, colErrors, colClaims}
	groundingColumns = []column{colStructural, colReplayed, colLexical, colSupported}
	sumColumns       = []column{colTokens, colSampled, colQueueS, colGenerateS, colToolS, colScoreS}
	histogramColumns = []column{colTotal, colProcess, colInfer, colOutcome, colTurns, colTokens, colErrors, colGenerateS, colToolS, colNodes, colVersion}
	seriesColumns    = append(append([]column{}, meanColumns...), groundingColumns...)
)

const (
	histogramBins = 24
	seriesBuckets = 60
	maxFlagKinds  = 40
)

func computeStats(rows []row) Stats {
	st := Stats{Rollouts: len(rows)}
	groups, prompts := map[string]bool{}, map[string]bool{}
	terms, statuses, sources, flags, reasons := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	var correct mean
	for i := range rows {
		r := &rows[i]
		groups[r.group], prompts[r.prompt] = true, true
		terms[r.termination]++
		statuses[r.status]++
		sources[r.source]++
		for _, f := range r.flags {
			flags[flagKind(f)]++
		}
		if r.reason != "" {
			reasons[r.reason]++
		}
		if r.termination == "submitted" {
			st.Submitted++
		}
		if r.correct >= 0 {
			correct.add(float64(r.correct), 1)
		}
		if r.disagrees() {
			st.Disagree++
		}
	}
	st.Groups, st.Prompts, st.Judged, st.Accuracy = len(groups), len(prompts), int(correct.n), correct.value()
	st.Terminations, st.Statuses, st.Sources, st.Flags, st.Reasons = counts(terms), counts(statuses), counts(sources), counts(flags), counts(reasons)
	for _, c := range meanColumns {
		st.Means = append(st.Means, meanOf(rows, c, nil))
	}
	for _, c := range groundingColumns { // micro: over submitted claims
		st.Means = append(st.Means, meanOf(rows, c, func(r *row) float64 { return r.num[colClaims] }))
	}
	for _, c := range sumColumns {
		m := meanOf(rows, c, nil)
		if m.Value != nil {
			*m.Value *= float64(m.N)
		}
		st.Sums = append(st.Sums, m)
	}
	for _, c := range histogramColumns {
		if h, ok := histogram(rows, c); ok {
			st.Histograms = append(st.Histograms, h)
		}
	}
	st.overTime(rows)
	return st
}

// mean is a running mean that is null without values.
type mean struct{ sum, n float64 }

func (m *mean) add(v, weight float64) {
	if !math.IsNaN(v) {
		m.sum += v * weight
		m.n += weight
	}
}

func (m *mean) value() *float64 {
	if m.n == 0 {
		return nil
	}
	v := m.sum / m.n
	return &v
}

func meanOf(rows []row, c column, weight func(*row) float64) Mean {
	var m mean
	n := 0
	for i := range rows {
		w := 1.0
		if weight != nil {
			w = weight(&rows[i])
		}
		if v := rows[i].num[c]; !math.IsNaN(v) && w > 0 {
			m.add(v, w)
			n++
		}
	}
	return Mean{columnNames[c], m.value(), n}
}

// counts sorts by how often, then by name.
func counts(m map[string]int) []Count {
	out := make([]Count, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Count{name, m[name]})
	}
	slices.SortStableFunc(out, func(a, b Count) int { return cmp.Compare(b.N, a.N) })
	return out[:min(len(out), maxFlagKinds)]
}

// flagKind is a flag without what it names, e.g. "tainted" of "tainted:c1".
func flagKind(flag string) string {
	for i, r := range flag {
		if r == ':' {
			if head := flag[:i]; head != "refused" {
				return head
			}
			break
		}
	}
	return flag
}

func histogram(rows []row, c column) (Histogram, bool) {
	values := measured(rows, c)
	if len(values) == 0 {
		return Histogram{}, false
	}
	return histogramOf(columnNames[c], values, values[0], values[len(values)-1]), true
}

// measured are the values of a column that are there, sorted.
func measured(rows []row, c column) []float64 {
	var values []float64
	for i := range rows {
		if v := rows[i].num[c]; !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
}

// histogramOf counts sorted values between low and high.
func histogramOf(name string, values []float64, low, high float64) Histogram {
	at := func(q float64) float64 { return values[int(q*float64(len(values)-1)+0.5)] }
	h := Histogram{
		Name: name, Min: low, Max: high, Bins: make([]int, histogramBins),
		Quantiles: [3]float64{at(0.05), at(0.5), at(0.95)},
	}
	width := (h.Max - h.Min) / histogramBins
	for _, v := range values {
		bin := 0
		if width > 0 {
			bin = min(int((v-h.Min)/width), histogramBins-1)
		}
		h.Bins[bin]++
	}
	return h
}

// overTime fills the series: by time where every row has one, else by position.
func (st *Stats) overTime(rows []row) {
	for _, c := range seriesColumns {
		st.Series = append(st.Series, columnNames[c])
	}
	st.Series = append(st.Series, "accuracy")
	if len(rows) == 0 {
		return
	}
	st.Timed = !slices.ContainsFunc(rows, func(r row) bool { return math.IsNaN(r.num[colAt]) })
	place := func(i int) float64 { return float64(i) }
	if st.Timed {
		place = func(i int) float64 { return rows[i].num[colAt] }
	}
	first, last := math.Inf(1), math.Inf(-1)
	for i := range rows {
		first, last = min(first, place(i)), max(last, place(i))
	}
	n := min(seriesBuckets, max(2, len(rows)/8)) // fewer would show single groups
	width := (last - first) / float64(n)
	st.Buckets = make([]Bucket, n)
	sums := make([][]mean, n)
	for b := range st.Buckets {
		st.Buckets[b] = Bucket{From: first + float64(b)*width, To: first + float64(b+1)*width}
		sums[b] = make([]mean, len(st.Series))
	}
	for i := range rows {
		b := 0
		if width > 0 {
			b = min(int((place(i)-first)/width), n-1)
		}
		st.Buckets[b].N++
		for k, c := range seriesColumns {
			sums[b][k].add(rows[i].num[c], 1)
		}
		if rows[i].correct >= 0 {
			sums[b][len(seriesColumns)].add(float64(rows[i].correct), 1)
		}
	}
	for b := range sums {
		for k := range sums[b] {
			st.Buckets[b].Values = append(st.Buckets[b].Values, sums[b][k].value())
		}
	}
}
