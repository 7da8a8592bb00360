package eval

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Comparison is one benchmark of two evaluations, on the items that both have a score of.
type Comparison struct {
	Benchmark string `json:"benchmark"`
	Title     string `json:"title"`
	// Shared are the items compared; OnlyA and OnlyB were asked on one side only; Open have no score on a side.
	Shared int `json:"shared"`
	OnlyA  int `json:"only_a"`
	OnlyB  int `json:"only_b"`
	Open   int `json:"open"`
	// A and B are the scores on the shared items, Difference is A - B, resampled in pairs; in percent.
	A          float64   `json:"a"`
	B          float64   `json:"b"`
	Difference *Interval `json:"difference"`
	// Test is mcnemar (one verdict an item on both sides) or sign_flip (means). BetterA and BetterB count items.
	Test    string  `json:"test"`
	P       float64 `json:"p"`
	BetterA int     `json:"better_a"`
	BetterB int     `json:"better_b"`
	Note    string  `json:"note,omitempty"`
}

// Compare pairs two evaluations by benchmark and item.
func Compare(a, b []Record, seed uint64) []Comparison {
	var out []Comparison
	for _, bench := range Benchmarks {
		of := func(all []Record) []Record {
			return slices.DeleteFunc(slices.Clone(all), func(r Record) bool { return r.Benchmark != bench.Name })
		}
		x, y := of(a), of(b)
		if len(x)+len(y) > 0 {
			out = append(out, compareOne(bench, x, y, seed))
		}
	}
	return out
}

// paired are one item's means on both sides.
type paired struct{ a, b float64 }

func compareOne(bench Benchmark, a, b []Record, seed uint64) Comparison {
	c := Comparison{Benchmark: bench.Name, Title: bench.Title, P: 1}
	other := map[string]itemRecords{}
	for _, it := range byItem(b) {
		other[it.id] = it
	}
	c.OnlyB = len(other)
	var pairs []paired
	verdicts := true
	for _, it := range byItem(a) {
		twin, ok := other[it.id]
		if !ok {
			c.OnlyA++
			continue
		}
		c.OnlyB--
		x, okX := it.mean(valueOf)
		y, okY := twin.mean(valueOf)
		if !okX || !okY {
			c.Open++
			continue
		}
		verdicts = verdicts && it.verdict() && twin.verdict()
		pairs = append(pairs, paired{x, y})
	}
	if c.Shared = len(pairs); c.Shared == 0 {
		c.Note = "no item has a score on both sides"
		return c
	}
	c.test(pairs, verdicts, newRand(seed, bench.Name+"/flip").Uint64())
	return c
}

// verdict: one sample with a verdict on the whole answer.
func (it itemRecords) verdict() bool { return len(it.records) == 1 && it.records[0].Binary }

func (c *Comparison) test(pairs []paired, verdicts bool, seed uint64) {
	differences := make([]float64, len(pairs))
	for i, p := range pairs {
		c.A, c.B = c.A+100*p.a/float64(len(pairs)), c.B+100*p.b/float64(len(pairs))
		differences[i] = p.a - p.b
		switch {
		case p.a > p.b:
			c.BetterA++
		case p.b > p.a:
			c.BetterB++
		}
	}
	c.Difference = percent(interval(differences, newRand(seed, "difference")))
	if verdicts {
		c.Test, c.P = "mcnemar", McNemar(c.BetterA, c.BetterB)
		return
	}
	c.Test, c.P = "sign_flip", SignFlip(differences, newRand(seed, "flip"))
}

// WriteComparison prints comparisons as Markdown.
func WriteComparison(w io.Writer, nameA, nameB string, all []Comparison) error {
	m := &markdown{}
	m.line("A is %s, B is %s. Scores and differences are in percent, on the shared items alone.", nameA, nameB)
	m.line("")
	var rows [][]string
	var notes []string
	for _, c := range all {
		p := fmt.Sprintf("%.4f (%s)", c.P, strings.ReplaceAll(c.Test, "_", " "))
		if c.Shared == 0 {
			p = "-"
		}
		rows = append(rows, []string{
			c.Title, fmt.Sprint(c.Shared), fmt.Sprintf("%.2f", c.A), fmt.Sprintf("%.2f", c.B), c.Difference.String(), fmt.Sprintf("%d / %d", c.BetterA, c.BetterB), p,
		})
		if c.OnlyA+c.OnlyB+c.Open > 0 {
			notes = append(notes, fmt.Sprintf("%s: not compared are %d items of A alone, %d of B alone, and %d without a score on a side.", c.Title, c.OnlyA, c.OnlyB, c.Open))
		}
	}
	m.table([]string{"benchmark", "shared items", "A", "B", "A - B", "better in A / B", "p"}, rows)
	for _, n := range notes {
		m.line("%s", n)
	}
	_, err := io.WriteString(w, m.text.String())
	return err
}
