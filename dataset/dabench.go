package dataset

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// DataSourceDABench selects the DABench outcome rule.
const DataSourceDABench = "dabench"

var (
	dabenchKeys      = []string{"id", "question", "concepts", "constraints", "format", "file_name", "level"}
	dabenchLabelKeys = []string{"id", "common_answers"}
)

// label is one line of the labels file.
type label struct {
	line  int
	named []task.NamedAnswer
}

func importDABench(ctx context.Context, c ImportConfig, p *problems) []item {
	var items []item
	ids := map[string]bool{} // also of lines that are broken elsewhere, whose labels are in order
	for _, o := range readObjects(ctx, c.Prompts, dabenchKeys, p) {
		it, ok := dabenchItem(c.Prompts, o, p)
		ids[it.prompt.ID] = true
		if ok {
			items = append(items, it)
		}
	}
	items = dropDuplicates(c.Prompts, items, p)
	if c.Labels == "" {
		return items
	}
	order, labels := readLabels(ctx, c.Labels, p)
	for _, id := range order {
		if !ids[id] {
			p.addf(c.Labels, labels[id].line, "id", "label %q has no question in %s", id, c.Prompts)
		}
	}
	for i, it := range items {
		l, ok := labels[it.prompt.ID]
		if !ok {
			p.addf(c.Prompts, it.line, "id", "question %q has no label in %s", it.prompt.ID, c.Labels)
			continue
		}
		items[i].reference = &task.Reference{
			PromptID: it.prompt.ID, DataSource: DataSourceDABench, Answers: l.named, Meta: it.prompt.Meta,
		}
	}
	return items
}

// dabenchItem reads one question, reporting all that is wrong with it. The id is set even then.
func dabenchItem(file string, o object, p *problems) (item, bool) {
	before := len(p.list)
	read := func(get func(string) (string, error), key string) string {
		s, err := get(key)
		if err != nil {
			p.add(file, o.line, key, err)
		}
		return strings.TrimSpace(s)
	}
	id, err := promptID(o)
	if err != nil {
		p.add(file, o.line, "id", err)
	}
	question := read(o.required, "question")
	constraints := read(o.text, "constraints")
	format := read(o.text, "format")
	name := read(o.required, "file_name")
	return item{
		line: o.line, filesKey: "file_name", files: []string{name},
		prompt: task.Prompt{
			ID: id, Question: dabenchQuestion(question, constraints, format, name),
			DataSource: DataSourceDABench, Meta: dabenchMeta(o),
		},
	}, len(p.list) == before
}

// dabenchQuestion lays out the parts that the benchmark keeps apart.
func dabenchQuestion(question, constraints, format, file string) string {
	parts := []string{question}
	if constraints != "" {
		parts = append(parts, "Constraints:\n"+constraints)
	}
	if format != "" {
		parts = append(parts, "Answer format:\n"+format)
	}
	return strings.Join(append(parts, "Data file: "+baseName(file)), "\n\n")
}

func dabenchMeta(o object) json.RawMessage {
	meta := map[string]json.RawMessage{}
	for _, key := range []string{"level", "concepts"} {
		if o.has(key) {
			meta[key] = o.raw[key]
		}
	}
	if len(meta) == 0 {
		return nil
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		panic(err) // the members were decoded from JSON
	}
	return raw
}

func readLabels(ctx context.Context, file string, p *problems) ([]string, map[string]label) {
	var order []string
	labels := map[string]label{}
	for _, o := range readObjects(ctx, file, dabenchLabelKeys, p) {
		id, err := promptID(o)
		if err != nil {
			p.add(file, o.line, "id", err)
			continue
		}
		if first, ok := labels[id]; ok {
			p.addf(file, o.line, "id", "%q stands on line %d already", id, first.line)
			continue
		}
		l := label{line: o.line}
		if !o.has("common_answers") {
			p.addf(file, o.line, "common_answers", "missing")
		} else if l.named, err = parsePairs(o.raw["common_answers"]); err == nil {
			err = checkNamed(l.named)
		}
		if err != nil {
			p.add(file, o.line, "common_answers", err)
		}
		order, labels[id] = append(order, id), l
	}
	return order, labels
}
