package source_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/output"
	"github.com/verigraph/verigraph/sft/source"
)

const public = "../testdata/public/sft_data.json"

type publicRecord struct {
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Loss    *bool  `json:"loss"`
	} `json:"messages"`
}

func TestThePublicSampleComesOutWithTheSameMessagesAndLossFlags(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(public)
	require.NoError(t, err)
	var want []publicRecord
	require.NoError(t, json.Unmarshal(data, &want))
	c, err := sft.Load("../../configs/sft/import.yaml")
	require.NoError(t, err)
	out := t.TempDir()
	m, err := build.Run(t.Context(), build.Options{In: []string{public}, Config: c, Out: out})
	require.NoError(t, err)
	require.Equal(t, 10, m.Taken)
	require.Equal(t, 12, m.Kinds[sft.Imported].TrainedTurns)
	require.Equal(t, 58, m.Kinds[sft.Imported].ContextTurns)
	written := filepath.Join(out, "swift", "stage2-train-00000.jsonl")
	file, err := os.Open(written)
	require.NoError(t, err)
	defer file.Close()
	dec := json.NewDecoder(file)
	for i := range want {
		var got output.SwiftRow
		require.NoError(t, dec.Decode(&got))
		require.Len(t, got.Messages, len(want[i].Messages), i)
		for k, m := range want[i].Messages {
			require.Equal(t, sft.Message(m), got.Messages[k], "record %d message %d", i, k)
		}
	}
	require.False(t, dec.More())
	// What was written is read again as it is.
	again := t.TempDir()
	_, err = build.Run(t.Context(), build.Options{In: []string{written}, Config: c, Out: again})
	require.NoError(t, err)
	rows := func(dir string) (out []json.RawMessage) {
		data, err := os.ReadFile(filepath.Join(dir, "chat", "stage2-train-00000.jsonl"))
		require.NoError(t, err)
		for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
			var row struct{ Messages json.RawMessage }
			require.NoError(t, dec.Decode(&row))
			out = append(out, row.Messages)
		}
		return out
	}
	require.Equal(t, rows(out), rows(again))
}

func TestBrokenFinishedSamplesAreErrorsThatNameFileAndPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, text, want string }{
		{"no array", "a.json", `{"messages": []}`, "is not an array of records"},
		{"torn array", "a.json", `[{"messages": [{"role": "user", "content": "q"}]}`, "EOF"},
		{"an unknown key", "a.json", `[{"messages": [{"role": "user", "content": "q"}], "images": []}]`, `record 0: json: unknown field "images"`},
		{"tool calls would be lost", "a.jsonl", "\n" + `{"messages": [{"role": "assistant", "content": "", "tool_calls": []}]}`, `line 2: json: unknown field "tool_calls"`},
		{"an unknown role", "a.jsonl", `{"messages": [{"role": "tool", "content": "q"}]}`, `line 1: messages[0].role: "tool" is none of`},
		{"loss on a user", "a.jsonl", `{"messages": [{"role": "user", "content": "q", "loss": true}]}`, "messages[0].loss: on a user message"},
		{"roles that do not alternate", "a.jsonl", `{"messages": [{"role": "user", "content": "q"}, {"role": "user", "content": "r"}]}`, "messages[1].role: user after user"},
		{"nothing", "a.jsonl", `{"messages": []}`, "messages: empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), c.file)
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o644))
			s, err := source.Open(path)
			require.NoError(t, err)
			for ref, e := range s.Refs() {
				if err = e; err == nil {
					_, err = ref.Load()
				}
				if err != nil {
					break
				}
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
		})
	}
}

func TestWhatIsNoInputIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := source.Open(dir)
	require.ErrorContains(t, err, "holds neither trajectories/index.jsonl nor Parquet files")
	_, err = source.Open(filepath.Join(dir, "missing"))
	require.ErrorContains(t, err, "no such file")
	path := filepath.Join(dir, "a.csv")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	_, err = source.Open(path)
	require.ErrorContains(t, err, `".csv" is none of .json, .jsonl, .parquet`)
}
