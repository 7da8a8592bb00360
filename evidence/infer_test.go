package evidence

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestInferRefusesByRule(t *testing.T) {
	t.Parallel()
	const reasoning = "The mean is stated by the premise."
	long := strings.Repeat("mean ", 1000)
	for _, c := range []struct {
		rule                  string
		premises              []string
		conclusion, reasoning string
	}{
		{"infer_no_premise", nil, "It is high.", reasoning},
		{"infer_unknown_premise", []string{"c1", "c9"}, "It is high.", reasoning},
		{"infer_unknown_premise", []string{"file:a.csv"}, "It is high.", reasoning},
		{"infer_unknown_premise", []string{"v1"}, "It is high.", reasoning},
		{"infer_empty_conclusion", []string{"c1"}, " \n", reasoning},
		{"infer_conclusion_length", []string{"c1"}, long, reasoning},
		{"infer_placeholder", []string{"c1"}, "It is {m:.2f}.", reasoning},
		{"infer_placeholder", []string{"c1"}, "It is {}.", reasoning},
		{"infer_placeholder", []string{"c1"}, "It is {row.mean!r}.", reasoning},
		{"infer_characters", []string{"c1"}, "It is\u200b high.", reasoning},
		{"infer_characters", []string{"c1"}, "It is high.", reasoning + "\u202e"},
		{"infer_reasoning_short", []string{"c1"}, "It is high.", "Clear."},
		{"infer_reasoning_short", []string{"c1"}, "It is high.", strings.Repeat(" ", 50)},
		{"infer_reasoning_long", []string{"c1"}, "It is high.", long},
		{"infer_reasoning_is_conclusion", []string{"c1"}, "The mean is high.", "the mean is, high"},
		{"infer_reasoning_unrelated", []string{"c1"}, "It is high.", "Known figures for this data set."},
		{"infer_reasoning_unrelated", []string{"c1"}, "It is high.", "This follows directly from the premises."},
		{"infer_reasoning_unrelated", []string{"c1"}, "It is high.", "Therefore the conclusion is clearly correct."},
		{"infer_new_number", []string{"c1"}, "@mean_fare[40.82]", reasoning},
	} {
		w := newWorld(t)
		w.load()
		w.mean("df")
		id, refusal := w.infer(InferRequest{Premises: c.premises, Conclusion: c.conclusion, Reasoning: c.reasoning})
		if refusal == nil || refusal.Rule != c.rule || id != "" {
			t.Errorf("%q because %q: got %q, %v, want %s", short(c.conclusion), short(c.reasoning), id, refusal, c.rule)
		}
	}
}

func TestInferNamesTheNewNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	id := w.mean("df")
	_, refusal := w.infer(InferRequest{Premises: []string{id}, Conclusion: "@a[34.65] @b[71.36]", Reasoning: "The mean is known."})
	if refusal == nil || !strings.Contains(refusal.Message, "71.36") || strings.Contains(refusal.Message, "34.65") {
		t.Errorf("refusal is %v", refusal)
	}
}

func TestNumberRuleFlagsOrAllows(t *testing.T) {
	t.Parallel()
	for rule, flagged := range map[NumberRule]bool{NumberFlag: true, NumberAllow: false} {
		w := newWorld(t)
		w.g.cfg.NumberRule = rule
		w.load()
		id, refusal := w.infer(InferRequest{Premises: []string{w.mean("df")}, Conclusion: "It is 99.5.", Reasoning: "The mean is known."})
		if refusal != nil {
			t.Fatal(refusal.Message)
		}
		g := w.grounding(id)
		if *g.Lexical {
			t.Errorf("%s: N is true", rule)
		}
		if got := strings.Contains(fmt.Sprint(w.g.Export().Flags), "number_flagged:"+id); got != flagged {
			t.Errorf("%s: flagged %v", rule, got)
		}
	}
}

func TestDuplicatePremisesCountOnceInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	a, b := w.mean("df"), w.mean("df")
	id, refusal := w.infer(InferRequest{Premises: []string{b, a, b}, Conclusion: "Both agree.", Reasoning: "The mean is the same."})
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	e := w.g.Export()
	if p := e.Premises(id); len(p) != 2 || p[0].ID != b || p[1].ID != a {
		t.Errorf("premises are %+v", p)
	}
}

func TestSetOrDictInAConclusionIsNoPlaceholder(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"@a[{'x': 'y'}]", "the set {A, B}", "{a: 1}"} {
		if placeholderLike.MatchString(text) {
			t.Errorf("%q is taken for a placeholder", text)
		}
	}
}

