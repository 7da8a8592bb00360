package evidence

import "encoding/json"

// Analysis is what the static pass says about one cell: one Statement per top-level statement,
// in source order. The pass over-approximates; what it cannot decide it reports as untracked.
// It is produced by a separate process (package sandbox/analysis) and consumed by the graph.
type Analysis struct {
	Statements []Statement `json:"statements"`
	// Error is set when the cell does not parse; then there are no statements.
	Error string `json:"error,omitempty"`
}

// Statement is the static effect of one top-level statement, transitively through helper
// functions that earlier statements defined. Names are module-level names only; names of
// modules, builtins and never-assigned names are left out.
type Statement struct {
	// Line and EndLine are 1-based and inclusive.
	Line    int `json:"line"`
	EndLine int `json:"end_line"`
	// Reads are names whose value may flow into what the statement writes.
	Reads []string `json:"reads,omitempty"`
	// Control are names that only decide whether or how often something happens.
	Control []string `json:"control,omitempty"`
	// Writes are names bound whenever the statement completes.
	Writes []string `json:"writes,omitempty"`
	// MaybeWrites are names bound on some paths only; the earlier value may survive.
	MaybeWrites []string `json:"maybe_writes,omitempty"`
	// Mutates are names whose object may be changed in place, aliases included.
	Mutates []string `json:"mutates,omitempty"`
	// Deletes are names unbound by the statement.
	Deletes []string `json:"deletes,omitempty"`
	// Files are literal names (or constants propagated to a reader call) of files it reads.
	Files []string `json:"files,omitempty"`
	// DynamicFiles: it calls a reader on a name that is not known statically.
	DynamicFiles bool `json:"dynamic_files,omitempty"`
	// FilePatterns are literal patterns (those of Python's fnmatch, without a directory) of files whose names it lists.
	FilePatterns []string `json:"file_patterns,omitempty"`
	// WrittenFiles are literal names of files it writes; DynamicWrites: it writes some unknown file.
	WrittenFiles  []string `json:"written_files,omitempty"`
	DynamicWrites bool     `json:"dynamic_writes,omitempty"`
	// Flows say of names that the statement binds or changes in place what flows into each, where that is
	// less than all that it reads.
	Flows map[string]Flow `json:"flows,omitempty"`
	// Untracked are reasons why its effects can't be decided (exec, globals(), star import, ...).
	Untracked []string `json:"untracked,omitempty"`
	// Taints are denied constructs; they taint the session from this statement on.
	Taints []string `json:"taints,omitempty"`
	// Raised are the names that may be bound anew when the statement raises, also on paths that never
	// complete, each with what the pass's state holds of it from then on (see Definitions).
	Raised map[string]json.RawMessage `json:"raised,omitempty"`
	// Calls are the syntactic calls of bind, infer and submit_answer inside the statement.
	Calls []PrimitiveCall `json:"calls,omitempty"`
	// Definitions is the change that this statement makes to the pass's own state (helper
	// functions, imports, aliases, string constants): opaque to the graph, merged by key into
	// the state that goes with the next cell; null removes a key.
	Definitions map[string]json.RawMessage `json:"definitions,omitempty"`
}

// Flow is what flows into one of the names that a statement binds or changes.
type Flow struct {
	Reads []string `json:"reads,omitempty"`
	// Files: what the statement reads from files flows into it.
	Files bool `json:"files,omitempty"`
}

// PrimitiveCall is one syntactic call of a primitive.
type PrimitiveCall struct {
	// Primitive is bind, infer or submit_answer.
	Primitive string `json:"primitive"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	EndLine   int    `json:"end_line"`
	EndColumn int    `json:"end_column"`
	// Template is bind's template when it is a literal.
	Template *string `json:"template,omitempty"`
	// Arguments are bind's keyword arguments with what each expression reads.
	Arguments []Argument `json:"arguments,omitempty"`
	// Dynamic: the call has **kwargs or *args, or stands inside a function, lambda or
	// comprehension, so that arguments can't be matched to expressions; every value then
	// depends on all that the statement reads.
	Dynamic bool `json:"dynamic,omitempty"`
}

// Argument is one keyword argument of a bind call.
type Argument struct {
	Name string `json:"name"`
	// Expression is the source text, shortened to 200 bytes.
	Expression string   `json:"expression"`
	Reads      []string `json:"reads,omitempty"`
	Control    []string `json:"control,omitempty"`
	Files      []string `json:"files,omitempty"`
	// DynamicFiles: the expression calls a reader on a dynamic name.
	DynamicFiles bool `json:"dynamic_files,omitempty"`
	// FilePatterns are those of the statement's that the expression lists.
	FilePatterns []string `json:"file_patterns,omitempty"`
	// Untracked: what the expression reads can't be decided.
	Untracked bool `json:"untracked,omitempty"`
	// Name of the variable when the expression is a bare name.
	Variable string `json:"variable,omitempty"`
}
