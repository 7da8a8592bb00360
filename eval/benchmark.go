package eval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/dataset"
)

// Benchmark is one set of items with its own headline figure.
type Benchmark struct {
	// Name is the data source of its prompts, Title what tables call it.
	Name, Title string
	Format      dataset.Format
	// Metric says what the headline figure is.
	Metric string
	// Types are the keys of an item's meta object that tables break the figure down by.
	Types []string
	// Judged benchmarks need an LLM judge to be scored.
	Judged bool
}

// Names of benchmarks.
const (
	DABench    = "dabench"
	TableBench = "tablebench"
	DABStep    = "dabstep"
	Research   = "dabstep_research"
	DSBench    = "dsbench"
	QRData     = "qrdata"
)

// Benchmarks are all known ones, in the order of the papers' table.
var Benchmarks = []Benchmark{
	{Name: DABench, Title: "DABench", Format: dataset.FormatDABench, Metric: "questions with every sub-answer right (ABQ)", Types: []string{"level", "concepts"}},
	{Name: DSBench, Title: "DSBench", Format: dataset.FormatDSBench, Metric: "answers that the judge calls right", Types: []string{"challenge"}, Judged: true},
	{Name: TableBench, Title: "TableBench", Format: dataset.FormatTableBench, Metric: "mean of each type's own metric", Types: []string{"qtype", "qsubtype"}},
	{Name: Research, Title: "DABStep-Research", Format: dataset.FormatResearch, Metric: "20 x mean(Content, Format)", Types: []string{"type"}, Judged: true},
	{Name: DABStep, Title: "DABStep", Format: dataset.FormatDABStep, Metric: "right answers", Types: []string{"level"}},
	{Name: QRData, Title: "QRData", Format: dataset.FormatQRData, Metric: "right answers", Types: []string{"question_type"}},
}

// Find returns the benchmark of a name.
func Find(name string) (Benchmark, error) {
	i := slices.IndexFunc(Benchmarks, func(b Benchmark) bool { return b.Name == name })
	if i < 0 {
		return Benchmark{}, fmt.Errorf("benchmark %q is none of %s", name, BenchmarkNames())
	}
	return Benchmarks[i], nil
}

// BenchmarkNames lists them for a message.
func BenchmarkNames() string {
	names := make([]string, len(Benchmarks))
	for i, b := range Benchmarks {
		names[i] = b.Name
	}
	return strings.Join(names, ", ")
}

// TypesOf are an item's values of the benchmark's type keys. A list counts under each of its values.
func (b Benchmark) TypesOf(meta json.RawMessage) map[string][]string {
	var m map[string]json.RawMessage
	if len(meta) == 0 || json.Unmarshal(meta, &m) != nil {
		return nil
	}
	out := map[string][]string{}
	for _, key := range b.Types {
		var one string
		var many []string
		switch {
		case json.Unmarshal(m[key], &one) == nil && one != "":
			out[key] = []string{one}
		case json.Unmarshal(m[key], &many) == nil && len(many) > 0:
			out[key] = many
		}
	}
	return out
}
