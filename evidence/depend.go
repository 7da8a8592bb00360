package evidence

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// deps is what a statement or an expression depends on, resolved to nodes.
type deps struct {
	compute []int
	control []int
	// untracked says why the inputs can't be decided.
	untracked string

	seen map[input]bool
}

func (d *deps) use(node int)        { d.once(&d.compute, input{node: node, kind: EdgeCompute}) }
func (d *deps) useControl(node int) { d.once(&d.control, input{node: node, kind: EdgeControl}) }

func (d *deps) once(list *[]int, in input) {
	if d.seen == nil {
		d.seen = map[input]bool{}
	}
	if !d.seen[in] {
		d.seen[in] = true
		*list = append(*list, in.node)
	}
}

// join adds another set of dependencies.
func (d *deps) join(other deps) {
	for _, node := range other.compute {
		d.use(node)
	}
	for _, node := range other.control {
		d.useControl(node)
	}
	if other.untracked != "" {
		d.distrust(other.untracked)
	}
}

func (d *deps) distrust(reason string) {
	if d.untracked == "" {
		d.untracked = reason
	}
}

// statementDeps resolves all that a statement reads. opened are the task files that the session
// saw opened; running means that the statement has not ended, so that nothing was reported yet.
func (g *Graph) statementDeps(st *Statement, opened []string, running bool) deps {
	var d deps
	g.readNames(&d, st.Reads, st.Control)
	g.readFiles(&d, st.Files, st.WrittenFiles, opened)
	g.readFiles(&d, opened, st.WrittenFiles, opened)
	g.listFiles(&d, st.FilePatterns)
	if st.DynamicFiles && (running || len(opened) == 0) {
		g.readAnything(&d)
	}
	if len(st.Untracked) > 0 {
		d.distrust(short(strings.Join(st.Untracked, "; ")))
	}
	return d
}

// flows resolves what flows into the single names that a statement binds or changes. All else that the statement
// reads shows as control: it may still decide what is bound.
func (g *Graph) flows(st *Statement, d deps) map[string]deps {
	if len(st.Flows) == 0 {
		return nil
	}
	out := make(map[string]deps, len(st.Flows))
	for name, flow := range st.Flows {
		into := map[int]bool{}
		for _, read := range flow.Reads {
			if node, ok := g.current[read]; ok {
				into[node] = true
			}
		}
		narrow := deps{untracked: d.untracked}
		for _, node := range d.compute {
			if into[node] || flow.Files && g.isFile(node) {
				narrow.use(node)
			} else {
				narrow.useControl(node)
			}
		}
		for _, node := range d.control {
			narrow.useControl(node)
		}
		out[name] = narrow
	}
	return out
}

// isFile reports whether a node stands for a file: a source, or one that the trajectory wrote.
func (g *Graph) isFile(node int) bool {
	n := &g.nodes[node]
	return n.Kind == NodeSource || g.written[strings.TrimPrefix(n.Name, "written:")] == node && strings.HasPrefix(n.Name, "written:")
}

// argumentDeps resolves what one keyword argument of a bind call reads.
func (g *Graph) argumentDeps(st *Statement, arg *Argument) deps {
	var d deps
	g.readNames(&d, arg.Reads, arg.Control)
	if arg.Variable != "" {
		g.readNames(&d, []string{arg.Variable}, nil)
	}
	g.readFiles(&d, arg.Files, st.WrittenFiles, nil)
	g.listFiles(&d, arg.FilePatterns)
	if arg.DynamicFiles {
		g.readAnything(&d)
	}
	if arg.Untracked {
		d.distrust("the expression can't be decided")
	}
	if len(st.Untracked) > 0 {
		d.distrust(short(strings.Join(st.Untracked, "; ")))
	}
	return d
}

func (g *Graph) readNames(d *deps, reads, control []string) {
	for _, name := range reads {
		if node, ok := g.current[name]; ok {
			d.use(node)
		}
	}
	for _, name := range control {
		if node, ok := g.current[name]; ok {
			d.useControl(node)
		}
	}
}

// readFiles resolves file names. A file that the trajectory wrote is no source, whatever its name;
// one that the same statement writes could be either, and is not trusted. Once the trajectory wrote
// files under names that nobody knows, any name may be one of them, wherever it now points, unless the
// session saw the data file itself opened.
func (g *Graph) readFiles(d *deps, files, writes, opened []string) {
	for _, file := range files {
		base := baseName(file)
		if slices.ContainsFunc(writes, func(w string) bool { return baseName(w) == base }) {
			d.distrust("reads and writes " + short(base) + " in one statement")
			continue
		}
		if node, ok := g.written[base]; ok {
			d.use(node)
			continue
		}
		sources := g.sourcesNamed(file)
		for _, node := range sources {
			d.use(node)
		}
		seen := slices.ContainsFunc(opened, func(o string) bool { return baseName(o) == base })
		if g.wroteUnknown && !seen {
			d.distrust("reads " + short(base) + ", which the trajectory may have written")
		}
	}
}

