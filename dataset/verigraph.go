package dataset

import (
	"context"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// DataSourceVeriGraph is the data source of a VeriGraph record that names none.
const DataSourceVeriGraph = "verigraph"

var verigraphKeys = []string{
	"id", "source", "question", "answer", "files", "dir_id", "original_id", "raw_id", "qtype", "qsubtype", "checklist",
}

// importVeriGraph reads the prompts files of the public VeriGraph code: an array of rl_data.json, or the
// questions.json of its evaluation sets. A record's files lie in the directory that dir_id names below the
// data directory, or raw_id where there is no dir_id. Answers are free text for a judge, except those of
// benchmark questions (qtype), which a rule can compare.
func importVeriGraph(ctx context.Context, c ImportConfig, p *problems) []item {
	var items []item
	for _, o := range readRecords(ctx, c.Prompts, verigraphKeys, p) {
		r := reader{object: o, file: c.Prompts, p: p}
		if it := verigraphItem(&r); !r.bad {
			items = append(items, it)
		}
	}
	return dropDuplicates(c.Prompts, items, p)
}

func verigraphItem(r *reader) item {
	id, err := idOf(r.object, "id")
	r.fail("id", err)
	question := r.requiredOf("question")
	source := r.textOf("source")
	if source == "" {
		source = DataSourceVeriGraph
	}
	names, err := fileNames(r.object)
	r.fail("files", err)
	var a answer
	if text := strings.TrimSpace(r.scalarText("answer")); text != "" {
		a = answer{text: text}
		if r.has("qtype") {
			a = answer{named: []task.NamedAnswer{{Name: plainAnswer, Value: text}}}
		}
	}
	it := item{line: r.line, filesKey: "files", files: below(r.directory(), names), prompt: task.Prompt{
		ID: id, Question: withAnswerForm(question, a.named), DataSource: source,
		Meta: metaOf(r.object, "qtype", "qsubtype", "dir_id", "original_id"),
	}}
	reference(&it, a)
	return it
}

func (r *reader) directory() string {
	for _, key := range []string{"dir_id", "raw_id"} {
		if r.has(key) {
			s, err := scalar(r.raw[key])
			r.fail(key, err)
			return s
		}
	}
	return ""
}

// scalarText reads a string or a number as text; missing is empty.
func (r *reader) scalarText(key string) string {
	if !r.has(key) {
		return ""
	}
	s, err := scalar(r.raw[key])
	r.fail(key, err)
	return s
}

func below(directory string, names []string) []string {
	if directory == "" {
		return names
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = directory + "/" + n
	}
	return out
}
