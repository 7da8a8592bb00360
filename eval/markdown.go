package eval

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes the report as Markdown.
func WriteMarkdown(w io.Writer, r Report) error {
	m := &markdown{}
	m.line("# Evaluation of %s", r.Setup.Name)
	m.line("")
	m.line("%s", r.Setup.Sentence(r.Seed))
	m.line("")
	names, values := r.overallRow()
	m.table(append([]string{"model"}, names...), [][]string{append([]string{r.Setup.Name}, values...)})
	var rows [][]string
	for _, b := range r.Benchmarks {
		rows = append(rows, []string{
			b.Title, fmt.Sprintf("%d x %d", b.Items, r.Setup.Samples), b.Score.String(), b.Fix.value(), b.Submission.value(), b.UnscoredShare(),
			b.Grounding.Rate.String(), num(b.Grounding.All),
		})
	}
	m.table([]string{"benchmark", "items x samples", "score", "fixed rule", "submitted", "unscored", "Grounding Rate", "the same, 0 without claims"}, rows)
	for _, b := range r.Benchmarks {
		m.section(b, r.Setup.Samples)
	}
	_, err := io.WriteString(w, m.text.String())
	return err
}

// Sentence says what the evaluation was made with.
func (s Setup) Sentence(seed uint64) string {
	return fmt.Sprintf("Agent %s, model %s (%s), samples per item: %d, seed %d, %s, judge %s. Scores and rates are in percent, "+
		"with 95 %% intervals of a bootstrap over items (%d replicates, seed %d).", s.Agent, s.Model, s.API, s.Samples, s.Seed, s.Sampling, s.Judge, replicates, seed)
}

type markdown struct{ text strings.Builder }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.text, format+"\n", args...) }

func (m *markdown) table(head []string, rows [][]string) {
	clean := strings.NewReplacer("|", `\|`, "\n", " ")
	row := func(cells []string) {
		m.text.WriteString("|")
		for _, c := range cells {
			m.text.WriteString(" " + clean.Replace(c) + " |")
		}
		m.text.WriteString("\n")
	}
	row(head)
	m.text.WriteString(strings.Repeat("| --- ", len(head)) + "|\n")
	for _, r := range rows {
		row(r)
	}
	m.text.WriteString("\n")
}

func (m *markdown) section(b BenchmarkReport, samples int) {
	m.line("## %s", b.Title)
	m.line("")
	m.line("%d items, %d rollouts. The score is %s.", b.Items, b.Rollouts, b.Metric)
	if b.Run.Note != "" {
		m.line("%s", b.Run.Note)
	}
	if remark := b.Remark(); remark != "" {
		m.line("Left out: %s.", remark)
	}
	m.line("")
	m.table([]string{"figure", "value"}, b.Lines(samples))
	for _, t := range b.Types {
		var rows [][]string
		for _, r := range t.Rows {
			rows = append(rows, []string{r.Value, fmt.Sprint(r.Items), r.Score.String(), r.Fix.value(), r.Submission.value(), r.UnscoredShare(), r.Grounding.Rate.value()})
		}
		m.table([]string{t.Key, "items", "score", "fixed rule", "submitted", "unscored", "Grounding Rate"}, rows)
	}
	if len(b.Reasons) > 0 {
		m.line("Without a score: %s.", counted(b.Reasons))
		m.line("")
	}
}

// Lines are the single figures of a section: name and value.
func (b BenchmarkReport) Lines(samples int) [][]string {
	rows := [][]string{{"score" + ifMany(samples, fmt.Sprintf(" (mean@%d)", samples)), b.Score.String()}, {"score by the fixed rule", b.Fix.String()}}
	if b.Best != nil {
		rows = append(rows, []string{fmt.Sprintf("best@%d", samples), num(b.Best)})
	}
	for _, p := range b.Pass {
		rows = append(rows, []string{fmt.Sprintf("pass@%d", p.K), fmt.Sprintf("%.2f (%d items)", p.Value, p.Items)})
	}
	for _, e := range b.Extra {
		rows = append(rows, []string{e.Name, fmt.Sprintf("%.2f", e.Value)})
	}
	g := b.Grounding
	rows = append(rows, []string{"submitted", b.Submission.String()}, []string{"unscored", b.UnscoredShare()})
	if g.Rate != nil {
		rows = append(rows, []string{"Grounding Rate (micro)", g.Rate.String()}, []string{"Grounding Rate (macro)", num(g.Macro)},
			[]string{"Grounding Rate, 0 for rollouts without claims", num(g.All)})
	} else {
		rows = append(rows, []string{"Grounding Rate", g.Note()})
	}
	rows = append(rows,
		[]string{"claims: structural, lexical, replayed, supported", fmt.Sprintf("%s, %s, %s, %s (%d claims)",
			num(g.Structural), num(g.Lexical), num(g.Replayed), num(g.Supported), g.Claims)},
		[]string{"ended", counted(b.Terminations)})
	c := b.Cost
	estimated := ""
	if c.Estimated {
		estimated = " (estimated: the endpoint gives text only)"
	}
	return append(rows,
		[]string{"tokens per rollout", fmt.Sprintf("%.0f sent, %.0f sampled, %.1f turns%s", c.PromptTokens, c.SampledTokens, c.Turns, estimated)},
		[]string{"cost", money(c.Money, b.Rollouts-b.States[Missing])},
		[]string{"seconds per rollout", fmt.Sprintf("policy %.2f, sandbox %.2f, waiting %.2f", c.PolicyS, c.SandboxS, c.QueueS)},
		[]string{"wall time, peak memory", fmt.Sprintf("%s, %.0f MiB (sandbox tier %s, replay %s)", seconds(b.Run.WallSeconds), b.Run.PeakMemoryMiB, b.Run.Tier, b.Run.Replay)},
	)
}

func ifMany(n int, text string) string {
	if n > 1 {
		return text
	}
	return ""
}
