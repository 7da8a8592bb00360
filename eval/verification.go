package eval

import (
	"fmt"
	"io"

	"github.com/verigraph/verigraph/reward/verify"
)

// Setting is one way of checking worked solutions, with the papers' figures by group.
type Setting struct {
	// Name is holistic, atomic or block.
	Name   string         `json:"name"`
	Scores []verify.Score `json:"scores"`
	// F1 has a bootstrap interval over items, by group as in Scores; in percent.
	F1 []*Interval `json:"f1_interval"`
}

// MeasureSetting scores one setting's predictions. Failed ones count as wrong, as in the papers.
func MeasureSetting(name string, predictions []verify.Prediction, seed uint64) Setting {
	s := Setting{Name: name, Scores: verify.ByGroup(predictions)}
	for _, score := range s.Scores {
		var of []verify.Prediction
		for _, p := range predictions {
			if p.Item.Group == score.Group || score.Group == "all" {
				of = append(of, p)
			}
		}
		rng := newRand(seed, name+"/"+score.Group)
		f1 := make([]float64, replicates)
		drawn := make([]verify.Prediction, len(of))
		for i := range f1 {
			for k := range drawn {
				drawn[k] = of[rng.IntN(len(of))]
			}
			f1[i] = verify.Measure("", drawn).F1
		}
		s.F1 = append(s.F1, percent(around(score.F1, f1)))
	}
	return s
}

// verificationHead are the columns of the papers' table.
var verificationHead = []string{"group", "setting", "wrong", "right", "error located", "right cleared", "F1", "failed", "calls", "calls saved"}

func verificationRows(settings []Setting) [][]string {
	var rows [][]string
	for g := range settings[0].Scores {
		for _, s := range settings {
			v := s.Scores[g]
			rows = append(rows, []string{
				v.Group, s.Name, fmt.Sprint(v.Wrong), fmt.Sprint(v.Right), fmt.Sprintf("%.1f", 100*v.ErrorAccuracy), fmt.Sprintf("%.1f", 100*v.CorrectAccuracy),
				fmt.Sprintf("%.1f [%.1f, %.1f]", s.F1[g].Value, s.F1[g].Low, s.F1[g].High), fmt.Sprint(v.Failed), fmt.Sprint(v.Calls), fmt.Sprint(v.Saved),
			})
		}
	}
	return rows
}

// VerificationSentence says what stands in the table.
func VerificationSentence(judge string, seed uint64) string {
	return fmt.Sprintf("Judge %s. F1 is the harmonic mean of the share of wrong solutions whose first error was located and the share of right "+
		"ones that were found right, in percent; failures count as wrong. Intervals are 95 %% of a bootstrap over solutions (%d replicates, seed %d).", judge, replicates, seed)
}

// WriteVerification writes the table as Markdown.
func WriteVerification(w io.Writer, title, judge string, seed uint64, settings []Setting) error {
	m := &markdown{}
	m.line("# %s", title)
	m.line("")
	m.line("%s", VerificationSentence(judge, seed))
	m.line("")
	m.table(verificationHead, verificationRows(settings))
	_, err := io.WriteString(w, m.text.String())
	return err
}

// WriteVerificationHTML writes table and plots as one page that needs nothing else.
func WriteVerificationHTML(w io.Writer, title, judge string, seed uint64, settings []Setting) error {
	p := htmlPage{Title: title, Sentence: VerificationSentence(judge, seed), Head2: verificationHead, Rows: verificationRows(settings), Text: "Bars are F1 with 95 % intervals."}
	var rows []bar
	for g := range settings[0].Scores {
		for _, s := range settings {
			rows = append(rows, bar{label: s.Scores[g].Group + ", " + s.Name, value: s.F1[g], note: fmt.Sprintf(" (n = %d)", s.Scores[g].Wrong+s.Scores[g].Right)})
		}
	}
	p.Overall = bars("F1 by group and setting", rows)
	return page.Execute(w, p)
}
