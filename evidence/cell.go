package evidence

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cell is one turn's code while it runs. Its methods answer the session (see sandbox.Host); after
// End every request is refused and every report ignored.
type Cell struct {
	g          *Graph
	turn       int
	lines      []string
	statements []Statement
	info       int // index into g.cells
	// next is the statement in progress: all before it are done.
	next int
	// entered is the number of statements whose static taints took effect.
	entered int
	ended   bool
	// wide caches what statement wideOf reads.
	wide   *deps
	wideOf int
}

// Begin starts a cell. An analysis without statements (it failed, or the code does not parse)
// makes everything that the cell does untracked.
func (g *Graph) Begin(turn int, code string, a Analysis) *Cell {
	code = strings.ToValidUTF8(code, "\uFFFD")
	g.cells = append(g.cells, CellInfo{Turn: turn, Code: code, Statements: len(a.Statements)})
	return &Cell{
		g: g, turn: turn, statements: a.Statements, info: len(g.cells) - 1,
		lines: strings.Split(code, "\n"),
	}
}

// enter applies the static taints of the statements up to the one in progress.
func (c *Cell) enter() {
	for ; c.entered <= c.next && c.entered < len(c.statements); c.entered++ {
		for _, construct := range c.statements[c.entered].Taints {
			c.taint(c.entered, construct)
		}
	}
}

// Completed reports that a top-level statement ended without an exception.
func (c *Cell) Completed(r Report) {
	if c.ended || r.Index < c.next {
		c.g.flag("late_report")
		return
	}
	for c.next < r.Index && c.next < len(c.statements) {
		// A session that skips a report hides what the statement did.
		c.g.flag("skipped_report")
		c.abandon()
		c.next++
	}
	c.enter()
	c.apply(r)
	if c.next < len(c.statements) {
		c.next++
	}
	c.g.cells[c.info].Completed++
}

// End closes the cell with its outcome (trajectory.CellStatus, "ok" when nothing raised).
func (c *Cell) End(status string) {
	if c.ended {
		return
	}
	c.ended = true
	c.g.cells[c.info].Status = status
	if c.next < len(c.statements) && status != "syntax_error" {
		c.enter()
		c.abandon()
	}
}

// apply moves the names on after the statement in progress completed.
func (c *Cell) apply(r Report) {
	g := c.g
	bound, unbound := nameSet(r.Bound), nameSet(r.Unbound)
	if c.next >= len(c.statements) {
		c.surprise(bound, deps{}, "the cell was not analysed")
		g.drop(unbound)
		return
	}
	st := &c.statements[c.next]
	d := g.statementDeps(st, r.Opened, false)
	made := map[string]bool{}
	flows := g.flows(st, d)
	for _, name := range effects(st) {
		made[name] = true
		if old, exists := g.current[name]; bound[name] || exists && !unbound[name] {
			from, narrow := flows[name]
			if !narrow {
				from = d
			}
			c.version(name, from, survival(st, name, bound[name], old, exists))
		}
	}
	rest := map[string]bool{}
	for name := range bound {
		switch definition := st.Definitions[name]; {
		case made[name]:
		case definition != nil && string(definition) != "null":
			// An import: the pass knows it, and it is no data.
			delete(g.current, name)
		default:
			rest[name] = true
		}
	}
	c.surprise(rest, d, "bound in a way that the static pass did not see")
	c.writeFiles(st, d)
	for _, name := range st.Deletes {
		if !bound[name] {
			delete(g.current, name)
		}
	}
	g.drop(unbound)
	for key, value := range st.Definitions {
		if value == nil || string(value) == "null" {
			delete(g.definitions, key)
		} else {
			g.definitions[key] = value
		}
	}
}

// survival says how a name's earlier version stays among the inputs of its new one. A mutated
// object is still the old one. A name that may have been written and that the session does not
// report as rebound kept its value. One that was rebound has lost it: the edge then only shows the
// history, else a constant assigned inside `if True:` would inherit the ground of what it replaced.
func survival(st *Statement, name string, bound bool, old int, exists bool) []input {
	if !exists {
		return nil
	}
	switch {
	case slices.Contains(st.Mutates, name) && !(bound && rebinds(st, name)):
		return []input{{node: old, kind: EdgeCompute}}
	case slices.Contains(st.MaybeWrites, name) && !bound:
		return []input{{node: old, kind: EdgeCompute}}
	case slices.Contains(st.MaybeWrites, name):
		return []input{{node: old, kind: EdgeControl}}
	}
	return nil
}

func rebinds(st *Statement, name string) bool {
	return slices.Contains(st.Writes, name) || slices.Contains(st.MaybeWrites, name)
}

