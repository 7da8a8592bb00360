package evidence

import "slices"

// grounds finds what each placeholder's value came from.
//
// The request is matched to the statement's syntactic bind calls by literal template and keyword
// names; the caller's line only chooses among what is left, since it is the session's word. One
// match with visible arguments gives each placeholder its own expression's inputs. No match, or a
// call whose arguments can't be told apart, gives each placeholder all that the statement reads.
// When several calls remain, a placeholder is grounded only if it would be by each of them: if one
// would not ground it, that one's inputs are taken and the others' are kept as control edges.
func (c *Cell) grounds(r BindRequest, b *bound) []input {
	var out []input
	st := c.running(r.Statement)
	calls := c.matches(st, r)
	for _, name := range b.names {
		node := c.valueNode(st, calls, b.values[name])
		out = append(out, input{node: node, kind: EdgeGround, role: name})
	}
	return out
}

// running is the statement in progress, nil if the request does not come from it (a thread that
// outlived its statement, or a forged index) or the cell was not analysed.
func (c *Cell) running(statement int) *Statement {
	if c.next >= len(c.statements) {
		return nil
	}
	if statement != c.next {
		c.g.flag("statement_mismatch")
		return nil
	}
	return &c.statements[c.next]
}

// matches are the statement's bind calls that the request can have come from.
func (c *Cell) matches(st *Statement, r BindRequest) []*PrimitiveCall {
	if st == nil {
		return nil
	}
	var found, near []*PrimitiveCall
	for i := range st.Calls {
		call := &st.Calls[i]
		if call.Primitive != "bind" || call.Template != nil && *call.Template != r.Template {
			continue
		}
		if !call.Dynamic && !sameNames(call.Arguments, r.Values) {
			continue
		}
		found = append(found, call)
		if r.Line >= call.Line && r.Line <= max(call.EndLine, call.Line) {
			near = append(near, call)
		}
	}
	if len(near) > 0 {
		return near
	}
	return found
}

func sameNames(args []Argument, values []Value) bool {
	if len(args) != len(values) {
		return false
	}
	names := map[string]bool{}
	for _, a := range args {
		names[a.Name] = true
	}
	for _, v := range values {
		if !names[v.Name] {
			return false
		}
	}
	return len(names) == len(values)
}

// valueNode is the node that fills a placeholder: the variable itself for a bare name, else a value
// node. A constant gets a value node without inputs.
func (c *Cell) valueNode(st *Statement, calls []*PrimitiveCall, v Value) int {
	if len(calls) == 1 && !calls[0].Dynamic && len(st.Untracked) == 0 {
		arg := argument(calls[0], v.Name)
		if node, ok := c.g.current[arg.Variable]; ok && !c.rewritten(st, arg) && !arg.Untracked {
			return node
		}
	}
	d, expression := c.valueDeps(st, calls, v.Name)
	c.untracked(v.Name, d)
	return c.g.add(Node{
		ID: c.g.valueID(), Kind: NodeValue, Turn: c.turn, Statement: c.next,
		Name: v.Name, Expression: expression, Type: v.Type, ValueKind: v.Kind, Repr: v.Repr,
		Untracked: d.untracked,
	}, c.inputs(d))
}

func argument(call *PrimitiveCall, name string) *Argument {
	i := slices.IndexFunc(call.Arguments, func(a Argument) bool { return a.Name == name })
	if i < 0 {
		return &Argument{Name: name, Untracked: true}
	}
	return &call.Arguments[i]
}

// rewritten reports whether an argument reads a name that its own statement may have changed by
// then, as a loop does with its variables.
func (c *Cell) rewritten(st *Statement, arg *Argument) bool {
	if c.simple(st) {
		return false
	}
	changed := func(name string) bool { return slices.Contains(st.Mutates, name) || rebinds(st, name) }
	return changed(arg.Variable) || slices.ContainsFunc(arg.Reads, changed)
}

// valueDeps is what a placeholder's value depends on, by the rule that grounds states.
func (c *Cell) valueDeps(st *Statement, calls []*PrimitiveCall, name string) (deps, string) {
	if st == nil {
		return deps{untracked: "the request does not belong to an analysed statement"}, ""
	}
	if len(calls) == 0 {
		return c.wideDeps(st), ""
	}
	d, expression := c.callDeps(st, calls[0], name)
	if len(calls) == 1 {
		return d, expression
	}
	weakest := d
	weak := !c.g.wouldGround(d)
	for _, call := range calls[1:] {
		other, text := c.callDeps(st, call, name)
		if !weak && !c.g.wouldGround(other) {
			weakest, weak = other, true
		}
		if text != expression {
			expression = ""
		}
		d.join(other)
	}
	if !weak {
		return d, expression
	}
	out := deps{untracked: weakest.untracked}
	for _, node := range weakest.compute {
		out.use(node)
	}
	for _, list := range [][]int{weakest.control, d.compute, d.control} {
		for _, node := range list {
			out.useControl(node)
		}
	}
	return out, expression
}

func (c *Cell) callDeps(st *Statement, call *PrimitiveCall, name string) (deps, string) {
	if call.Dynamic {
		return c.wideDeps(st), ""
	}
	arg := argument(call, name)
	d := c.g.argumentDeps(st, arg)
	if c.rewritten(st, arg) {
		d.join(c.wideDeps(st))
	}
	return d, short(arg.Expression)
}

// wideDeps is all that the running statement reads, resolved once per statement: a loop may bind
// thousands of times.
func (c *Cell) wideDeps(st *Statement) deps {
	if c.wide == nil || c.wideOf != c.next {
		d := c.g.statementDeps(st, nil, true)
		d.compute, d.control = c.hub(d.compute), c.hub(d.control)
		c.wide, c.wideOf = &d, c.next
	}
	var d deps
	d.join(*c.wide)
	return d
}

func (g *Graph) wouldGround(d deps) bool {
	return d.untracked == "" && slices.ContainsFunc(d.compute, func(n int) bool { return g.grounded[n] })
}
