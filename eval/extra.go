package eval

import (
	"math"

	"github.com/verigraph/verigraph/reward/outcome"
)

// extra are the further figures that a benchmark's own script prints, in its own units.
func extra(b Benchmark, records []Record) []Named {
	switch b.Name {
	case DABench:
		return dabenchExtra(records)
	case TableBench:
		return tablebenchExtra(records)
	case Research:
		var content, format []float64
		for _, r := range records {
			if r.Value != nil {
				content, format = append(content, r.Content), append(format, r.Format)
			}
		}
		if len(content) == 0 {
			return nil
		}
		return []Named{{"Content (of 5)", mean(content)}, {"Format (of 5)", mean(format)}}
	}
	return nil
}

// dabenchExtra are PSAQ and UASQ in percent, over all samples.
func dabenchExtra(records []Record) []Named {
	var share []float64
	right, parts := 0, 0
	for _, r := range records {
		if r.Value != nil && r.Parts > 0 {
			share = append(share, float64(r.Right)/float64(r.Parts))
			right, parts = right+r.Right, parts+r.Parts
		}
	}
	if len(share) == 0 {
		return nil
	}
	return []Named{
		{"PSAQ (mean share of right sub-answers)", 100 * mean(share)},
		{"UASQ (right sub-answers of all)", 100 * float64(right) / float64(parts)},
	}
}

// tablebenchExtra is the script's overall, which adds a Pass@1 between 0 and 1 to percentages, beside the
// same without Visualization, as the main table of VeriGraph seems to be.
func tablebenchExtra(records []Record) []Named {
	var printed, without []float64
	for _, it := range byItem(records) {
		v, ok := it.mean(valueOf)
		if !ok {
			continue
		}
		types := it.records[0].Types
		kind, sub := one(types["qtype"]), one(types["qsubtype"])
		if metric, err := outcome.TableBenchMetric(kind, sub); err == nil && metric == "Pass@1" {
			printed = append(printed, v)
			continue
		}
		printed, without = append(printed, 100*v), append(without, 100*v)
	}
	if len(printed) == 0 {
		return nil
	}
	out := []Named{{"overall as the script prints it (Pass@1 not times 100)", mean(printed)}}
	if len(without) > 0 && !math.IsNaN(mean(without)) {
		out = append(out, Named{"without Visualization", mean(without)})
	}
	return out
}

func one(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
