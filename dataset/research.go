package dataset

import (
	"context"
	"errors"
	"strings"

	"github.com/verigraph/verigraph/task"
)

// DataSourceResearch selects the rubric of Content and Format.
const DataSourceResearch = "dabstep_research"

var researchKeys = []string{"id", "files", "question", "checklist", "type"}

// importResearch reads DABStep-Research: questions for a report, each with the checklist that its judge goes
// by, the open ones without. The checklist is the reference side's alone.
func importResearch(ctx context.Context, c ImportConfig, p *problems) []item {
	var items []item
	for _, o := range readRecords(ctx, c.Prompts, researchKeys, p) {
		r := reader{object: o, file: c.Prompts, p: p}
		id, err := idOf(o, "id")
		r.fail("id", err)
		question, checklist := r.requiredOf("question"), r.textOf("checklist")
		files, err := fileNames(o)
		r.fail("files", err)
		if err == nil && len(files) == 0 {
			r.fail("files", errors.New("missing or empty"))
		}
		if r.bad {
			continue
		}
		files = without(files, c.Without)
		it := item{line: o.line, filesKey: "files", files: files, prompt: task.Prompt{
			ID: id, DataSource: DataSourceResearch, Meta: metaOf(o, "type"),
			Question: question + "\n\nThe answer is a research report.\n\nData files: " + strings.Join(files, ", "),
		}}
		it.reference = &task.Reference{PromptID: id, DataSource: DataSourceResearch, Text: checklist, Meta: metaOf(o, "type", "checklist")}
		items = append(items, it)
	}
	return dropDuplicates(c.Prompts, items, p)
}
