package eval

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.tmpl
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// htmlPage is what the template shows.
type htmlPage struct {
	Title, Sentence string
	// Text explains the first plot.
	Text      string
	Head, Row []string
	Overall   template.HTML
	Head2     []string
	Rows      [][]string
	Sections  []htmlSection
}

type htmlSection struct {
	Title, Text string
	Notes       []string
	Stack       template.HTML
	Legend      []part
	Lines       [][]string
	Plots       []htmlPlot
}

type htmlPlot struct {
	Title string
	Plot  template.HTML
	// Fixed: the plot holds marks of the fixed rule.
	Fixed bool
	Head  []string
	Rows  [][]string
}

// WriteHTML writes the report as one page that needs nothing else.
func WriteHTML(w io.Writer, r Report) error {
	p := htmlPage{
		Title: "Evaluation of " + r.Setup.Name, Sentence: r.Setup.Sentence(r.Seed),
		Text: "Bars are scores with 95 % intervals; the upright mark is the score by the fixed rule.",
	}
	p.Head, p.Row = r.overallRow()
	p.Head2 = []string{"benchmark", "items", "score", "fixed rule", "submitted", "unscored", "Grounding Rate"}
	var rows []bar
	if r.Overall != nil {
		label := "Overall"
		if len(r.Overall.Without) > 0 {
			label = "Overall (partial)"
		}
		rows = append(rows, bar{label: label, value: &r.Overall.Score})
	}
	for _, b := range r.Benchmarks {
		rows = append(rows, bar{label: b.Title, value: b.Score, second: b.Fix, note: marked(b.Figures)})
		p.Rows = append(p.Rows, []string{
			b.Title, fmt.Sprintf("%d × %d", b.Items, r.Setup.Samples), b.Score.String(), b.Fix.value(), b.Submission.value(), b.UnscoredShare(), b.Grounding.Rate.String(),
		})
		p.Sections = append(p.Sections, htmlOf(b, r.Setup.Samples))
	}
	p.Overall = bars("scores with 95 % intervals", rows)
	return page.Execute(w, p)
}

// marked shows where a figure leaves rollouts out.
func marked(f Figures) string {
	if f.Open() > 0 {
		return fmt.Sprintf(" (%d unscored)", f.Open())
	}
	if f.Score == nil {
		return "no score"
	}
	return ""
}

func htmlOf(b BenchmarkReport, samples int) htmlSection {
	s := htmlSection{
		Title: b.Title, Text: fmt.Sprintf("%d items, %d rollouts. The score is %s.", b.Items, b.Rollouts, b.Metric),
		Lines: b.Lines(samples), Legend: b.parts(),
	}
	for _, n := range []string{b.Run.Note, b.Remark()} {
		if n != "" {
			s.Notes = append(s.Notes, n)
		}
	}
	if len(b.Reasons) > 0 {
		s.Notes = append(s.Notes, "Without a score: "+counted(b.Reasons))
	}
	s.Stack = stack("what became of the rollouts", s.Legend)
	if len(b.Pass) > 0 {
		var rows []bar
		for _, p := range b.Pass {
			rows = append(rows, bar{label: fmt.Sprintf("pass@%d", p.K), value: &Interval{p.Value, p.Value, p.Value}})
		}
		if b.Best != nil {
			rows = append(rows, bar{label: fmt.Sprintf("best@%d", samples), value: &Interval{*b.Best, *b.Best, *b.Best}})
		}
		s.Plots = append(s.Plots, htmlPlot{Title: "Several samples", Plot: bars("pass@k", rows)})
	}
	for _, t := range b.Types {
		p := htmlPlot{Title: "By " + t.Key, Fixed: true, Head: []string{t.Key, "items", "score", "fixed rule", "submitted", "unscored", "Grounding Rate"}}
		var rows []bar
		for _, r := range t.Rows {
			rows = append(rows, bar{label: r.Value, value: r.Score, second: r.Fix, note: fmt.Sprintf(" (n = %d)", r.Items)})
			p.Rows = append(p.Rows, []string{r.Value, fmt.Sprint(r.Items), r.Score.String(), r.Fix.value(), r.Submission.value(), r.UnscoredShare(), r.Grounding.Rate.value()})
		}
		p.Plot = bars("score by "+t.Key, rows)
		s.Plots = append(s.Plots, p)
	}
	return s
}
