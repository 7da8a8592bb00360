package dataset_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verigraph/verigraph/dataset"
)

// An import gives prompts, the reference answers apart from them, and where each data file lies by its digest.
func ExampleImport() {
	dir, err := os.MkdirTemp("", "import")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	prompts := filepath.Join(dir, "prompts.jsonl")
	line := `{"id": "fares", "question": "What is the mean fare?", "files": ["fares.csv"], "answer": {"mean_fare": "34.65"}}`
	for path, text := range map[string]string{prompts: line + "\n", filepath.Join(dir, "fares.csv"): "name,fare\nA,34.0\nB,35.3\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	got, references, paths, err := dataset.Import(context.Background(), dataset.ImportConfig{Prompts: prompts, Format: dataset.FormatJSONL})
	if err != nil {
		panic(err)
	}
	fmt.Println(got[0].ID, got[0].Files[0].Name, got[0].Files[0].Size, len(paths))
	fmt.Println(references[0].PromptID, references[0].Answers)
	// Output:
	// fares fares.csv 24 1
	// fares [{mean_fare 34.65}]
}
