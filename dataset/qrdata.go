package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// DataSourceQRData selects the QRData outcome rule.
const DataSourceQRData = "qrdata"

var qrdataKeys = []string{"id", "data_description", "question", "data_files", "meta_data", "answer", "reference"}

// importQRData reads QRData.json, a list of questions on CSV files: numerical ones, and multiple choice. The
// questions carry no id; their place in the file, from 0, is it.
func importQRData(ctx context.Context, c ImportConfig, p *problems) []item {
	var items []item
	for i, o := range readRecords(ctx, c.Prompts, qrdataKeys, p) {
		r := reader{object: o, file: c.Prompts, p: p}
		if it := qrdataItem(&r, i); !r.bad {
			items = append(items, it)
		}
	}
	return dropDuplicates(c.Prompts, items, p)
}

func qrdataItem(r *reader, place int) item {
	id := fmt.Sprint(place)
	if r.has("id") {
		var err error
		id, err = idOf(r.object, "id")
		r.fail("id", err)
	}
	question, description := r.requiredOf("question"), r.textOf("data_description")
	files, err := textList(r.object, "data_files", "file names")
	r.fail("data_files", err)
	var about struct {
		Type    string   `json:"question_type"`
		Choices []string `json:"multiple_choices"`
	}
	if err := json.Unmarshal(r.raw["meta_data"], &about); err != nil {
		r.fail("meta_data", errors.New("not an object with question_type"))
	} else if about.Type != "numerical" && about.Type != "multiple_choice" {
		r.fail("meta_data", fmt.Errorf("question_type %q is neither numerical nor multiple_choice", about.Type))
	}
	value := r.scalarText("answer")
	if strings.TrimSpace(value) == "" {
		r.fail("answer", errors.New("missing or empty"))
	}
	parts := []string{question}
	if description != "" {
		parts = append([]string{description}, parts...)
	}
	if len(about.Choices) > 0 {
		parts = append(parts, "Choices: "+strings.Join(about.Choices, "; "))
	}
	parts = append(parts, "Data files: "+baseNames(files))
	named := []task.NamedAnswer{{Name: plainAnswer, Value: value}}
	it := item{line: r.line, filesKey: "data_files", files: files, prompt: task.Prompt{
		ID: id, Question: withAnswerForm(strings.Join(parts, "\n\n"), named), DataSource: DataSourceQRData,
		Meta: rawObject(map[string]json.RawMessage{"question_type": quote(about.Type)}),
	}}
	reference(&it, answer{named: named})
	return it
}
