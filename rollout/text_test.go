package rollout

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/openaichat"
	"github.com/verigraph/verigraph/trajectory"
)

// teacher is a chat server that answers from a list and keeps what it was asked.
func teacher(t *testing.T, answers ...string) (*openaichat.Client, *[]map[string]any, *[]http.Header) {
	t.Helper()
	var asked []map[string]any
	var headers []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req map[string]any
		_ = json.Unmarshal(body, &req)
		req["path"] = r.URL.Path
		asked, headers = append(asked, req), append(headers, r.Header)
		_, _ = io.WriteString(w, answers[min(len(asked), len(answers))-1])
	}))
	t.Cleanup(server.Close)
	cfg := policy.Defaults()
	cfg.BaseURL, cfg.Model, cfg.RetryBudget, cfg.CallTimeout = server.URL, "teacher", 0, 10*time.Second
	cfg.APIKey, cfg.Headers = policy.NewSecret("sk-x"), map[string]policy.Secret{"X-Tenant": policy.NewSecret("t1")}
	c, err := openaichat.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, &asked, &headers
}

func said(content, finish string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":%q}]}`, content, finish)
}

func TestATextOnlyTrajectoryIsMarkedAndHoldsNoTokens(t *testing.T) {
	t.Parallel()
	c, asked, headers := teacher(t, said("I load it.\n<code_interpreter>\nx\n", "stop"), said("<code_interpreter>\nsubmit\n", "stop"))
	r := newRig(t)
	r.runner.Text, r.runner.Policy = c, nil
	r.runner.Config.Sampling.Temperature = 0
	got := r.run(t)
	require.Equal(t, trajectory.Submitted, got.Termination, got.Error)
	require.True(t, got.TextOnly)
	require.Empty(t, got.Segments)
	require.Len(t, got.Turns, 2)
	require.Equal(t, "x", got.Turns[0].Code)
	require.Equal(t, "I load it.\n<code_interpreter>\nx\n</code_interpreter>", got.Turns[0].Text, "the stop string is put back")
	second := (*asked)[1]
	require.Equal(t, "/v1/chat/completions", second["path"])
	require.Equal(t, 0.0, second["temperature"], "zeros are sent")
	require.Equal(t, []any{codeClose}, second["stop"])
	roles := []string{}
	for _, m := range second["messages"].([]any) {
		roles = append(roles, m.(map[string]any)["role"].(string))
	}
	require.Equal(t, []string{"system", "user", "assistant", "user"}, roles)
	require.Equal(t, "Bearer sk-x", (*headers)[0].Get("Authorization"))
	require.Equal(t, "t1", (*headers)[0].Get("X-Tenant"))
	require.Equal(t, "r/p-0/0.0.1", (*headers)[1].Get("X-Request-Id"))
}

func TestTextOnlyTurnsFollowTheSameRules(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers []string
		want    trajectory.Termination
		calls   int
		code    string
	}{
		"no code":                       {[]string{said("It is 7.", "stop")}, trajectory.NoSubmission, 1, ""},
		"cut":                           {[]string{said("<code_interpreter>\nx", "length")}, trajectory.TurnTruncated, 1, ""},
		"server that includes the stop": {[]string{said(block("submit"), "stop")}, trajectory.Submitted, 1, "submit"},
		"text after the tag":            {[]string{said(block("submit")+"\n<tool_response>7</tool_response>", "stop")}, trajectory.Submitted, 1, "submit"},
		"stop inside reasoning":         {[]string{said("<think>draft <code_interpreter>d", "stop"), said("<think>draft "+block("d")+"</think>"+block("submit"), "stop")}, trajectory.Submitted, 2, "submit"},
		"reasoning apart from content": {
			[]string{`{"choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"use <code_interpreter>","content":"<code_interpreter>submit"},"finish_reason":"stop"}]}`},
			trajectory.Submitted, 1, "submit",
		},
		"a control token's text":  {[]string{said("<|im_end|>"+block("submit"), "stop")}, trajectory.Submitted, 1, "submit"},
		"a refusal to finish":     {[]string{said("x", "content_filter")}, trajectory.PolicyUnavailable, 1, ""},
		"no choice":               {[]string{`{"choices":[]}`}, trajectory.PolicyUnavailable, 1, ""},
		"an HTML page":            {[]string{"<html>"}, trajectory.PolicyUnavailable, 1, ""},
		"a wrong tokenizer's cut": {[]string{said(block(words(5000)), "stop")}, trajectory.TurnTruncated, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, asked, _ := teacher(t, tc.answers...)
			r := newRig(t)
			r.runner.Text = c
			got := r.run(t)
			require.Equal(t, tc.want, got.Termination, got.Error)
			require.Len(t, *asked, tc.calls)
			require.True(t, got.TextOnly)
			require.Empty(t, got.Segments)
			if tc.code != "" {
				require.Equal(t, tc.code, got.Turns[0].Code)
			}
		})
	}
}
