package evidence

// A session's words are requests; the graph decides. The types in this file are what the
// sandbox supervisor hands over after it has parsed and bounded a frame.

// Report is what the session says about one completed top-level statement.
type Report struct {
	// Index is the statement's position in the cell, from 0.
	Index int `json:"index"`
	// Bound are module-level names that exist after the statement and are new or rebound.
	Bound []string `json:"bound,omitempty"`
	// Unbound are names that existed before and no longer do.
	Unbound []string `json:"unbound,omitempty"`
	// Opened are names of task data files opened for reading during the statement.
	Opened []string `json:"opened,omitempty"`
}

// BindRequest asks for an atomic claim.
type BindRequest struct {
	// Statement is the index of the statement that runs; Line is the caller's line in the
	// cell (a hint: it only chooses among the statement's syntactic bind calls).
	Statement int `json:"statement"`
	Line      int `json:"line"`
	// Template is the template text as given; Fields are its replacement fields in order,
	// rendered once by the session.
	Template string  `json:"template"`
	Fields   []Field `json:"fields"`
	// Values are all keyword values given, used or not.
	Values []Value `json:"values"`
}

// Field is one replacement field of a template, e.g. {m:.2f}.
type Field struct {
	// Name is the value's name (before any attribute or index access).
	Name string `json:"name"`
	// Text is the rendered text.
	Text string `json:"text"`
}

// Value is one keyword value of bind.
type Value struct {
	Name string `json:"name"`
	// Kind is one of the Kind constants.
	Kind string `json:"kind"`
	// Type is the Python type's qualified name, e.g. numpy.float64.
	Type string `json:"type"`
	// Repr is repr(value), at most 200 characters.
	Repr string `json:"repr"`
}

// Kinds of values.
const (
	KindNumber  = "number"  // int, float, complex, Decimal, Fraction, numpy numbers
	KindBoolean = "boolean" // bool, numpy.bool
	KindString  = "string"
	KindNone    = "none"
	KindDate    = "date"  // datetime, date, time, timedelta and the pandas and numpy forms
	KindList    = "list"  // list, tuple, set, dict and small arrays or Series of the above
	KindTable   = "table" // DataFrame, or an array or Series too large to state: refused
	KindClaim   = "claim" // refused
	KindOther   = "other"
)

// InferRequest asks for a derived claim. Premises are claim ids as the session's handles hold them.
type InferRequest struct {
	Statement  int      `json:"statement"`
	Premises   []string `json:"premises"`
	Conclusion string   `json:"conclusion"`
	Reasoning  string   `json:"reasoning"`
}

// SubmitRequest submits claims by id.
type SubmitRequest struct {
	Statement int      `json:"statement"`
	Claims    []string `json:"claims"`
}

// Refusal is why the graph refused a request; its text goes to the model as a ValueError.
type Refusal struct {
	// Rule is a stable identifier, e.g. bind_no_placeholder.
	Rule string `json:"rule"`
	// Message tells the model what to do, in one short sentence or two.
	Message string `json:"message"`
}

func (r *Refusal) Error() string { return r.Message }
