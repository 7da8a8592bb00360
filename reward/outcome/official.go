// Package outcome scores an answer by a benchmark's rule, without a model. Invariants: an answer is
// text and never evaluated; numbers are compared as exact decimals; the work on one answer is linear in
// its length, but for overlaps, similarities and unordered lists, whose inputs are bounded.
package outcome

import (
	"strconv"

	"github.com/verigraph/verigraph/task"
)

// SubAnswer is the verdict on one required name.
type SubAnswer struct {
	Name string
	Want string
	// Got is the value that counted, Answered whether there was one.
	Got      string
	Answered bool
	Right    bool
	// Score is the value's grade in [0, 1]; 1 where Right.
	Score float64
	// Claim is the submitted claim that the value stands in (training rule only).
	Claim string
	// Reason says why a sub-answer is not right.
	Reason string
}

// required drops repeated names of a label; the last value wins, as in the script's dict.
func required(want []task.NamedAnswer) []task.NamedAnswer {
	at := map[string]int{}
	var out []task.NamedAnswer
	for _, w := range want {
		if i, ok := at[w.Name]; ok {
			out[i].Value = w.Value
			continue
		}
		at[w.Name] = len(out)
		out = append(out, w)
	}
	return out
}

// Official scores an answer as InfiAgent's eval_closed_form.py does: the last value of a repeated
// name counts and extra names are ignored. An empty answer gets every sub-answer wrong, where the
// script would drop the question from its denominator.
func Official(answer string, want []task.NamedAnswer) []SubAnswer {
	return DABench().Score(answer, want)
}

// Share is the mean grade of the sub-answers, 0 for none.
func Share(subs []SubAnswer) float64 {
	if len(subs) == 0 {
		return 0
	}
	sum := 0.0
	for _, s := range subs {
		sum += s.Score
	}
	return sum / float64(len(subs))
}

// AllRight reports whether every sub-answer is right; false for none.
func AllRight(subs []SubAnswer) bool { return len(subs) > 0 && right(subs) == len(subs) }

func right(subs []SubAnswer) int {
	n := 0
	for _, s := range subs {
		if s.Right {
			n++
		}
	}
	return n
}

// Metrics are DABench's set metrics, rounded to 4 places as the script rounds them.
type Metrics struct {
	Questions  int     `json:"questions"`
	SubAnswers int     `json:"sub_answers"`
	ABQ        float64 `json:"abq"`  // share of questions with every sub-answer right
	PSAQ       float64 `json:"psaq"` // mean over questions of right/total
	UASQ       float64 `json:"uasq"` // right sub-answers over all sub-answers
}

// Measure computes the set metrics over the questions' official sub-answers.
func Measure(questions [][]SubAnswer) Metrics {
	m := Metrics{Questions: len(questions)}
	var whole, good int
	var share float64
	for _, subs := range questions {
		m.SubAnswers += len(subs)
		good += right(subs)
		share += Share(subs)
		if AllRight(subs) {
			whole++
		}
	}
	if m.Questions > 0 {
		m.ABQ = round4(float64(whole) / float64(m.Questions))
		m.PSAQ = round4(share / float64(m.Questions))
	}
	if m.SubAnswers > 0 {
		m.UASQ = round4(float64(good) / float64(m.SubAnswers))
	}
	return m
}

func round4(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'f', 4, 64), 64)
	return r
}
