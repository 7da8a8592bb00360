package dataset

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// DataSourceTableBench selects the TableBench outcome rule.
const DataSourceTableBench = "tablebench"

// tableBenchFile is the name under which the policy sees the table of a question.
const tableBenchFile = "table.csv"

var tableBenchKeys = []string{"id", "qtype", "qsubtype", "table", "question", "answer", "chart_type"}

// importTableBench reads TableBench questions and writes each one's table to TablesDir/ID/table.csv, null
// as an empty field. The answer of a chart question is code for a reference chart: it stays free text.
// The published file asks one question twice under one id, as two subtypes: the second is ID-2.
func importTableBench(ctx context.Context, c ImportConfig, p *problems) []item {
	var items []item
	subtypes := map[string]string{}
	for _, o := range readRecords(ctx, c.Prompts, tableBenchKeys, p) {
		r := reader{object: o, file: c.Prompts, p: p}
		it, content := tableBenchItem(&r)
		subtype := string(o.raw["qsubtype"])
		if other, again := subtypes[it.prompt.ID]; again && other != subtype && !r.bad {
			it.rename(it.prompt.ID + "-2")
		}
		subtypes[it.prompt.ID] = subtype
		if r.bad {
			continue
		}
		if c.Limit == 0 || len(items) < c.Limit {
			r.fail("table", writeTable(filepath.Join(c.TablesDir, filepath.FromSlash(it.files[0])), content))
		}
		items = append(items, it)
	}
	return dropDuplicates(c.Prompts, items, p)
}

func tableBenchItem(r *reader) (item, []byte) {
	id, err := idOf(r.object, "id")
	r.fail("id", err)
	question := r.requiredOf("question")
	kind := r.requiredOf("qtype")
	content, err := tableContent(r.raw["table"])
	r.fail("table", err)
	var a answer
	text := r.scalarText("answer")
	switch {
	case strings.TrimSpace(text) == "":
		r.fail("answer", errors.New("missing or empty"))
	case kind == "Visualization":
		a.text = text
	default:
		a.named = []task.NamedAnswer{{Name: plainAnswer, Value: text}}
	}
	it := item{line: r.line, filesKey: "table", files: []string{task.Slug(id) + "/" + tableBenchFile}, prompt: task.Prompt{
		ID: id, Question: withAnswerForm(question+"\n\nData file: "+tableBenchFile, a.named),
		DataSource: DataSourceTableBench, Meta: metaOf(r.object, "qtype", "qsubtype", "chart_type"),
	}}
	reference(&it, a)
	return it, content
}

// rename gives a TableBench item another id.
func (it *item) rename(id string) {
	it.prompt.ID, it.files = id, []string{task.Slug(id) + "/" + tableBenchFile}
	if it.reference != nil {
		it.reference.PromptID = id
	}
}

// tableContent writes {"columns": […], "data": [[…]]} as CSV. Names and cells are written as they are,
// line breaks, duplicates and leading zeros included.
func tableContent(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return nil, errors.New("missing")
	}
	if raw[0] == '"' { // some copies hold the table as text
		var inner string
		if err := json.Unmarshal(raw, &inner); err != nil {
			return nil, err
		}
		raw = json.RawMessage(inner)
	}
	var t struct {
		Columns []json.RawMessage   `json:"columns"`
		Data    [][]json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("not columns and data: %w", err)
	}
	if len(t.Columns) == 0 {
		return nil, errors.New("no columns")
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for i, row := range append([][]json.RawMessage{t.Columns}, t.Data...) {
		if len(row) != len(t.Columns) {
			return nil, fmt.Errorf("row %d has %d cells, the header %d", i, len(row), len(t.Columns))
		}
		cells, err := cellTexts(row)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
		if err := w.Write(cells); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

func cellTexts(row []json.RawMessage) ([]string, error) {
	cells := make([]string, len(row))
	for i, raw := range row {
		if string(raw) == "null" {
			continue
		}
		s, err := scalar(raw)
		if err != nil {
			return nil, fmt.Errorf("cell %d: %w", i+1, err)
		}
		cells[i] = s
	}
	return cells, nil
}

func writeTable(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
