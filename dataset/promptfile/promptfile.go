// Package promptfile writes imported prompts as files: JSONL lines that `verigraph run` reads back, or
// Parquet for verl's RLHFDataset. Reading back what was written gives the same prompts and references.
package promptfile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/task"
)

// line is one prompt in the JSONL form. File names are relative to the data directory.
type line struct {
	ID         string          `json:"id"`
	Question   string          `json:"question"`
	Files      []string        `json:"files,omitempty"`
	Answer     any             `json:"answer,omitempty"`
	DataSource string          `json:"data_source"`
	Meta       json.RawMessage `json:"meta,omitempty"`
}

// lines joins prompts with their references.
func lines(in dataset.Imported) []line {
	references := make(map[string]task.Reference, len(in.References))
	for _, r := range in.References {
		references[r.PromptID] = r
	}
	out := make([]line, len(in.Prompts))
	for i, p := range in.Prompts {
		out[i] = line{ID: p.ID, Question: p.Question, Files: in.FileNames[i], DataSource: p.DataSource, Meta: p.Meta}
		if r, ok := references[p.ID]; ok {
			out[i].Answer = answerOf(r)
		}
	}
	return out
}

// answerOf is the form of an answer that reads back without being interpreted.
func answerOf(r task.Reference) any {
	if len(r.Answers) == 0 {
		return map[string]string{"text": r.Text}
	}
	pairs := make([][2]string, len(r.Answers))
	for i, a := range r.Answers {
		pairs[i] = [2]string{a.Name, a.Value}
	}
	return pairs
}

// WriteJSONL writes one line per prompt.
func WriteJSONL(w io.Writer, in dataset.Imported) error {
	out := bufio.NewWriter(w)
	for _, l := range lines(in) {
		raw, err := encode(l)
		if err != nil {
			return fmt.Errorf("prompt %s: %w", l.ID, err)
		}
		if _, err := out.Write(append(raw, '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}
