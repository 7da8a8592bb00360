package analysis

import "github.com/verigraph/verigraph/evidence"

// decodeAnalysis reads an answer and, of a process's first one, why the pass is interpreted. Field by field, so that
// no reflection is paid for; a test compares it with what the fields' JSON tags say.
func decodeAnalysis(body []byte) (a evidence.Analysis, interpreted string, err error) {
	w := &wire{rest: body}
	w.dict(func(key []byte) {
		switch string(key) {
		case "statements":
			a.Statements = list(w, w.statement)
		case "error":
			a.Error = w.text()
		case "interpreted":
			interpreted = w.text()
		default:
			w.unknown("analysis", key)
		}
	})
	if w.err == nil && len(w.rest) > 0 {
		w.fail("%d bytes after the answer", len(w.rest))
	}
	return a, interpreted, w.err
}

func (w *wire) statement() (s evidence.Statement) {
	w.dict(func(key []byte) {
		switch string(key) {
		case "line":
			s.Line = w.integer()
		case "end_line":
			s.EndLine = w.integer()
		case "reads":
			s.Reads = list(w, w.text)
		case "control":
			s.Control = list(w, w.text)
		case "writes":
			s.Writes = list(w, w.text)
		case "maybe_writes":
			s.MaybeWrites = list(w, w.text)
		case "mutates":
			s.Mutates = list(w, w.text)
		case "deletes":
			s.Deletes = list(w, w.text)
		case "files":
			s.Files = list(w, w.text)
		case "dynamic_files":
			s.DynamicFiles = w.boolean()
		case "file_patterns":
			s.FilePatterns = list(w, w.text)
		case "written_files":
			s.WrittenFiles = list(w, w.text)
		case "dynamic_writes":
			s.DynamicWrites = w.boolean()
		case "flows":
			s.Flows = mapping(w, w.flow)
		case "untracked":
			s.Untracked = list(w, w.text)
		case "taints":
			s.Taints = list(w, w.text)
		case "raised":
			s.Raised = mapping(w, w.raw)
		case "calls":
			s.Calls = list(w, w.call)
		case "definitions":
			s.Definitions = mapping(w, w.raw)
		default:
			w.unknown("statement", key)
		}
	})
	return s
}

func (w *wire) flow() (f evidence.Flow) {
	w.dict(func(key []byte) {
		switch string(key) {
		case "reads":
			f.Reads = list(w, w.text)
		case "files":
			f.Files = w.boolean()
		default:
			w.unknown("flow", key)
		}
	})
	return f
}

func (w *wire) call() (c evidence.PrimitiveCall) {
	w.dict(func(key []byte) {
		switch string(key) {
		case "primitive":
			c.Primitive = w.text()
		case "line":
			c.Line = w.integer()
		case "column":
			c.Column = w.integer()
		case "end_line":
			c.EndLine = w.integer()
		case "end_column":
			c.EndColumn = w.integer()
		case "template":
			template := w.text()
			c.Template = &template
		case "arguments":
			c.Arguments = list(w, w.argument)
		case "dynamic":
			c.Dynamic = w.boolean()
		default:
			w.unknown("call", key)
		}
	})
	return c
}

func (w *wire) argument() (a evidence.Argument) {
	w.dict(func(key []byte) {
		switch string(key) {
		case "name":
			a.Name = w.text()
		case "expression":
			a.Expression = w.text()
		case "reads":
			a.Reads = list(w, w.text)
		case "control":
			a.Control = list(w, w.text)
		case "files":
			a.Files = list(w, w.text)
		case "dynamic_files":
			a.DynamicFiles = w.boolean()
		case "file_patterns":
			a.FilePatterns = list(w, w.text)
		case "untracked":
			a.Untracked = w.boolean()
		case "variable":
			a.Variable = w.text()
		default:
			w.unknown("argument", key)
		}
	})
	return a
}
