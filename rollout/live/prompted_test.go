package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// prompted gives the server's own log-probs of ids as a prompt; the first, which has none, is NaN.
func (s *server) prompted(t *testing.T, ids []int32) []float64 {
	data, status := s.ask(t, "/v1/completions", map[string]any{
		"model": s.model, "prompt": ids, "max_tokens": 1, "prompt_logprobs": 0, "temperature": 1,
		"top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1,
	})
	require.Equal(t, http.StatusOK, status, string(data))
	if out, err := vllmPrompt(data, ids); err == nil {
		return out
	}
	// SGLang ignores prompt_logprobs there; its own route has them.
	data, status = s.ask(t, "/generate", map[string]any{
		"input_ids": ids, "return_logprob": true, "logprob_start_len": 0,
		"sampling_params": map[string]any{"max_new_tokens": 1, "temperature": 1},
	})
	require.Equal(t, http.StatusOK, status, string(data))
	out, err := sglangPrompt(data, ids)
	require.NoError(t, err)
	return out
}

func (s *server) ask(t *testing.T, path string, request map[string]any) ([]byte, int) {
	t.Helper()
	body, err := json.Marshal(request)
	require.NoError(t, err)
	resp, err := http.Post(s.url+path, "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return data, resp.StatusCode
}

// vllmPrompt reads prompt_logprobs of /v1/completions: a map from token id for each position, null at the first.
// An id that is not there is an error: read as 0 it would make every log-prob of the other side the difference.
func vllmPrompt(data []byte, ids []int32) ([]float64, error) {
	var a struct {
		Choices []struct {
			PromptLogprobs []map[string]struct {
				Logprob float64 `json:"logprob"`
			} `json:"prompt_logprobs"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, err
	}
	if len(a.Choices) != 1 || len(a.Choices[0].PromptLogprobs) != len(ids) {
		return nil, fmt.Errorf("no prompt_logprobs for each of %d ids", len(ids))
	}
	out := []float64{math.NaN()}
	for i := 1; i < len(ids); i++ {
		p, ok := a.Choices[0].PromptLogprobs[i][fmt.Sprint(ids[i])]
		if !ok {
			return nil, fmt.Errorf("prompt_logprobs at %d have no id %d", i, ids[i])
		}
		out = append(out, p.Logprob)
	}
	return out, nil
}

// sglangPrompt reads meta_info.input_token_logprobs of /generate: [log-prob, id, text] for each id from
// logprob_start_len on, the log-prob null at the first id of all.
func sglangPrompt(data []byte, ids []int32) ([]float64, error) {
	var a struct {
		Meta struct {
			Input [][]any `json:"input_token_logprobs"`
		} `json:"meta_info"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, err
	}
	if len(a.Meta.Input) != len(ids) {
		return nil, fmt.Errorf("%d input_token_logprobs, %d ids", len(a.Meta.Input), len(ids))
	}
	out := []float64{math.NaN()}
	for i, entry := range a.Meta.Input {
		if len(entry) < 2 || entry[1] != float64(ids[i]) {
			return nil, fmt.Errorf("input_token_logprobs at %d are %v, the id is %d", i, entry, ids[i])
		}
		if i == 0 {
			continue
		}
		lp, ok := entry[0].(float64)
		if !ok {
			return nil, fmt.Errorf("input_token_logprobs at %d hold no log-prob", i)
		}
		out = append(out, lp)
	}
	return out, nil
}

func TestLogProbsOfAPromptAreReadAtTheirOwnPositionsAndNeverAsZero(t *testing.T) {
	t.Parallel()
	ids := []int32{5, 6, 7}
	const (
		vllm   = `{"choices":[{"prompt_logprobs":[null,{"6":{"logprob":-1.5},"9":{"logprob":-0.5}},{"7":{"logprob":-2.5}}]}]}`
		sglang = `{"text":"x","meta_info":{"input_token_logprobs":[[null,5,null],[-1.5,6,null],[-2.5,7,"c"]]}}`
	)
	for name, read := range map[string]func() ([]float64, error){
		"vLLM":   func() ([]float64, error) { return vllmPrompt([]byte(vllm), ids) },
		"SGLang": func() ([]float64, error) { return sglangPrompt([]byte(sglang), ids) },
	} {
		got, err := read()
		require.NoError(t, err, name)
		require.True(t, math.IsNaN(got[0]), name)
		require.Equal(t, []float64{-1.5, -2.5}, got[1:], name)
	}
	for _, body := range []string{`{"choices":[{"text":"x"}]}`, `{"choices":[{"prompt_logprobs":[null,{"9":{"logprob":-1}},{"7":{"logprob":-2}}]}]}`} {
		_, err := vllmPrompt([]byte(body), ids)
		require.Error(t, err, body)
	}
	for _, body := range []string{
		`{"meta_info":{}}`, `{"meta_info":{"input_token_logprobs":[[null,5,null],[null,6,null],[-2.5,7,null]]}}`,
		`{"meta_info":{"input_token_logprobs":[[null,6,null],[-1.5,7,null],[-2.5,8,null]]}}`,
	} {
		_, err := sglangPrompt([]byte(body), ids)
		require.Error(t, err, body)
	}
}
