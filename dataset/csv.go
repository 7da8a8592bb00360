package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/dataset/table"
)

// importCSV reads a table of prompts: the columns of the JSONL form as text, with file names separated by
// semicolons and answer and meta as JSON or plain text. Encoding, delimiter and header are checked over
// the whole file, and what would have to be guessed is refused. Cells stay text: 02116 keeps its zero.
func importCSV(_ context.Context, c ImportConfig, p *problems) []item {
	data, err := os.ReadFile(c.Prompts)
	if err != nil {
		p.add(c.Prompts, 0, "", plain(err))
		return nil
	}
	cells, lines, profile := table.Records("prompts.csv", data, c.Table)
	for _, f := range profile.Findings {
		if f.Fatal || f.Code == "ragged" || f.Code == "duplicate" {
			p.addf(c.Prompts, f.Line, "", "%s", f.Text)
		}
	}
	if len(p.list) > 0 {
		return nil
	}
	names := make([]string, len(cells[0]))
	for i, n := range cells[0] {
		names[i] = strings.TrimSpace(n)
		if !slices.Contains(jsonlKeys, names[i]) {
			p.addf(c.Prompts, lines[0], names[i], "unknown column; known are %v", jsonlKeys)
		}
	}
	if len(p.list) > 0 {
		return nil
	}
	var items []item
	for i, row := range cells[1:] {
		o := csvObject(lines[i+1], names, row)
		if it, ok := jsonlItem(c.Prompts, o, p); ok {
			items = append(items, it)
		}
	}
	return dropDuplicates(c.Prompts, items, p)
}

// csvObject turns a record into the object that a JSONL line would be. An empty cell is a missing key.
func csvObject(line int, names, row []string) object {
	o := object{line: line, keys: names, raw: map[string]json.RawMessage{}}
	for i, name := range names {
		cell := row[i]
		if strings.TrimSpace(cell) == "" {
			continue
		}
		switch name {
		case "files":
			var files []string
			for f := range strings.SplitSeq(cell, ";") {
				files = append(files, strings.TrimSpace(f))
			}
			o.raw[name] = mustJSON(files)
		case "meta", "answer":
			o.raw[name] = jsonOrText(cell)
		default:
			o.raw[name] = mustJSON(cell)
		}
	}
	return o
}

// jsonOrText takes a cell that holds a JSON array or object as such, and any other as text.
func jsonOrText(cell string) json.RawMessage {
	trimmed := strings.TrimSpace(cell)
	if (strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) && json.Valid([]byte(trimmed)) {
		return json.RawMessage(trimmed)
	}
	return mustJSON(cell)
}

// Summary says what a table file is in one line.
func Summary(p table.Profile) string {
	switch p.Kind {
	case "table":
		return fmt.Sprintf("table, %s, %d columns, %d rows", p.Encoding, len(p.Columns), p.Rows)
	case "workbook":
		return fmt.Sprintf("workbook, %d sheets", len(p.Sheets))
	}
	return p.Kind
}
