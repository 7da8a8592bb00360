package evidence

import (
	"slices"
	"strings"
	"testing"
)

const question = "What is the mean fare? Use alpha = 0.05. Report @mean_fare[value]."

// world drives a graph as a session does: one cell per call, one statement per cell.
type world struct {
	t    *testing.T
	g    *Graph
	turn int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, g: New(Task{Question: question, Sources: []Source{
		{Name: "a.csv", SHA256: "aa"}, {Name: "b.csv", SHA256: "bb"},
	}}, Defaults())}
}

// do runs one statement that completes: during runs while it does, bound are the names that the
// session reports afterwards.
func (w *world) do(code string, st Statement, bound []string, during func(c *Cell)) {
	w.t.Helper()
	if st.Line == 0 {
		st.Line, st.EndLine = 1, 1
	}
	c := w.g.Begin(w.turn, code, Analysis{Statements: []Statement{st}})
	w.turn++
	if during != nil {
		during(c)
	}
	c.Completed(Report{Bound: bound})
	c.End("ok")
}

// load makes df@1 from a.csv.
func (w *world) load() {
	w.do(`df = pd.read_csv("a.csv")`, Statement{Writes: []string{"df"}, Files: []string{"a.csv"}}, []string{"df"}, nil)
}

// constant makes name@1 from nothing.
func (w *world) constant(name string) {
	w.do(name+" = 34.65", Statement{Writes: []string{name}}, []string{name}, nil)
}

// value is a value together with its rendered text.
type value struct {
	Value
	text string
}

func num(name, text string) value {
	return value{Value{Name: name, Kind: KindNumber, Type: "float", Repr: text}, text}
}

func str(name, text string) value {
	return value{Value{Name: name, Kind: KindString, Type: "str", Repr: "'" + text + "'"}, text}
}

// request renders a template as the session would.
func request(template string, values ...value) BindRequest {
	r := BindRequest{Template: template, Line: 1}
	texts := map[string]string{}
	for _, v := range values {
		r.Values = append(r.Values, v.Value)
		texts[v.Name] = v.text
	}
	parts, err := parseTemplate(template)
	if err != nil {
		return r
	}
	for _, f := range topFields(parts) {
		r.Fields = append(r.Fields, Field{Name: f.name, Text: texts[f.name]})
	}
	return r
}

// call is the static pass's view of a bind call whose arguments read one name each.
func call(template string, reads map[string]string) PrimitiveCall {
	c := PrimitiveCall{Primitive: "bind", Line: 1, EndLine: 1, Template: &template}
	for name, read := range reads {
		a := Argument{Name: name, Expression: "f(" + read + ")"}
		if read != "" {
			a.Reads = []string{read}
		}
		c.Arguments = append(c.Arguments, a)
	}
	slices.SortFunc(c.Arguments, func(a, b Argument) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// bind makes a claim in a cell of its own, whose statement is st.
func (w *world) bind(st Statement, r BindRequest) string {
	w.t.Helper()
	var id string
	w.do("bind(...)", st, nil, func(c *Cell) { id = w.mustBind(c, r) })
	return id
}

func (w *world) mustBind(c *Cell, r BindRequest) string {
	w.t.Helper()
	id, _, refusal := c.Bind(r)
	if refusal != nil {
		w.t.Fatalf("bind %q: %s: %s", r.Template, refusal.Rule, refusal.Message)
	}
	return id
}

// mean binds {m} to an expression over name.
func (w *world) mean(name string) string {
	w.t.Helper()
	return w.bind(Statement{Reads: []string{name}, Calls: []PrimitiveCall{call("The mean is {m}.", map[string]string{"m": name})}},
		request("The mean is {m}.", num("m", "34.65")))
}

func (w *world) infer(r InferRequest) (string, *Refusal) {
	w.t.Helper()
	var id string
	var refusal *Refusal
	w.do("infer(...)", Statement{}, nil, func(c *Cell) { id, _, refusal = c.Infer(r) })
	return id, refusal
}

func (w *world) submit(ids ...string) *Refusal {
	w.t.Helper()
	var refusal *Refusal
	w.do("submit_answer(...)", Statement{}, nil, func(c *Cell) { refusal = c.Submit(SubmitRequest{Claims: ids}) })
	return refusal
}

// grounding submits one claim and returns its grounding; the export must validate.
func (w *world) grounding(id string) ClaimGrounding {
	w.t.Helper()
	if refusal := w.submit(id); refusal != nil {
		w.t.Fatalf("submit: %s", refusal.Message)
	}
	e := w.g.Export()
	if err := e.Validate(); err != nil {
		w.t.Fatalf("export: %v", err)
	}
	return e.Grounding[0]
}

func (w *world) wantStructural(id string, want bool) {
	w.t.Helper()
	if g := w.grounding(id); *g.Structural != want {
		w.t.Errorf("S(%s) = %v (%s), want %v", id, *g.Structural, g.Why, want)
	}
}

// inputsOf lists the edges into a node as "kind from".
func (w *world) inputsOf(id string) []string {
	var out []string
	for _, e := range w.g.Export().Edges {
		if e.To == id {
			out = append(out, string(e.Kind)+" "+e.From)
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) wantInputs(id string, want ...string) {
	w.t.Helper()
	if got := w.inputsOf(id); !slices.Equal(got, want) {
		w.t.Errorf("inputs of %s are %q, want %q", id, got, want)
	}
}

func (w *world) wantNode(id string, want bool) Node {
	w.t.Helper()
	e := w.g.Export()
	n, ok := e.Node(id)
	if ok != want {
		w.t.Errorf("node %s exists: %v, want %v", id, ok, want)
	}
	return n
}
