package evidence

// Schema is the version of the stored form that this package writes and reads.
const Schema = 1

// Export is the stable JSON form of a graph (schema 1). It is all that reward, replay, viewer and
// corpus builder ever see; nothing in it comes from the session unchecked.
type Export struct {
	Schema    int      `json:"schema"`
	Nodes     []Node   `json:"nodes"`
	Edges     []Edge   `json:"edges"`
	Submitted []string `json:"submitted"`
	// SubmitTurn is the turn of the accepted submission, -1 without one.
	SubmitTurn int        `json:"submit_turn"`
	Cells      []CellInfo `json:"cells"`
	Refusals   []Refused  `json:"refusals,omitempty"`
	// Taints are denied constructs seen, with the turn from which claims are not grounded.
	Taints []TaintMark `json:"taints,omitempty"`
	// Untracked are the values whose inputs can't be decided: what is bound to a name or a placeholder there
	// grounds nothing, and no edge that it misses counts as a missed one.
	Untracked []UntrackedMark `json:"untracked,omitempty"`
	// Flags are other observations (e.g. restated_premise, number_flagged).
	Flags []string `json:"flags,omitempty"`
	// Claims' grounding, for submitted claims only, in the order of Submitted.
	Grounding []ClaimGrounding `json:"grounding"`
}

// NodeKind is source, variable, value, atomic or derived.
type NodeKind string

// Node kinds. A value node is an expression bound by a claim's placeholder.
const (
	NodeSource   NodeKind = "source"
	NodeVariable NodeKind = "variable"
	NodeValue    NodeKind = "value"
	NodeAtomic   NodeKind = "atomic"
	NodeDerived  NodeKind = "derived"
)

// Node is one node. Fields apply by kind.
type Node struct {
	// ID: source "file:NAME", variable "NAME@VERSION", value "v3", claim "c1".
	ID   string   `json:"id"`
	Kind NodeKind `json:"kind"`
	// Turn and Statement locate the creation (-1, -1 for sources).
	Turn      int `json:"turn"`
	Statement int `json:"statement"`

	Name    string `json:"name,omitempty"`    // source, variable, value: the name
	Version int    `json:"version,omitempty"` // variable
	SHA256  string `json:"sha256,omitempty"`  // source
	// Untracked says why the node's inputs can't be decided; it then never grounds.
	Untracked string `json:"untracked,omitempty"`

	Expression string `json:"expression,omitempty"` // value
	Type       string `json:"type,omitempty"`       // value
	ValueKind  string `json:"value_kind,omitempty"` // value
	Repr       string `json:"repr,omitempty"`       // value

	Template string  `json:"template,omitempty"` // atomic
	Fields   []Field `json:"fields,omitempty"`   // atomic
	Values   []Value `json:"values,omitempty"`   // atomic: the values of its placeholders
	// Given are placeholders of an atomic claim whose rendered number stands in the question.
	Given     []string `json:"given,omitempty"`
	Text      string   `json:"text,omitempty"` // claims: rendered text or conclusion
	Reasoning string   `json:"reasoning,omitempty"`
	// Restates is the premise id that a derived claim merely repeats, if any.
	Restates string `json:"restates,omitempty"`
	// NewNumbers are numbers of a claim that neither its placeholders (atomic) or premises
	// (derived) nor the question hold.
	NewNumbers []string `json:"new_numbers,omitempty"`
	// Tainted: created after the session was tainted.
	Tainted bool `json:"tainted,omitempty"`
}

func (n *Node) isClaim() bool { return n.Kind == NodeAtomic || n.Kind == NodeDerived }

// EdgeKind is compute, control, ground or derive.
type EdgeKind string

// Edge kinds. Control edges (data to data) do not ground.
const (
	EdgeCompute EdgeKind = "compute"
	EdgeControl EdgeKind = "control"
	EdgeGround  EdgeKind = "ground"
	EdgeDerive  EdgeKind = "derive"
)

// Edge points from what was used to what was made.
type Edge struct {
	From string   `json:"from"`
	To   string   `json:"to"`
	Kind EdgeKind `json:"kind"`
	// Role is the placeholder's name on ground edges.
	Role string `json:"role,omitempty"`
}

// CellInfo records one cell: its source and what completed.
type CellInfo struct {
	Turn       int    `json:"turn"`
	Code       string `json:"code"`
	Statements int    `json:"statements"`
	Completed  int    `json:"completed"`
	Status     string `json:"status"`
}

// Refused is a refused request, kept for audit.
type Refused struct {
	Turn      int    `json:"turn"`
	Primitive string `json:"primitive"`
	Rule      string `json:"rule"`
	Message   string `json:"message"`
}

// TaintMark is a denied construct.
type TaintMark struct {
	Turn      int    `json:"turn"`
	Statement int    `json:"statement"`
	Construct string `json:"construct"`
}

// UntrackedMark is a value that the static pass could not follow, and where.
type UntrackedMark struct {
	Turn int `json:"turn"`
	// Line of the cell at which the statement starts, 0 if the cell was not analysed.
	Line int `json:"line"`
	// Construct says why, as the node's own field does; Name is the variable or the placeholder.
	Construct string `json:"construct"`
	Name      string `json:"name"`
}

// ClaimGrounding holds the grounding parts of one submitted claim; nil means not run.
type ClaimGrounding struct {
	Claim      string `json:"claim"`
	Structural *bool  `json:"structural"`
	Replayed   *bool  `json:"replayed"`
	Lexical    *bool  `json:"lexical"`
	Supported  *bool  `json:"supported"`
	// Why names the first reason for a false part.
	Why string `json:"why,omitempty"`
}
