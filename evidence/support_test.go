package evidence

import (
	"encoding/json"
	"strings"
	"testing"
)

// supportedBy submits claims and returns J of each as "yes", "no" or "open".
func supportedBy(w *world, verdicts map[string]Support, submitted ...string) string {
	w.t.Helper()
	if refusal := w.submit(submitted...); refusal != nil {
		w.t.Fatal(refusal.Message)
	}
	e := w.g.Export()
	e.ApplyVerdicts(verdicts)
	e.ApplyVerdicts(verdicts)
	var out []string
	for _, g := range e.Grounding {
		switch {
		case g.Supported == nil:
			out = append(out, "open")
		case *g.Supported:
			out = append(out, "yes")
		default:
			out = append(out, "no: "+g.Why)
		}
	}
	return strings.Join(out, ", ")
}

func TestSupportedFollowsFromValuesAndVerdicts(t *testing.T) {
	t.Parallel()
	yes, no := Support{Entailed: true}, Support{Reason: "it is 34, not high"}
	derived := func(w *world, conclusion string, premises ...string) string {
		id, refusal := w.infer(InferRequest{Premises: premises, Conclusion: conclusion, Reasoning: "The mean of the premise says so."})
		if refusal != nil {
			w.t.Fatal(refusal.Message)
		}
		return id
	}
	for name, c := range map[string]struct {
		claim    func(w *world) []string
		verdicts map[string]Support
		want     string
	}{
		"an atomic claim by its values, without a judge": {
			func(w *world) []string { return []string{w.mean("df")} }, nil, "yes",
		},
		"an atomic claim without ground is not": {
			func(w *world) []string { w.constant("k"); return []string{w.mean("k")} }, nil,
			"no: c1: the value of {m} (34.65) reaches no source",
		},
		"a derived claim by its verdict": {
			func(w *world) []string { return []string{derived(w, "It is low.", w.mean("df"))} },
			map[string]Support{"c2": yes},
			"yes",
		},
		"a derived claim that does not follow is not": {
			func(w *world) []string { return []string{derived(w, "It is high.", w.mean("df"))} },
			map[string]Support{"c2": no},
			"no: c2: not entailed: it is 34, not high",
		},
		"without a verdict nothing is known": {
			func(w *world) []string { return []string{derived(w, "It is low.", w.mean("df"))} }, nil, "open",
		},
		"a refuted premise decides over one that nobody judged": {
			func(w *world) []string {
				return []string{derived(w, "It is cheap.", derived(w, "The mean is low.", w.mean("df")), derived(w, "The mean is high.", "c1"))}
			},
			map[string]Support{"c3": no},
			"no: c3: not entailed: it is 34, not high",
		},
		"an open premise leaves what follows from it open": {
			func(w *world) []string {
				return []string{derived(w, "It is cheap.", derived(w, "The mean is low.", w.mean("df")))}
			},
			map[string]Support{"c3": yes},
			"open",
		},
		"an entailed conclusion over a constant is not supported": {
			func(w *world) []string { w.constant("k"); return []string{derived(w, "It is low.", w.mean("k"))} },
			map[string]Support{"c2": yes},
			"no: c1: the value of {m} (34.65) reaches no source",
		},
		"a restatement is as good as its premise": {
			func(w *world) []string { return []string{derived(w, "The mean is 34.65.", w.mean("df"))} }, nil, "yes",
		},
		"each claim by itself": {
			func(w *world) []string { return []string{w.mean("df"), derived(w, "It is low.", "c1")} }, nil, "yes, open",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.load()
			if got := supportedBy(w, c.verdicts, c.claim(w)...); got != c.want {
				t.Errorf("J is %q, want %q", got, c.want)
			}
		})
	}
}

func TestAClaimWithANumberOfItsOwnIsNotSupported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.g.cfg.NumberRule = NumberFlag
	w.load()
	id, refusal := w.infer(InferRequest{Premises: []string{w.mean("df")}, Conclusion: "It is 99.5.", Reasoning: "The mean is known."})
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	if got := supportedBy(w, map[string]Support{id: {Entailed: true}}, id); !strings.HasPrefix(got, "no: "+id) {
		t.Errorf("J is %q", got)
	}
}

func TestGroundingRateNeedsAllFourPartsOnEveryClaim(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	all := ClaimGrounding{Structural: &yes, Replayed: &yes, Lexical: &yes, Supported: &yes}
	unsupported, open := all, all
	unsupported.Supported, open.Supported = &no, nil
	for _, c := range []struct {
		claims []ClaimGrounding
		want   string
	}{
		{nil, "null"},
		{[]ClaimGrounding{all, all}, "1"},
		{[]ClaimGrounding{all, unsupported}, "0.5"},
		{[]ClaimGrounding{all, open}, "null"},
	} {
		if got, _ := json.Marshal(Rate(c.claims)); string(got) != c.want {
			t.Errorf("rate is %s, want %s", got, c.want)
		}
	}
}

func TestUntrackedValuesAreListedWithTheirConstructNameCellAndLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := w.g.Begin(7, "a = 1\nx = eval(t)\nbind('{m}', m=f(x))\ndel a", Analysis{Statements: []Statement{
		{Line: 1, EndLine: 1, Writes: []string{"a"}},
		{Line: 2, EndLine: 2, Writes: []string{"x"}, Untracked: []string{"eval()"}},
		{Line: 3, EndLine: 3, Untracked: []string{"__dict__"}, Reads: []string{"x"}, Calls: []PrimitiveCall{call("{m} is so", map[string]string{"m": "x"})}},
	}})
	c.Completed(Report{Index: 0, Bound: []string{"a"}})
	c.Completed(Report{Index: 1, Bound: []string{"x", "y"}})
	r := request("{m} is so", num("m", "1"))
	r.Statement, r.Line = 2, 3
	w.mustBind(c, r)
	c.Completed(Report{Index: 2})
	c.Completed(Report{Index: 3, Bound: []string{"z"}})
	c.End("ok")
	got, err := json.Marshal(w.g.Export().Untracked)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"turn":7,"line":2,"construct":"eval()","name":"x"},` +
		`{"turn":7,"line":2,"construct":"eval()","name":"y"},` +
		`{"turn":7,"line":3,"construct":"__dict__","name":"m"},` +
		`{"turn":7,"line":0,"construct":"the cell was not analysed","name":"z"}]`
	e := w.g.Export()
	if under := e.UntrackedUnder("c1"); len(under) != 2 || under[0].Name != "x" || under[1].Name != "m" {
		t.Errorf("the claim rests on untracked %v, want x and m", under)
	}
	if string(got) != want {
		t.Errorf("untracked:\n%s, want\n%s", got, want)
	}
}
