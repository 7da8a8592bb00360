package reward_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
)

func TestDefaultsValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, reward.Defaults().Validate())
}

func TestEveryShippedPresetParsesStrictlyUnderItsOwnName(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"default", "official", "outcome_only", "paper", "reference"}, reward.PresetNames())
	hashes := map[string]bool{}
	for _, name := range reward.PresetNames() {
		p, err := reward.LoadPreset(name)
		require.NoError(t, err)
		require.Equal(t, name, p.Name)
		fromFile, err := reward.LoadPreset(filepath.Join("..", "configs", "reward", name+".yaml"))
		require.NoError(t, err)
		require.Equal(t, p, fromFile)
		require.Len(t, p.Hash(), 64)
		hashes[p.Hash()] = true
	}
	require.Len(t, hashes, 5)
}

func TestShippedPresetsHoldTheNumbersOfTheirSources(t *testing.T) {
	t.Parallel()
	paper, err := reward.LoadPreset("paper")
	require.NoError(t, err)
	require.Equal(t, reward.Weights{Process: 1, Infer: 1, Outcome: 1}, paper.Weights)
	require.Equal(t, reward.ScopeAll, paper.Infer.Scope)
	require.Nil(t, paper.Clip)
	require.Zero(t, paper.MissingSubmissionPenalty)
	ref, err := reward.LoadPreset("reference")
	require.NoError(t, err)
	require.Equal(t, reward.Weights{Process: 0.40, Infer: 0.15, Outcome: 0.35}, ref.Weights)
	require.Equal(t, &reward.Clip{Min: -0.3, Max: 0.8}, ref.Clip)
	require.InDelta(t, -1.0, ref.MissingSubmissionPenalty, 0)
	only, err := reward.LoadPreset("outcome_only")
	require.NoError(t, err)
	require.Equal(t, reward.Weights{Outcome: 1}, only.Weights)
	def, err := reward.LoadPreset("default")
	require.NoError(t, err)
	require.Equal(t, reward.Defaults(), def, "the shipped file and the built-in default are one preset")
}

func TestBadPresetFilesFailWithTheirListedMessage(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.bad.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 6)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			_, err = reward.LoadPreset(file)
			require.Error(t, err)
			for _, line := range strings.Split(string(data), "\n") {
				if want, ok := strings.CutPrefix(line, "# want: "); ok {
					require.ErrorContains(t, err, want)
				}
			}
			require.ErrorContains(t, err, file)
		})
	}
}

func TestPresetFileOverridesTheDefaultsKeyByKey(t *testing.T) {
	t.Parallel()
	p, err := reward.ParsePreset("x", []byte("name: mine\nweights: {outcome: 0.5}\n"))
	require.NoError(t, err)
	want := reward.Defaults()
	want.Name, want.Weights.Outcome = "mine", 0.5
	require.Equal(t, want, p)
	require.NotEqual(t, reward.Defaults().Hash(), p.Hash())
}

func TestUnknownPresetNamesTheShippedOnes(t *testing.T) {
	t.Parallel()
	_, err := reward.LoadPreset("papr")
	require.ErrorContains(t, err, `"papr"`)
	require.ErrorContains(t, err, "default, official, outcome_only, paper, reference")
	_, err = reward.LoadPreset("no/such.yaml")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPresetRefusesNumbersThatAreNotFinite(t *testing.T) {
	t.Parallel()
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		p := reward.Defaults()
		p.Weights.Infer, p.MissingSubmissionPenalty, p.Clip = bad, bad, &reward.Clip{Min: bad, Max: 1}
		err := p.Validate()
		require.ErrorContains(t, err, "weights.infer")
		require.ErrorContains(t, err, "missing_submission_penalty")
		require.ErrorContains(t, err, "clip.min")
	}
}
