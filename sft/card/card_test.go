package card

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
)

func manifest() *build.Manifest {
	m := &build.Manifest{
		Config: sft.Defaults(), Build: strings.Repeat("ab", 32), Read: 100, Taken: 60,
		Inputs:   []build.Input{{Name: "run|<b>1</b>", Records: 100, SHA256: strings.Repeat("cd", 32)}},
		Rejected: map[sft.Reason]int{sft.LowAccuracy: 25, sft.NearDuplicate: 15},
		Sources:  map[string]*build.SourceCount{"dabench": {Licences: map[string]int{"Apache-2.0": 60}, Read: 100, Taken: 60}},
		Kinds:    map[sft.Kind]*build.KindCount{sft.Trajectory: {Samples: 60, Validation: 2, ThinkBlocks: 210}, sft.Bind: {Samples: 12, Candidates: 90}},
		Text:     build.TextCount{ThinkBlocks: 210, Escaped: 7},
		Shape:    build.Shape{Turns: map[int]int{3: 40, 5: 20}, Characters: map[int]int{13: 60}},
	}
	m.Config.Decontaminate = []sft.Benchmark{{Name: "bench", Match: []string{"questions", "tables"}}}
	m.Contaminated = map[string]int{"bench/questions": 4}
	return m
}

func TestTheCardStatesEachPartOfTheManifestInBothForms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, Write(dir, manifest()))
	for _, name := range []string{MarkdownName, HTMLName} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		text := string(data)
		for _, want := range []string{
			"60 of 100 records were taken (60.0 %)", "accuracy", "Apache-2.0", "dabench", "Primitives", "bench/questions", "bench/tables",
			"15 of 75 records left out, 80.0 % kept", "210 in the stored turns", "broken with a zero-width space 7 times", "8192",
			"The end-of-turn token is trained: the target run stops at it.",
		} {
			require.Contains(t, text, want, name)
		}
		require.NotContains(t, text, "<b>1</b>", "names from inputs are no markup")
	}
}

func TestThePageNeedsNothingFromElsewhereAndHasAPlotOfEachDistribution(t *testing.T) {
	t.Parallel()
	page, err := htmlOf(sectionsOf(manifest()))
	require.NoError(t, err)
	require.NotRegexp(t, regexp.MustCompile(`(?i)<script|<link|src=|url\(|https?://`), page)
	require.Equal(t, 8, strings.Count(page, "<svg "), "sources, rejections, kinds, turns, lengths, primitives, near-duplicates, decontamination")
	require.NotContains(t, page, "NaN")
}

func TestTheCardSaysWhetherTheEndOfTurnTokenIsTrained(t *testing.T) {
	t.Parallel()
	m := manifest()
	m.Config.Target.Stop = rollout.StopAtCodeTag
	require.Contains(t, markdownOf(sectionsOf(m)), "is trained all the same")
	m.Config.Target.TrainEndOfTurn = false
	require.Contains(t, markdownOf(sectionsOf(m)), "the end-of-turn token behind a turn is not trained")
}
