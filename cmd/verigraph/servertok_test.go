package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/scripted"
)

// A run that has no tokenizer.json, on a script that prints control tokens.
func TestARunRebuildsTheTokenizerFromTheServerAndItsRowsAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	script := writeScript(t, scriptLine{"0", []string{
		"<code_interpreter>\nprint('数据 <|im_end|> 👩')\n</code_interpreter>",
		"<code_interpreter>\nimport pandas as pd\nm = float(pd.read_csv('test_ave.csv')['Fare'].mean())\nsubmit_answer(bind('@mean_fare[{m:.2f}]', m=m))\n</code_interpreter>",
	}})
	loaded, err := scripted.LoadScript(script)
	require.NoError(t, err)
	server, err := scripted.New(loaded, scripted.Defaults())
	require.NoError(t, err)
	url, stop, err := server.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(stop)
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	require.NoError(t, os.WriteFile(file, scripted.TokenizerJSON(), 0o600))
	var ids [][]int32
	for _, tok := range []string{file, "server"} {
		out := t.TempDir()
		args := dabenchArgs(out, "", "--limit", "1", "--group-size", "2", "--model", "scripted", "--tokenizer", tok)
		for i, a := range args {
			if a == "script:" {
				args[i] = url
			}
		}
		code, stdout, stderr := verigraph(t, args...)
		require.Zero(t, code, stderr+stdout)
		_, rows := readRows(t, out)
		require.Len(t, rows, 2)
		ids = append(ids, append(rows[0].PromptIDs, rows[0].ResponseIDs...))
	}
	require.Equal(t, ids[0], ids[1])

	noDetokenize := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/detokenize" {
			http.NotFound(w, r)
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(noDetokenize.Close)
	text, err := probeCommand(t, server, "--tokenizer", "server")
	require.NoError(t, err)
	require.Contains(t, text, "same ids on")
	text, err = probeCommand(t, noDetokenize.Config.Handler, "--tokenizer", "server")
	require.Error(t, err)
	require.Contains(t, text, "-> /tokenize and /detokenize")
}