// abandon handles the statement in progress when it raised. What it may have rebound before that gets
// a new version that is grounded by what the statement reads alone, since the old value may be gone.
// What it may have changed in place is still the old object. A simple statement binds at its very
// end, so it bound nothing.
func (c *Cell) abandon() {
	st := &c.statements[c.next]
	d := c.g.statementDeps(st, nil, false)
	simple := c.simple(st)
	flows := c.g.flows(st, d)
	for _, name := range append(effects(st), raisedOnly(st)...) {
		old, exists := c.g.current[name]
		_, raised := st.Raised[name]
		rebound := raised || slices.Contains(st.MaybeWrites, name) || rebinds(st, name) && !simple
		switch {
		case rebound && exists:
			c.version(name, d, []input{{node: old, kind: EdgeControl}})
		case rebound:
			c.version(name, d, nil)
		case exists && slices.Contains(st.Mutates, name):
			from, narrow := flows[name]
			if !narrow {
				from = d
			}
			c.version(name, from, []input{{node: old, kind: EdgeCompute}})
		}
	}
	c.writeFiles(st, d)
	c.halfDefined(st, simple)
}

// halfDefined brings the pass's own state on after a statement that raised: what it may have bound is
// known no more, what it may have changed or defined besides is taken as changed and defined.
func (c *Cell) halfDefined(st *Statement, simple bool) {
	for key, value := range st.Definitions {
		if !simple && value != nil && string(value) != "null" {
			c.g.definitions[key] = value
		}
	}
	maps.Copy(c.g.definitions, st.Raised)
}

// raisedOnly are the names of st.Raised that are not among its effects, sorted.
func raisedOnly(st *Statement) []string {
	var out []string
	for name := range st.Raised {
		if !rebinds(st, name) && !slices.Contains(st.Mutates, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// version makes a new version of a name.
func (c *Cell) version(name string, d deps, extra []input) {
	g := c.g
	if !identifier(name) {
		return
	}
	if g.full(2) {
		// Without a node the name must not keep the ground of its old value.
		delete(g.current, name)
		g.flag("node_limit")
		return
	}
	c.untracked(name, d)
	g.versions[name]++
	v := g.versions[name]
	g.current[name] = g.add(Node{
		ID: versionID(name, v), Kind: NodeVariable, Turn: c.turn, Statement: c.next,
		Name: name, Version: v, Untracked: d.untracked,
	}, mergeInputs(c.inputs(d), extra))
}

// untracked lists a value whose inputs can't be decided.
func (c *Cell) untracked(name string, d deps) {
	if d.untracked == "" || len(c.g.untracked) >= maxUntracked {
		return
	}
	mark := UntrackedMark{Turn: c.turn, Construct: d.untracked, Name: name}
	if c.next < len(c.statements) {
		mark.Line = c.statements[c.next].Line
	}
	c.g.untracked = append(c.g.untracked, mark)
}

// surprise makes untracked versions of names that the session reports and the static pass doesn't.
func (c *Cell) surprise(names map[string]bool, d deps, reason string) {
	if d.untracked == "" {
		d.untracked = reason
	}
	for _, name := range sortedNames(names) {
		c.version(name, d, nil)
	}
}

func (g *Graph) drop(names map[string]bool) {
	for name := range names {
		delete(g.current, name)
	}
}

// effects are the names that a statement writes or mutates, each once, in source order.
func effects(st *Statement) []string {
	var out []string
	seen := map[string]bool{}
	for _, list := range [][]string{st.Writes, st.MaybeWrites, st.Mutates} {
		for _, name := range list {
			if !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	return out
}

// simple reports whether a statement binds its targets only at its very end, if at all: then what
// it reads are the versions before it, and when it raises nothing was bound.
func (c *Cell) simple(st *Statement) bool {
	if st.Line < 1 || st.Line > len(c.lines) {
		return false
	}
	first := strings.TrimLeft(c.lines[st.Line-1], " \t\f")
	word := first
	if end := strings.IndexFunc(first, func(r rune) bool { return !unicode.IsLetter(r) }); end >= 0 {
		word = first[:end]
	}
	switch word {
	case "for", "while", "if", "with", "try", "match", "async", "class", "def":
		return false
	}
	for i := st.Line - 1; i < min(max(st.EndLine, st.Line), len(c.lines)); i++ {
		if strings.Contains(c.lines[i], ":=") {
			return false
		}
	}
	return !strings.HasPrefix(first, "@")
}

func nameSet(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

func sortedNames(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for name := range set {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// identifier keeps names that a session reports from breaking node ids.
func identifier(name string) bool {
	if name == "" || len(name) > 255 || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			return false
		}
	}
	return true
}
