package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// importVerl reads a file of verl's RLHFDataset: Parquet, JSON or JSONL, by suffix. Used columns: prompt
// (messages), data_source, reward_model {style, ground_truth}, extra_info {id or index, files, task_json}.
// task_json is what this package writes there: the prompt as a line of the JSONL form. Columns that are
// unknown pass, as they do in verl.
func importVerl(ctx context.Context, c ImportConfig, p *problems) []item {
	var items []item
	for _, o := range verlObjects(ctx, c, p) {
		r := reader{object: o, file: c.Prompts, p: p}
		if it := verlItem(&r); !r.bad {
			items = append(items, it)
		}
	}
	return dropDuplicates(c.Prompts, items, p)
}

func verlObjects(ctx context.Context, c ImportConfig, p *problems) []object {
	if filepath.Ext(c.Prompts) != ".parquet" {
		return readRecords(ctx, c.Prompts, nil, p)
	}
	if c.ReadParquet == nil {
		p.addf(c.Prompts, 0, "", "Parquet prompts are read by verigraph import")
		return nil
	}
	rows, err := c.ReadParquet(ctx, c.Prompts)
	if err != nil {
		p.add(c.Prompts, 0, "", plain(err))
		return nil
	}
	var objects []object
	for i, row := range rows {
		if o, ok := parseLine(c.Prompts, i+1, row, nil, p); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

func verlItem(r *reader) item {
	extra := r.member("extra_info")
	if extra.has("task_json") {
		return storedTask(r, extra)
	}
	id, err := idOf(extra, "id", "task_id", "index")
	if err != nil {
		id, err = "row-"+strconv.Itoa(r.line), nil
	}
	r.fail("extra_info", err)
	source := r.textOf("data_source")
	if source == "" {
		source = DefaultDataSource
	}
	question, err := userText(r.raw["prompt"])
	r.fail("prompt", err)
	names, err := fileNames(extra)
	r.fail("extra_info.files", err)
	a := verlAnswer(r)
	it := item{line: r.line, filesKey: "extra_info.files", files: names, prompt: task.Prompt{
		ID: id, Question: withAnswerForm(question, a.named), DataSource: source, Meta: metaOf(r.object, "ability"),
	}}
	reference(&it, a)
	return it
}

// storedTask reads a prompt that was written by this package.
func storedTask(r *reader, extra object) item {
	text, err := extra.text("task_json")
	r.fail("extra_info.task_json", err)
	if r.bad {
		return item{}
	}
	o, ok := parseLine(r.file, r.line, []byte(text), jsonlKeys, r.p)
	if !ok {
		r.bad = true
		return item{}
	}
	it, ok := jsonlItem(r.file, o, r.p)
	r.bad = !ok
	return it
}

// userText is the text of the one user message. A system message belongs to another protocol than the one
// that this system's templates speak, and is left out; earlier turns cannot be represented.
func userText(raw json.RawMessage) (string, error) {
	var messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &messages) != nil {
		return "", errors.New("want a list of messages {role, content}")
	}
	question, users := "", 0
	for i, m := range messages {
		switch m.Role {
		case "system":
		case "user":
			users++
			if json.Unmarshal(m.Content, &question) != nil {
				return "", fmt.Errorf("message %d: the content is no text", i)
			}
		default:
			return "", fmt.Errorf("message %d is of role %q: a prompt with earlier turns cannot be imported", i, m.Role)
		}
	}
	if users != 1 || strings.TrimSpace(question) == "" {
		return "", fmt.Errorf("%d user messages with text, want one", users)
	}
	return question, nil
}

// verlAnswer reads reward_model. Styles other than rule are free text for a judge.
func verlAnswer(r *reader) answer {
	reward := r.member("reward_model")
	if !reward.has("ground_truth") {
		return answer{}
	}
	raw := reward.raw["ground_truth"]
	if s, err := scalar(raw); err == nil && strings.TrimSpace(s) == "" {
		return answer{}
	}
	style, err := reward.text("style")
	r.fail("reward_model.style", err)
	a, err := parseAnswer(raw, style != "rule" && style != "")
	r.fail("reward_model.ground_truth", err)
	return a
}
