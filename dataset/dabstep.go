package dataset

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// DataSourceDABStep selects the DABStep outcome rule.
const DataSourceDABStep = "dabstep"

var dabstepKeys = []string{"task_id", "question", "guidelines", "level", "answer"}

// dabstepFiles is the context that every DABStep task shares.
var dabstepFiles = []string{
	"acquirer_countries.csv", "fees.json", "manual.md", "merchant_category_codes.csv", "merchant_data.json",
	"payments-readme.md", "payments.csv",
}

// importDABStep reads DABStep tasks. The answers of the hidden tasks are empty: those have no reference.
func importDABStep(ctx context.Context, c ImportConfig, p *problems) []item {
	if !sharedContext(c, p) {
		return nil
	}
	files := without(dabstepFiles, c.Without)
	var items []item
	for _, o := range readRecords(ctx, c.Prompts, dabstepKeys, p) {
		r := reader{object: o, file: c.Prompts, p: p}
		if it := dabstepItem(&r, files); !r.bad {
			items = append(items, it)
		}
	}
	return dropDuplicates(c.Prompts, items, p)
}

// sharedContext reports what is missing of the context once, not for every task.
func sharedContext(c ImportConfig, p *problems) bool {
	before := len(p.list)
	for _, name := range without(dabstepFiles, c.Without) {
		if _, err := os.Stat(filepath.Join(c.DataDir, name)); err != nil {
			p.addf(c.Prompts, 0, "context", "%q in the data directory %s: %w; every task may need it (data/context of adyen/DABstep)",
				name, c.DataDir, plain(err))
		}
	}
	return len(p.list) == before
}

func dabstepItem(r *reader, files []string) item {
	id, err := idOf(r.object, "task_id")
	r.fail("task_id", err)
	parts := []string{r.requiredOf("question")}
	if g := r.textOf("guidelines"); g != "" {
		parts = append(parts, "Guidelines:\n"+g)
	}
	parts = append(parts, "Data files: "+strings.Join(files, ", "))
	var a answer
	// An empty text is the sign for a hidden answer; a real empty list is written out in the guidelines.
	if text := r.scalarText("answer"); strings.TrimSpace(text) != "" {
		a.named = []task.NamedAnswer{{Name: plainAnswer, Value: text}}
	}
	it := item{line: r.line, filesKey: "question", files: files, prompt: task.Prompt{
		ID: id, Question: withAnswerForm(strings.Join(parts, "\n\n"), a.named), DataSource: DataSourceDABStep,
		Meta: metaOf(r.object, "level"),
	}}
	if len(a.named) == 0 { // the policy has to be told the form all the same
		it.prompt.Question = withAnswerForm(it.prompt.Question, []task.NamedAnswer{{Name: plainAnswer}})
	}
	reference(&it, a)
	return it
}

// without leaves out the names that are not at hand.
func without(names, missing []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(missing, n) })
}
