package evidence

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{m:.2f}", "{{x}}", "{a[b].c!r:{w}.{p}}", "}", "{", "{a[}", "{a!", "{a:{", "\xff{é}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parts, err := parseTemplate(s)
		if err != nil {
			return
		}
		literals := 0
		for i, p := range parts {
			if p.field == nil {
				literals += len(p.literal)
				if p.literal == "" || i > 0 && parts[i-1].field == nil {
					t.Errorf("%q: empty or split literal", s)
				}
				continue
			}
			if p.field.name == "" || !strings.Contains(s, p.field.name) {
				t.Errorf("%q: field %q", s, p.field.name)
			}
			p.field.printsDigits(KindNumber, func(string) string { return "0" })
		}
		if literals > len(s) {
			t.Errorf("%q: literals of %d bytes", s, literals)
		}
	})
}

func FuzzNumbers(f *testing.F) {
	for _, c := range numberCases {
		f.Add(c.text, strings.Join(c.premises, " "))
	}
	f.Fuzz(func(t *testing.T, text, premise string) {
		if len(text) > 500 || len(premise) > 500 {
			return
		}
		for _, n := range allRules.scan(text) {
			if n.start < 0 || n.end > len(text) || n.start >= n.end || text[n.start:n.end] != n.text || len(n.readings) == 0 {
				t.Fatalf("%q: number %+v", text, n)
			}
		}
		if got := NewNumbers(text, []string{text}, ""); got != nil {
			t.Errorf("%q states numbers that it does not hold: %q", text, got)
		}
		NewNumbers(text, []string{premise}, premise)
	})
}

func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"a":{"statements":[{"reads":["x"],"writes":["y"]}]},"r":{"bound":["y"]},"b":{"template":"{m}","fields":[{"name":"m","text":"1"}],"values":[{"name":"m","kind":"number"}]},"i":{"premises":["c1"],"conclusion":"It is so.","reasoning":"The premise says 1, so."},"s":{"claims":["c2"]}}`))
	f.Add([]byte(`{"a":{"statements":[{"line":1,"files":["a.csv"],"taints":["exec"],"calls":[{"primitive":"bind","template":"{m}"}]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in struct {
			A    Analysis
			R    Report
			B    BindRequest
			I    InferRequest
			S    SubmitRequest
			Code string
		}
		if json.Unmarshal(data, &in) != nil {
			return
		}
		g := New(Task{Question: question, Sources: []Source{{Name: "a.csv"}}}, Defaults())
		for turn := range 2 {
			c := g.Begin(turn, in.Code, in.A)
			_, text, refusal := c.Bind(in.B)
			if refusal == nil && !utf8.ValidString(text) {
				t.Errorf("claim text %q", text)
			}
			c.Completed(in.R)
			c.Infer(in.I)
			c.Submit(in.S)
			c.Taint(in.R.Index, in.Code)
			c.End("ok")
		}
		e := g.Export()
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		stored, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Export
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(back); string(again) != string(stored) {
			t.Error("the export changed on its way through JSON")
		}
		e.Mermaid()
		e.DOT()
	})
}