func TestRestatedPremiseIsAcceptedAndMarked(t *testing.T) {
	t.Parallel()
	premises := []ClaimText{
		{ID: "c1", Text: "The mean fare over 715 passengers is 34.65. @mean_fare[34.65]"},
		{ID: "c2", Text: "The relationship is not linear."},
	}
	for conclusion, want := range map[string]string{
		"the mean fare over 715 passengers is 34.65 @mean_fare[34.65]!": "c1",
		"@mean_fare[34.65]":                                 "c1",
		"The mean fare of the passengers is 34.65.":         "c1",
		"The relationship is not linear. @mean_fare[34.65]": "c2",
		"The relationship is linear.":                       "",
		"The mean fare is high.":                            "",
		"The mean fare is 34.7.":                            "",
	} {
		if got := restated(conclusion, premises); got != want {
			t.Errorf("restated(%q) = %q, want %q", conclusion, got, want)
		}
	}
	w := newWorld(t)
	w.load()
	id, refusal := w.infer(InferRequest{Premises: []string{w.mean("df")}, Conclusion: "The mean is 34.65!", Reasoning: "It is what the first claim says about the mean."})
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	e := w.g.Export()
	if n, _ := e.Node(id); n.Restates != "c1" || len(e.Flags) == 0 {
		t.Errorf("restates %q, flags %q", n.Restates, e.Flags)
	}
}

//go:embed testdata/inferences.json
var inferences []byte

func TestInferencesOfSolvedTasksAreAccepted(t *testing.T) {
	t.Parallel()
	var cases []struct {
		Name, Question, Conclusion, Reasoning string
		Premises                              []string
	}
	if err := json.Unmarshal(inferences, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		g := New(Task{Question: c.Question}, Defaults())
		cell := g.Begin(0, "", Analysis{Statements: []Statement{{}}})
		var ids []string
		for _, text := range c.Premises {
			id, _, refusal := cell.Bind(request("{x}", str("x", text)))
			if refusal != nil {
				t.Fatalf("%s: bind: %s", c.Name, refusal.Message)
			}
			ids = append(ids, id)
		}
		id, _, refusal := cell.Infer(InferRequest{Premises: ids, Conclusion: c.Conclusion, Reasoning: c.Reasoning})
		if refusal != nil {
			t.Errorf("%s: %s: %s", c.Name, refusal.Rule, refusal.Message)
			continue
		}
		e := g.Export()
		if n, _ := e.Node(id); n.Restates != "" {
			t.Errorf("%s: taken for a repetition of %s", c.Name, n.Restates)
		}
	}
}

func TestSubmitTakesKnownClaimsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	a, b := w.mean("df"), w.mean("df")
	for rule, ids := range map[string][]string{
		"submit_no_claim": nil, "submit_unknown_claim": {a, "c9"},
	} {
		if refusal := w.submit(ids...); refusal == nil || refusal.Rule != rule {
			t.Errorf("refusal is %v, want %s", refusal, rule)
		}
	}
	if w.g.Submitted() {
		t.Fatal("a refused submission counts")
	}
	if refusal := w.submit(b, a, b); refusal != nil {
		t.Fatal(refusal.Message)
	}
	if refusal := w.submit(a); refusal == nil || refusal.Rule != "submit_twice" || !w.g.Submitted() {
		t.Errorf("second submission: %v", refusal)
	}
	e := w.g.Export()
	if fmt.Sprint(e.Submitted) != fmt.Sprint([]string{b, a}) || e.SubmitTurn < 0 {
		t.Errorf("submitted %q in turn %d", e.Submitted, e.SubmitTurn)
	}
}

func BenchmarkInferAtTheLimits(b *testing.B) {
	cfg := Defaults()
	cfg.MaxClaims, cfg.MaxNodes = 1<<30, 1<<30
	g := New(Task{Question: strings.Repeat("1 2. ", 400)}, cfg)
	c := g.Begin(0, "", Analysis{Statements: []Statement{{}}})
	r := InferRequest{Conclusion: strings.Repeat("7 8. ", 400), Reasoning: strings.Repeat("five 5 ", 280) + "7"}
	for range cfg.MaxPremises {
		id, _, _ := c.Bind(request("{m}", num("m", strings.Repeat("7 8. ", 400))))
		r.Premises = append(r.Premises, id)
	}
	for b.Loop() {
		if _, _, refusal := c.Infer(r); refusal != nil {
			b.Fatal(refusal.Message)
		}
	}
}
