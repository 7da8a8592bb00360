package dataset

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/verigraph/verigraph/task"
)

// DefaultDataSource is the data source of a JSONL line that names none.
const DefaultDataSource = "jsonl"

var jsonlKeys = []string{"id", "question", "files", "answer", "data_source", "meta"}

func importJSONL(ctx context.Context, c ImportConfig, p *problems) []item {
	var items []item
	for _, o := range readObjects(ctx, c.Prompts, jsonlKeys, p) {
		if it, ok := jsonlItem(c.Prompts, o, p); ok {
			items = append(items, it)
		}
	}
	return dropDuplicates(c.Prompts, items, p)
}

// jsonlItem reads one line, reporting all that is wrong with it.
func jsonlItem(file string, o object, p *problems) (item, bool) {
	before := len(p.list)
	check := func(key string, err error) {
		if err != nil {
			p.add(file, o.line, key, err)
		}
	}
	id, err := promptID(o)
	check("id", err)
	question, err := o.required("question")
	check("question", err)
	source, err := o.text("data_source")
	check("data_source", err)
	if source == "" {
		source = DefaultDataSource
	}
	files, err := fileNames(o)
	check("files", err)
	meta, judged, err := metaObject(o)
	check("meta", err)
	it := item{line: o.line, filesKey: "files", files: files}
	if o.has("answer") {
		a, err := parseAnswer(o.raw["answer"], judged)
		check("answer", err)
		question = withAnswerForm(question, a.named)
		it.reference = &task.Reference{PromptID: id, DataSource: source, Answers: a.named, Text: a.text, Meta: meta}
	}
	it.prompt = task.Prompt{ID: id, Question: question, DataSource: source, Meta: meta}
	return it, len(p.list) == before
}

func fileNames(o object) ([]string, error) { return textList(o, "files", "file names") }

// textList reads a list of texts that may be missing.
func textList(o object, key, what string) ([]string, error) {
	if !o.has(key) {
		return nil, nil
	}
	var list []string
	if json.Unmarshal(o.raw[key], &list) != nil {
		return nil, errors.New("want a list of " + what)
	}
	return list, nil
}

// metaObject returns meta untouched and whether it asks for a judge (meta.judge is true).
func metaObject(o object) (json.RawMessage, bool, error) {
	if !o.has("meta") {
		return nil, false, nil
	}
	raw := o.raw["meta"]
	_, members, err := decodeObject(raw)
	if err != nil {
		return nil, false, err
	}
	return raw, string(members["judge"]) == "true", nil
}
