package build_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/output"
	"github.com/verigraph/verigraph/sft/synth"
)

const tables = "../../examples/dabench/tables"

// archive writes synthetic trajectories.
func archive(t testing.TB, n int) (string, synth.Planted) {
	t.Helper()
	list, err := synth.CSVTables(tables, "dabench")
	require.NoError(t, err)
	dir := t.TempDir()
	p, err := synth.Write(t.Context(), dir, synth.Options{Tables: list, N: n, Seed: 3, Run: "s"})
	require.NoError(t, err)
	return dir, p
}

func config() sft.Config {
	one := 1.0
	c := sft.Defaults()
	c.Licences = map[string]string{"synthetic-dabench": "Apache-2.0"}
	c.Select.MinAccuracy, c.Select.MinStructural = &one, &one
	c.Chunk, c.Validation = 7, 0.3
	return c
}

func run(t testing.TB, o build.Options) *build.Manifest {
	t.Helper()
	m, err := build.Run(t.Context(), o)
	require.NoError(t, err)
	return m
}

// hashes of every file below a directory.
func hashes(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	}))
	return out
}

func TestEveryRecordIsTakenOrCountedByItsFirstReason(t *testing.T) {
	t.Parallel()
	in, p := archive(t, 150)
	m := run(t, build.Options{In: []string{in}, Config: config(), Out: t.TempDir()})
	require.Equal(t, 150, m.Read)
	rejected := 0
	for _, n := range m.Rejected {
		rejected += n
	}
	require.Equal(t, m.Read, m.Taken+rejected)
	require.Equal(t, map[sft.Reason]int{
		sft.BadTermination: p.NotSubmitted, sft.LowAccuracy: p.Wrong, sft.Secret: p.Secrets, sft.Personal: p.Personal, sft.NearDuplicate: p.Copies,
	}, withZeros(m.Rejected, sft.Secret, sft.Personal))
	require.NotZero(t, p.Copies*p.Wrong*p.NotSubmitted*p.Control)
	require.NotZero(t, m.Text.Escaped)
	require.Equal(t, p.Reports, m.Kinds[sft.Synthesis].Samples)
	require.Equal(t, m.Taken, m.Kinds[sft.Trajectory].Samples)
}

func withZeros(m map[sft.Reason]int, keys ...sft.Reason) map[sft.Reason]int {
	for _, k := range keys {
		m[k] += 0
	}
	return m
}

func TestTheSameInputsGiveTheSameBytesHoweverTheWorkIsDivided(t *testing.T) {
	t.Parallel()
	in, _ := archive(t, 24)
	a, b := t.TempDir(), t.TempDir()
	run(t, build.Options{In: []string{in}, Config: config(), Out: a})
	run(t, build.Options{In: []string{in}, Config: config(), Out: b})
	first := hashes(t, a)
	require.Equal(t, first, hashes(t, b))
	require.Greater(t, len(first), 20)
	c := config()
	c.Seed = 2
	other := t.TempDir()
	run(t, build.Options{In: []string{in}, Config: c, Out: other})
	require.NotEqual(t, first, hashes(t, other), "the seed decides the split")
	again := run(t, build.Options{In: []string{in}, Config: config(), Out: a})
	require.Equal(t, 24, again.Read, "a finished build is not built again")
}

func TestAnOutputDirectoryOfAnotherBuildIsRefused(t *testing.T) {
	t.Parallel()
	in, _ := archive(t, 20)
	out := t.TempDir()
	run(t, build.Options{In: []string{in}, Config: config(), Out: out})
	c := config()
	c.Chunk = 9
	_, err := build.Run(t.Context(), build.Options{In: []string{in}, Config: c, Out: out})
	require.ErrorContains(t, err, "holds a build of other inputs or another configuration")
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "thesis.txt"), []byte("x"), 0o644))
	_, err = build.Run(t.Context(), build.Options{In: []string{in}, Config: config(), Out: foreign})
	require.ErrorContains(t, err, "is not empty and holds no build")
}

