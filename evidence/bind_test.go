package evidence

import (
	"strings"
	"testing"
)

func TestBindRefusesByRule(t *testing.T) {
	t.Parallel()
	kind := func(k string) value { return value{Value{Name: "m", Kind: k}, "x"} }
	date := value{Value{Name: "m", Kind: KindDate}, "34"}
	m := num("m", "34.65")
	for _, c := range []struct {
		rule string
		r    BindRequest
	}{
		{"bind_empty_template", request("  ", m)},
		{"bind_no_placeholder", request("The mean is 34.65.")},
		{"bind_no_placeholder", request("{{m}}", m)},
		{"bind_positional", request("{}", m)},
		{"bind_positional", request("{0:.2f}", m)},
		{"bind_template_syntax", request("{m", m)},
		{"bind_template_syntax", request("m}", m)},
		{"bind_template_syntax", request("{m!x}", m)},
		{"bind_template_syntax", request("{m[}", m)},
		{"bind_template_syntax", request("{m:{w:{p}}}", m)},
		{"bind_missing_value", request("{m:.2f}", num("mean", "34.65"))},
		{"bind_missing_value", request("{m:{w}}", m)},
		{"bind_claim_value", request("{m}", kind(KindClaim))},
		{"bind_table_value", request("{m}", kind(KindTable))},
		{"bind_table_value", request("{m}", m, value{Value{Name: "df", Kind: KindTable}, ""})},
		{"bind_value_kind", request("{m}", kind("weird"))},
		{"bind_fields", BindRequest{Template: "{m}", Values: []Value{m.Value}}},
		{"bind_fields", BindRequest{Template: "{m}", Values: []Value{m.Value}, Fields: []Field{{Name: "n"}}}},
		{"bind_characters", request("{m} \u200b", m)},
		{"bind_characters", request("{m} \x07", m)},
		{"bind_characters", request("{m} ３４", m)},
		{"bind_characters", request("{m} \u202e", m)},
		{"bind_characters", request("{m} fаre", m)}, // the a is Cyrillic
		{"bind_characters", request("{m} \xff", m)},
		{"bind_text_encoding", request("{m}", str("m", "\xff"))},
		{"bind_empty_text", request("{m}", str("m", " "))},
		{"bind_claim_length", request("{m}", str("m", strings.Repeat("x", 3000)))},
		{"bind_claim_length", request("{m}"+strings.Repeat("x", 5000), m)},
		{"bind_too_many_placeholders", request(strings.Repeat("{m}", 201), m)},
		{"bind_nested_spec", request("{m:{w}}", m, str("w", "3"))},
		{"bind_spec_digits", request("{m:3>9}", m)},
		{"bind_spec_digits", request("{m:<09}", m)},
		{"bind_spec_digits", request("{m:09}", str("m", "3"))},
		{"bind_spec_digits", request("{m:34.65}", date)},
		{"bind_spec_digits", request("{m:{w}<9}", m, num("w", "3"))},
		{"bind_own_type", request("{m}", value{Value{Name: "m", Kind: KindOther, Type: "__main__.N"}, "34.65"})},
		{"bind_own_type", request("{m}", value{Value{Name: "m", Kind: KindList, Type: "__main__.L"}, "34.65"})},
		{"bind_own_type", request("{m.mean}", value{Value{Name: "m", Kind: KindOther, Type: "some.Result"}, "34.65"})},
		{"bind_own_type", request("{m}", value{Value{Name: "m", Kind: KindOther, Type: "__main__.N"}, "seventeen"})},
	} {
		w := newWorld(t)
		w.do("bind", Statement{}, nil, func(cell *Cell) {
			id, text, refusal := cell.Bind(c.r)
			if refusal == nil || refusal.Rule != c.rule || refusal.Message == "" || id != "" || text != "" {
				t.Errorf("%q: got %q, %v, want %s", c.r.Template, id, refusal, c.rule)
			}
		})
		e := w.g.Export()
		if len(e.Refusals) != 1 || e.Refusals[0].Rule != c.rule || e.Refusals[0].Primitive != "bind" {
			t.Errorf("%q: refusals are %+v", c.r.Template, e.Refusals)
		}
		if len(w.g.Claims()) != 0 || len(e.Edges) != 0 {
			t.Errorf("%q: a refused request left something in the graph", c.r.Template)
		}
	}
}

func TestBindAcceptsWhatPythonFormats(t *testing.T) {
	t.Parallel()
	m := num("m", "34.65")
	for template, want := range map[string]string{
		"{m:.2f}": "34.65", "{{{m}}}": "{34.65}", "{m!r:>10}": "34.65", "{m:,.1%}": "34.65", "{m:+08.3f}": "34.65",
		"{m.real}": "34.65", "{m[a b].x}": "34.65", "{m:{w}}": "34.65", "R² of μ: {m}\n": "R² of μ: 34.65\n",
		"{m:0>5}": "34.65",
	} {
		w := newWorld(t)
		w.do("bind", Statement{}, nil, func(c *Cell) {
			if _, text, refusal := c.Bind(request(template, m, num("w", "8"))); refusal != nil || text != want {
				t.Errorf("%q: %q, %v", template, text, refusal)
			}
		})
	}
}

func TestDateKeepsItsPattern(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("bind", Statement{}, nil, func(c *Cell) {
		w.mustBind(c, request("{d:%Y-%m-%d}", value{Value{Name: "d", Kind: KindDate}, "2015-03-01"}))
	})
}

func TestClaimAndNodeLimitsRefuse(t *testing.T) {
	t.Parallel()
	for rule, change := range map[string]func(*Config){
		"claim_limit": func(c *Config) { c.MaxClaims = 3 },
		"node_limit":  func(c *Config) { c.MaxNodes = 9 },
	} {
		cfg := Defaults()
		change(&cfg)
		g := New(Task{}, cfg)
		c := g.Begin(0, "", Analysis{Statements: []Statement{{}}})
		var last *Refusal
		for range 20 {
			_, _, last = c.Bind(request("{m}", num("m", "1")))
		}
		if last == nil || last.Rule != rule {
			t.Errorf("refusal is %v, want %s", last, rule)
		}
		if e := g.Export(); len(e.Nodes) > cfg.MaxNodes || len(g.Claims()) > cfg.MaxClaims {
			t.Errorf("%s: %d nodes, %d claims", rule, len(e.Nodes), len(g.Claims()))
		}
	}
}

func TestRefusalsKeptForAuditAreBounded(t *testing.T) {
	t.Parallel()
	g := New(Task{}, Defaults())
	c := g.Begin(0, "", Analysis{})
	for range 2 * maxRefusals {
		c.Bind(BindRequest{})
		c.Taint(0, "x")
	}
	if e := g.Export(); len(e.Refusals) != maxRefusals || len(e.Taints) != 1 {
		t.Errorf("%d refusals, %d taints", len(e.Refusals), len(e.Taints))
	}
}
