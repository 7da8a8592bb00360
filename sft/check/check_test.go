package check_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/check"
	"github.com/verigraph/verigraph/sft/synth"
)

// built is one corpus with all outputs, for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "verigraph-check-")
	if err != nil {
		return dir, err
	}
	tables, err := synth.CSVTables("../../examples/dabench/tables", "dabench")
	if err != nil {
		return dir, err
	}
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if _, err = synth.Write(context.Background(), in, synth.Options{Tables: tables, N: 12, Seed: 1, Run: "s"}); err != nil {
		return dir, err
	}
	c := sft.Defaults()
	c.Select.Unlicensed, c.Outputs.Tokenized, c.Chunk, c.Validation = true, true, 5, 0.4
	c.Target.Tokenizer = filepath.Join(in, "tokenizer.json")
	if err := os.WriteFile(c.Target.Tokenizer, scripted.TokenizerJSON(), 0o644); err != nil {
		return dir, err
	}
	_, err = build.Run(context.Background(), build.Options{In: []string{in}, Config: c, Out: out})
	return dir, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// corpus is a copy of its own.
func corpus(t *testing.T) string {
	t.Helper()
	dir, err := built()
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.CopyFS(out, os.DirFS(filepath.Join(dir, "out"))))
	return out
}

func problems(t *testing.T, dir string) string {
	t.Helper()
	r, _, err := check.Dir(t.Context(), dir)
	require.NoError(t, err)
	var out []string
	for _, p := range r.Problems {
		out = append(out, p.String())
	}
	return strings.Join(out, "\n")
}

func TestAFinishedCorpusHoldsEveryInvariant(t *testing.T) {
	t.Parallel()
	dir := corpus(t)
	require.Empty(t, problems(t, dir))
	r, m, err := check.Dir(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, len(m.Files), r.Files)
	require.NotZero(t, r.Kinds[sft.Trajectory])
}

// rewrite changes the lines of a file and makes the manifest agree with its bytes.
func rewrite(t *testing.T, dir, path string, change func(line string) string) {
	t.Helper()
	full := filepath.Join(dir, path)
	data, err := os.ReadFile(full)
	require.NoError(t, err)
	var out bytes.Buffer
	for line := range strings.Lines(string(data)) {
		out.WriteString(change(line))
	}
	require.NotEqual(t, string(data), out.String())
	require.NoError(t, os.WriteFile(full, out.Bytes(), 0o644))
	seal(t, dir, path)
}

func TestEveryBrokenInvariantIsFoundInTheFiles(t *testing.T) {
	t.Parallel()
	const swift, chat = "swift/stage2-train-00000.jsonl", "chat/stage2-train-00000.jsonl"
	replace := func(path, from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			rewrite(t, dir, path, func(line string) string { return strings.Replace(line, from, to, 1) })
		}
	}
	for _, c := range []struct {
		name, want string
		spoil      func(*testing.T, string)
	}{
		{"a byte changed", "whose SHA-256 is not the manifest's", func(t *testing.T, dir string) {
			path := filepath.Join(dir, swift)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			data[40]++
			require.NoError(t, os.WriteFile(path, data, 0o644))
		}},
		{"a file is missing", "no such file", func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, chat))) }},
		{"a stranger", "swift/more.jsonl: does not stand in the manifest", func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "swift/more.jsonl"), nil, 0o644))
		}},
		{"no loss flag", "loss on every assistant message", replace(swift, `,"loss":true`, ``)},
		{"loss on an observation", "loss on every assistant message", replace(swift, `"role":"user",`, `"role":"user","loss":true,`)},
		{"an empty mask", "no trained turn", func(t *testing.T, dir string) {
			rewrite(t, dir, swift, func(l string) string { return strings.ReplaceAll(l, `"loss":true`, `"loss":false`) })
		}},
		{"roles", `assistant after "assistant"`, func(t *testing.T, dir string) {
			rewrite(t, dir, chat, func(l string) string {
				at := strings.Index(l, `"role":"assistant"`)
				return l[:at] + strings.Replace(l[at:], `"role":"user"`, `"role":"assistant"`, 1)
			})
		}},
		{"control text", "control text that a trainer would take for a token", replace(swift, `status: ok`, `status: <|im_end|>`)},
		{"other words", "differ from those in", replace(chat, `status: ok`, `status: no`)},
		{"other flags", "trained turns, in", replace(swift, `"loss":true`, `"loss":false`)},
		{"a row less", "rows, the manifest says", func(t *testing.T, dir string) {
			first := true
			rewrite(t, dir, swift, func(l string) string {
				if first {
					first = false
					return ""
				}
				return l
			})
		}},
		{"torn line", "has no end", func(t *testing.T, dir string) {
			rewrite(t, dir, swift, func(l string) string { return strings.TrimSuffix(l, "\n") })
		}},
		{"a file of another format", "stage2-train-00000.parquet", func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(dir, "verl/stage2-train-00000.parquet"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenized/stage2-train-00000.parquet"), data, 0o644))
			seal(t, dir, "tokenized/stage2-train-00000.parquet")
		}},
		{"counts", "records taken and", func(t *testing.T, dir string) {
			path := filepath.Join(dir, build.ManifestName)
			m, err := build.ReadManifest(dir)
			require.NoError(t, err)
			m.Taken++
			data, err := json.Marshal(m)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, data, 0o644))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := corpus(t)
			c.spoil(t, dir)
			require.Contains(t, problems(t, dir), c.want)
		})
	}
}

// seal makes the manifest say what a file holds now.
func seal(t *testing.T, dir, path string) {
	t.Helper()
	m, err := build.ReadManifest(dir)
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, path))
	require.NoError(t, err)
	for i := range m.Files {
		if f := &m.Files[i]; f.Path == path {
			f.Bytes, f.SHA256 = int64(len(data)), fmt.Sprintf("%x", sha256.Sum256(data))
		}
	}
	data, err = json.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, build.ManifestName), data, 0o644))
}