// TestABuildThatIsStoppedAnywhereGoesOnToTheSameBytes cuts the build at every line of its progress.
func TestABuildThatIsStoppedAnywhereGoesOnToTheSameBytes(t *testing.T) {
	t.Parallel()
	in, _ := archive(t, 24)
	whole := t.TempDir()
	run(t, build.Options{In: []string{in}, Config: config(), Out: whole})
	want := hashes(t, whole)
	out := t.TempDir()
	for stops := 0; ; stops++ {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := build.Run(ctx, build.Options{In: []string{in}, Config: config(), Out: out, Kept: func() { cancel() }})
		cancel()
		if err == nil {
			require.Equal(t, 7, stops, "four chunks and four parts, and the end")
			break
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, want, hashes(t, out))
}

func TestInputsThatChangedUnderAnUnfinishedBuildAreAnError(t *testing.T) {
	t.Parallel()
	in, _ := archive(t, 40)
	out := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	left := 4 // chunks of the scan, three of them and one part
	_, err := build.Run(ctx, build.Options{In: []string{in}, Config: config(), Out: out, Kept: func() {
		if left--; left == 0 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	files, err := filepath.Glob(filepath.Join(in, "trajectories", "*", "*.json"))
	require.NoError(t, err)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(f, []byte(strings.Replace(string(data), "\"attempt\": 0", "\"attempt\": 1", 1)), 0o644))
	}
	_, err = build.Run(t.Context(), build.Options{In: []string{in}, Config: config(), Out: out})
	require.ErrorContains(t, err, "the inputs changed since the build began")
}

func TestABrokenRecordIsAnErrorThatNamesItsFile(t *testing.T) {
	t.Parallel()
	in, _ := archive(t, 20)
	files, err := filepath.Glob(filepath.Join(in, "trajectories", "*", "*.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[7], []byte(`{"trajectory": {`), 0o644))
	_, err = build.Run(t.Context(), build.Options{In: []string{in}, Config: config(), Out: t.TempDir()})
	require.ErrorContains(t, err, files[7])
}

func TestNeitherAPromptNorATableOfValidationIsTrainedOn(t *testing.T) {
	t.Parallel()
	in, _ := archive(t, 100)
	out := t.TempDir()
	m := run(t, build.Options{In: []string{in}, Config: config(), Out: out})
	prompts, files := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, f := range m.Files {
		if f.Format != "swift" {
			continue
		}
		if prompts[f.Split] == nil {
			prompts[f.Split], files[f.Split] = map[string]bool{}, map[string]bool{}
		}
		for _, row := range swiftRows(t, filepath.Join(out, f.Path)) {
			prompts[f.Split][row.PromptID] = true
			record, _, _ := strings.Cut(row.ID, "#")
			for _, sha := range tablesOf(t, in, record) {
				files[f.Split][sha] = true
			}
		}
	}
	require.NotEmpty(t, prompts[build.Validation])
	require.LessOrEqual(t, float64(m.Kinds[sft.Trajectory].Validation), config().Validation*float64(m.Taken))
	for _, both := range []map[string]map[string]bool{prompts, files} {
		for name := range both[build.Validation] {
			require.False(t, both[build.Train][name], name)
		}
	}
}

func tablesOf(t testing.TB, in, record string) []string {
	parts := strings.Split(record, "/")
	data, err := os.ReadFile(filepath.Join(in, "trajectories", parts[1], parts[2]+".json"))
	require.NoError(t, err)
	var s struct {
		Trajectory struct {
			Graph struct {
				Nodes []struct{ SHA256 string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &s))
	var out []string
	for _, n := range s.Trajectory.Graph.Nodes {
		if n.SHA256 != "" {
			out = append(out, n.SHA256)
		}
	}
	return out
}

func swiftRows(t testing.TB, path string) []output.SwiftRow {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var out []output.SwiftRow
	for dec := json.NewDecoder(file); dec.More(); {
		var row output.SwiftRow
		require.NoError(t, dec.Decode(&row))
		out = append(out, row)
	}
	return out
}

func TestQuotasBoundTheKindsOfStageOneAndPerPromptTheRecords(t *testing.T) {
	t.Parallel()
	in, _ := archive(t, 100)
	c := config()
	c.Stage1.Planning, c.Stage1.Bind, c.Stage1.Infer = 10, 0, -1
	c.Select.PerPrompt, c.Select.Prefer = 1, sft.PreferDiverse
	m := run(t, build.Options{In: []string{in}, Config: c, Out: t.TempDir()})
	require.Equal(t, 10, m.Kinds[sft.Planning].Samples)
	require.Greater(t, m.Kinds[sft.Planning].Candidates, 10)
	require.Zero(t, m.Kinds[sft.Bind].Samples)
	require.Equal(t, m.Kinds[sft.Infer].Candidates, m.Kinds[sft.Infer].Samples)
	s := m.Sources["synthetic-dabench"]
	require.Equal(t, s.TakenPrompts, s.Taken)
	require.NotZero(t, m.Rejected[sft.PerPrompt])
}

func TestSamplesThatAreTooLongAreCutOrCountedByKind(t *testing.T) {
	t.Parallel()
	in, _ := archive(t, 12)
	c := config()
	c.Target.Tokenizer = filepath.Join(in, "tokenizer.json")
	require.NoError(t, os.WriteFile(c.Target.Tokenizer, scripted.TokenizerJSON(), 0o644))
	whole := run(t, build.Options{In: []string{in}, Config: c, Out: t.TempDir()})
	c.Target.MaxTokens = 6000
	out := t.TempDir()
	m := run(t, build.Options{In: []string{in}, Config: c, Out: out})
	require.NotZero(t, m.Kinds[sft.Trajectory].Cut)
	submit := m.Kinds[sft.Submit]
	require.NotZero(t, submit.TooLong, "a single turn behind a long context cannot be cut")
	require.Equal(t, whole.Kinds[sft.Submit].Samples, submit.Samples+submit.TooLong)
	for _, f := range m.Files {
		if f.Format == "swift" {
			for _, row := range swiftRows(t, filepath.Join(out, f.Path)) {
				require.True(t, row.Messages[len(row.Messages)-1].Trained(), row.ID)
			}
		}
	}
}
