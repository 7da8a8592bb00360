package eval

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// num prints a figure in percent, a dash for none.
func num(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

func (i *Interval) String() string {
	if i == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", i.Value, i.Low, i.High)
}

// value is the point alone.
func (i *Interval) value() string {
	if i == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", i.Value)
}

// Open are the rollouts that should have a score and have none, Asked all that should have one.
func (f Figures) Open() int { return f.States[Unscored] + f.States[Lost] + f.States[Missing] }

// Asked are all rollouts but those whose answer is hidden.
func (f Figures) Asked() int { return f.Rollouts - f.States[Hidden] }

// UnscoredShare is in percent; "-" where nothing could be scored.
func (f Figures) UnscoredShare() string {
	if f.Asked() == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", 100*float64(f.Open())/float64(f.Asked()))
}

// Remark says what a figure leaves out, "" for nothing.
func (f Figures) Remark() string {
	var parts []string
	if n := f.States[Hidden]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d rollouts have no known answer and are in no score", n, f.Rollouts))
	}
	if f.Low != nil {
		parts = append(parts, fmt.Sprintf("%d of %d rollouts have no score (%s); were they all wrong the score would be %.2f, all right %.2f",
			f.Open(), f.Asked(), counted(f.openStates()), *f.Low, *f.High))
	}
	if g := f.Grounding; g.Open > 0 && g.Rate != nil {
		parts = append(parts, fmt.Sprintf("%d of %d claims lack the verdict of a part and are in no Grounding Rate", g.Open, g.Claims))
	}
	if n := f.Grounding.Unsplit; n > 0 {
		parts = append(parts, fmt.Sprintf("the claims of %d answers were not listed and are in no Grounding Rate", n))
	}
	return strings.Join(parts, "; ")
}

func (f Figures) openStates() map[string]int {
	out := map[string]int{}
	for _, s := range []State{Unscored, Lost, Missing} {
		if n := f.States[s]; n > 0 {
			out[string(s)] = n
		}
	}
	return out
}

func counted(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// Note says under which name grounding may be printed.
func (g Grounding) Note() string {
	switch {
	case g.Claims == 0 && g.Unsplit == 0:
		return "no submitted claims"
	case g.Rate == nil:
		return "Grounding Rate not run: it needs replay and a judge; the parts that ran stand beside it"
	}
	return ""
}

func seconds(s float64) string {
	if s < 60 {
		return fmt.Sprintf("%.1f s", s)
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

func money(v *float64, times int) string {
	if v == nil {
		return "no prices given"
	}
	return fmt.Sprintf("%.4f each, %.2f in all", *v, *v*float64(times))
}

// overallRow is the papers' main table row: the columns' names and values.
func (r Report) overallRow() (names, values []string) {
	for _, name := range inOverall {
		b, _ := Find(name)
		i := slices.IndexFunc(r.Benchmarks, func(x BenchmarkReport) bool { return x.Name == name })
		var f *BenchmarkReport
		if i >= 0 {
			f = &r.Benchmarks[i]
		}
		if name == Research {
			names, values = append(names, "Content", "Format"), append(values, f.extra(0), f.extra(1))
			continue
		}
		v := "-"
		if f != nil {
			v = f.Score.value()
		}
		names, values = append(names, b.Title), append(values, v)
	}
	v := "-"
	title := "Overall"
	if r.Overall != nil {
		v, title = r.Overall.Score.String(), r.Overall.Name()
	}
	return append(names, title, "Grounding Rate"), append(values, v, r.rates())
}

func (b *BenchmarkReport) extra(i int) string {
	if b == nil || i >= len(b.Extra) {
		return "-"
	}
	return fmt.Sprintf("%.2f", b.Extra[i].Value)
}

// rates are the benchmarks' Grounding Rates.
func (r Report) rates() string {
	var parts []string
	for _, b := range r.Benchmarks {
		if b.Grounding.Rate != nil {
			parts = append(parts, b.Title+" "+b.Grounding.Rate.value())
		}
	}
	if len(parts) == 0 {
		return "not run"
	}
	return strings.Join(parts, ", ")
}
