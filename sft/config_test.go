package sft_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/sft"
)

func TestEveryShippedConfigurationOfACorpusParsesAndValidates(t *testing.T) {
	t.Parallel()
	c := sft.Defaults()
	require.NoError(t, c.Validate())
	files, err := filepath.Glob("../configs/sft/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 5)
	for _, f := range files {
		if filepath.Base(f) == "generate.yaml" { // a plan, not a corpus: cmd/sft-builder reads it
			continue
		}
		_, err := sft.Load(f)
		require.NoError(t, err)
	}
}

func TestTheAblationsDifferFromThePaperInTheirStageOnly(t *testing.T) {
	t.Parallel()
	load := func(name string) sft.Config {
		c, err := sft.Load("../configs/sft/" + name)
		require.NoError(t, err)
		return c
	}
	paper, one, two := load("paper.yaml"), load("without-stage1.yaml"), load("without-stage2.yaml")
	require.True(t, paper.Stage1.Enabled && paper.Stage2.Enabled && !one.Stage1.Enabled && !two.Stage2.Enabled)
	one.Stage1, two.Stage2 = paper.Stage1, paper.Stage2
	require.Equal(t, paper, one)
	require.Equal(t, paper, two)
}

// Each testdata/*.bad.yaml starts with "# want: TEXT" lines that its error must hold.
func TestEveryBadConfigurationOfACorpusFailsWithItsListedMessages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.bad.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		_, err = sft.Load(f)
		wants := 0
		for line := range strings.Lines(string(data)) {
			if want, ok := strings.CutPrefix(line, "# want: "); ok {
				wants++
				require.ErrorContains(t, errors.Join(errors.New("loaded"), err), strings.TrimSpace(want), f)
			}
		}
		require.NotZero(t, wants, f)
	}
}
