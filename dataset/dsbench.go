package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// DataSourceDSBench are DSBench's data analysis questions, whose answers a judge compares.
const DataSourceDSBench = "dsbench"

// importDSBench reads DSBench's data analysis challenges in their public layout: data.json with one challenge
// a line, and below the data directory ID/introduction.txt, ID/QUESTION.txt and the workbooks of the
// challenge. Every question becomes an item of its own, ID-QUESTION.
func importDSBench(ctx context.Context, c ImportConfig, p *problems) []item {
	var items []item
	for _, o := range readRecords(ctx, c.Prompts, nil, p) {
		r := reader{object: o, file: c.Prompts, p: p}
		items = append(items, dsbenchItems(&r, c.DataDir)...)
		if c.Limit > 0 && len(items) >= c.Limit {
			break
		}
	}
	return dropDuplicates(c.Prompts, items, p)
}

func dsbenchItems(r *reader, dir string) []item {
	id, err := idOf(r.object, "id")
	r.fail("id", err)
	questions, err := textList(r.object, "questions", "question names")
	r.fail("questions", err)
	var answers []json.RawMessage
	if err := json.Unmarshal(r.raw["answers"], &answers); err != nil {
		r.fail("answers", errors.New("not a list"))
	}
	if !r.bad && len(questions) != len(answers) {
		r.fail("answers", fmt.Errorf("%d answers for %d questions", len(answers), len(questions)))
	}
	if r.bad {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		r.fail("id", plain(err))
		return nil
	}
	defer root.Close()
	read := func(name string) string {
		data, err := root.ReadFile(path.Join(id, name+".txt"))
		if err != nil {
			r.fail("questions", fmt.Errorf("%q: %w", path.Join(id, name+".txt"), plain(err)))
		}
		return strings.TrimSpace(string(data))
	}
	introduction := read("introduction")
	workbooks := workbooksOf(dir, id)
	var items []item
	for i, name := range questions {
		text, err := answerText(answers[i])
		r.fail("answers", err)
		parts := []string{introduction, read(name)}
		if len(workbooks) > 0 {
			parts = append(parts, "Data files: "+baseNames(workbooks))
		}
		it := item{line: r.line, filesKey: "id", files: workbooks, prompt: task.Prompt{
			ID: id + "-" + name, Question: strings.Join(parts, "\n\n"), DataSource: DataSourceDSBench,
			Meta: rawObject(map[string]json.RawMessage{"challenge": quote(id), "judge_task": quote("closed")}),
		}}
		reference(&it, answer{text: text})
		items = append(items, it)
	}
	if r.bad {
		return nil
	}
	return items
}

// workbooksOf are the tables of a challenge, as names below the data directory.
func workbooksOf(dir, id string) []string {
	var out []string
	entries, _ := os.ReadDir(filepath.Join(dir, id)) // a challenge that is missing has been reported
	for _, e := range entries {
		if slices.Contains([]string{".xlsx", ".xls", ".xlsb", ".xlsm", ".csv"}, strings.ToLower(filepath.Ext(e.Name()))) {
			out = append(out, id+"/"+e.Name())
		}
	}
	return out
}

func baseNames(files []string) string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = path.Base(f)
	}
	return strings.Join(out, ", ")
}

// answerText is a text or number as it stands, and a dictionary or list as JSON.
func answerText(raw json.RawMessage) (string, error) {
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		return string(raw), nil
	}
	return scalar(raw)
}

func quote(s string) json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return raw
}