// readAnything is a read whose file can't be seen: it depends on the whole data directory, unless
// the trajectory has files of its own that it could be reading.
func (g *Graph) readAnything(d *deps) {
	for _, node := range g.sources {
		d.use(node)
	}
	if g.wroteUnknown || len(g.written) > 0 {
		d.distrust("reads a file that the trajectory may have written")
	}
}

// listFiles resolves patterns to the sources whose names they list. A file of the trajectory's own among them is no source.
func (g *Graph) listFiles(d *deps, patterns []string) {
	for _, pattern := range patterns {
		for _, node := range g.sources {
			if matches(pattern, baseName(g.nodes[node].Name)) {
				d.use(node)
			}
		}
		own := g.wroteUnknown
		for name := range g.written {
			own = own || matches(pattern, name)
		}
		if own {
			d.distrust("lists a file that the trajectory may have written")
		}
	}
}

// matches reports whether a file of this name may be listed under a pattern; one that can't be read lists all.
func matches(pattern, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), name)
	return ok || err != nil
}

// sourcesNamed finds the source of exactly that path, else all of that base name.
func (g *Graph) sourcesNamed(file string) []int {
	clean := path.Clean(strings.ReplaceAll(file, "\\", "/"))
	var byBase []int
	for _, node := range g.sources {
		name := g.nodes[node].Name
		if name == clean || name == file {
			return []int{node}
		}
		if baseName(name) == baseName(file) {
			byBase = append(byBase, node)
		}
	}
	return byBase
}

// writeFiles records what a statement wrote: a later read depends on what the statement read. The
// file's earlier content may remain (append), which shows as a control edge and does not ground.
func (c *Cell) writeFiles(st *Statement, d deps) {
	g := c.g
	if st.DynamicWrites {
		g.wroteUnknown = true
	}
	for _, file := range st.WrittenFiles {
		name := "written:" + short(baseName(file))
		if g.full(2) {
			g.wroteUnknown = true
			g.flag("node_limit")
			return
		}
		var extra []input
		if old, ok := g.written[baseName(file)]; ok {
			extra = []input{{node: old, kind: EdgeControl}}
		}
		g.versions[name]++
		v := g.versions[name]
		g.written[baseName(file)] = g.add(Node{
			ID: versionID(name, v), Kind: NodeVariable, Turn: c.turn, Statement: c.next,
			Name: name, Version: v, Untracked: d.untracked,
		}, mergeInputs(c.inputs(d), extra))
	}
}

// hubFan is the number of inputs from which on a set of inputs gets a node of its own. It keeps
// edges linear in nodes: a statement that reads 100 names and writes 100 has 200 edges, not 10,000.
const hubFan = 16

// inputs turns dependencies into edges.
func (c *Cell) inputs(d deps) []input {
	var out []input
	for _, node := range c.hub(d.compute) {
		out = append(out, input{node: node, kind: EdgeCompute})
	}
	var control []input
	for _, node := range c.hub(d.control) {
		control = append(control, input{node: node, kind: EdgeControl})
	}
	return mergeInputs(out, control)
}

func (c *Cell) hub(nodes []int) []int {
	g := c.g
	if len(nodes) <= hubFan || g.full(3) {
		return nodes
	}
	var key strings.Builder
	for _, node := range nodes {
		key.WriteString(strconv.Itoa(node))
		key.WriteByte(' ')
	}
	hub, ok := g.hubs[key.String()]
	if !ok {
		inputs := make([]input, len(nodes))
		for i, node := range nodes {
			inputs[i] = input{node: node, kind: EdgeCompute}
		}
		hub = g.add(Node{
			ID: g.valueID(), Kind: NodeValue, Turn: c.turn, Statement: c.next,
			Name: "inputs", Expression: "all that the statement reads",
		}, inputs)
		g.hubs[key.String()] = hub
	}
	return []int{hub}
}

// mergeInputs adds inputs that are not there yet; compute wins over control.
func mergeInputs(inputs, extra []input) []input {
	for _, in := range extra {
		at := slices.IndexFunc(inputs, func(o input) bool { return o.node == in.node })
		switch {
		case at < 0:
			inputs = append(inputs, in)
		case in.kind == EdgeCompute:
			inputs[at].kind = EdgeCompute
		}
	}
	return inputs
}

func versionID(name string, version int) string { return name + "@" + strconv.Itoa(version) }

func baseName(file string) string {
	return path.Base(strings.ReplaceAll(strings.ToValidUTF8(file, "\uFFFD"), "\\", "/"))
}

// short bounds text that goes into a node or a message.
func short(s string) string {
	const limit = 200
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
