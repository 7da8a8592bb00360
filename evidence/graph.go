package evidence

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
)

// Source is a file of the task's data directory.
type Source struct {
	// Name is the file's path inside the data directory.
	Name   string
	SHA256 string
}

// Task is what the graph must know of a prompt.
type Task struct {
	// Question is the whole task text as the policy saw it, constraints and format included:
	// numbers that stand in it are given.
	Question string
	Sources  []Source

	given *givenNumbers
}

// Shared is the same task with the numbers of its question read only once, for all graphs that are made
// of the copy: a question may be long, and a group makes a graph per member. Safe for concurrent use.
func (t Task) Shared() Task {
	t.given = readOnce(t.Question)
	return t
}

// givenNumbers are the numbers of a question, read when they are first needed.
type givenNumbers struct {
	// excused excuse a number in a text; bound, more narrowly, a bound value.
	excused, bound func() *numberPool
}

func readOnce(question string) *givenNumbers {
	return &givenNumbers{
		excused: sync.OnceValue(func() *numberPool { return allRules.pool(nil, question, "") }),
		bound:   sync.OnceValue(func() *numberPool { return givenRules.pool(nil, question, "") }),
	}
}

// ClaimText is a claim as the observation lists it.
type ClaimText struct {
	ID, Text string
	Kind     NodeKind
}

// Caps of what is kept for audit only, so that a hostile session cannot grow it without end.
const (
	maxRefusals   = 500
	maxFlags      = 500
	maxTaintMarks = 200
	maxUntracked  = 500
)

// Graph is the evidence DAG of one trajectory.
type Graph struct {
	task Task
	cfg  Config

	nodes []Node
	edges []Edge
	// grounded runs beside nodes; see the package's invariants.
	grounded []bool
	claims   map[string]int // claim id -> node
	sources  []int          // nodes of the sources, in task order

	current  map[string]int // name -> node of its current version
	versions map[string]int // name -> last version given; survives del and a lost namespace
	values   int            // value nodes made
	// written holds the files that the trajectory wrote itself, by base name.
	written map[string]int
	// wroteUnknown: some file was written under a name that is not known statically.
	wroteUnknown bool
	hubs         map[string]int // joined inputs -> node that stands for them
	definitions  map[string]json.RawMessage

	tainted    bool
	submitted  []string
	submitTurn int
	cells      []CellInfo
	refusals   []Refused
	taints     []TaintMark
	untracked  []UntrackedMark
	flags      []string
}

// New returns a graph that holds the task's sources only. The zero Config means Defaults.
func New(task Task, cfg Config) *Graph {
	if cfg == (Config{}) {
		cfg = Defaults()
	}
	if task.given == nil {
		task = task.Shared()
	}
	g := &Graph{
		task: task, cfg: cfg, submitTurn: -1,
		claims:      map[string]int{},
		current:     map[string]int{},
		versions:    map[string]int{},
		written:     map[string]int{},
		hubs:        map[string]int{},
		definitions: map[string]json.RawMessage{},
	}
	seen := map[string]bool{}
	for _, source := range task.Sources {
		if seen[source.Name] {
			continue
		}
		seen[source.Name] = true
		g.sources = append(g.sources, len(g.nodes))
		g.nodes = append(g.nodes, Node{
			ID: "file:" + source.Name, Kind: NodeSource, Turn: -1, Statement: -1,
			Name: source.Name, SHA256: source.SHA256,
		})
		g.grounded = append(g.grounded, true)
	}
	return g
}

// input is an edge into the node that is being added.
type input struct {
	node int
	kind EdgeKind
	role string
}

// add appends a node with all edges that will ever end in it: that, and inputs being nodes that
// exist, is what keeps the graph acyclic.
func (g *Graph) add(node Node, inputs []input) int {
	at := len(g.nodes)
	node.Tainted = g.tainted
	grounded := false
	for _, in := range inputs {
		if in.node >= at {
			continue
		}
		g.edges = append(g.edges, Edge{From: g.nodes[in.node].ID, To: node.ID, Kind: in.kind, Role: in.role})
		if in.kind == EdgeCompute || in.kind == EdgeGround {
			grounded = grounded || g.grounded[in.node]
		}
	}
	g.nodes = append(g.nodes, node)
	g.grounded = append(g.grounded, grounded && node.Untracked == "" && !node.Tainted)
	return at
}

// full reports whether another n nodes would exceed the cap.
func (g *Graph) full(n int) bool {
	return len(g.nodes)-len(g.sources)+n > g.cfg.MaxNodes
}

func (g *Graph) valueID() string {
	g.values++
	return "v" + strconv.Itoa(g.values)
}

func (g *Graph) flag(text string) {
	if len(g.flags) < maxFlags && !slices.Contains(g.flags, text) {
		g.flags = append(g.flags, text)
	}
}

// Definitions is the static pass's own state: what completed statements defined.
func (g *Graph) Definitions() map[string]json.RawMessage { return maps.Clone(g.definitions) }

// Submitted reports whether a submission was accepted.
func (g *Graph) Submitted() bool { return g.submitTurn >= 0 }

// Claims lists all claims in the order of their creation.
func (g *Graph) Claims() []ClaimText {
	out := make([]ClaimText, 0, len(g.claims))
	for i := range g.nodes {
		if n := &g.nodes[i]; n.isClaim() {
			out = append(out, ClaimText{ID: n.ID, Text: n.Text, Kind: n.Kind})
		}
	}
	return out
}

// ResetNamespace says that the session was lost and the next cell runs in a fresh one: names,
// definitions, scratch files and the taint of the old session are gone, nodes stay.
func (g *Graph) ResetNamespace() {
	clear(g.current)
	clear(g.definitions)
	clear(g.written)
	clear(g.hubs)
	g.wroteUnknown = false
	g.tainted = false
}

// Export returns the graph in its stored form. Later changes of the graph don't show in it.
func (g *Graph) Export() Export {
	e := Export{
		Schema:     Schema,
		Nodes:      slices.Clone(g.nodes),
		Edges:      append([]Edge{}, g.edges...),
		Submitted:  append([]string{}, g.submitted...),
		SubmitTurn: g.submitTurn,
		Cells:      append([]CellInfo{}, g.cells...),
		Refusals:   slices.Clone(g.refusals),
		Taints:     slices.Clone(g.taints),
		Untracked:  slices.Clone(g.untracked),
		Flags:      slices.Clone(g.flags),
	}
	if e.Nodes == nil {
		e.Nodes = []Node{}
	}
	e.Grounding = e.ComputeGrounding()
	return e
}
