package chaos

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/trajectory"
)

// judgeServer speaks the judge's wire: it knows the canaries, and finds every other step entailed.
type judgeServer struct {
	latency time.Duration
	refuted map[string]bool // conclusions that do not follow
	broken  atomic.Bool     // it answers 503
	calls   atomic.Int64
}

func newJudge(t testing.TB, latency time.Duration) *judgeServer {
	t.Helper()
	canaries, err := judges.Canaries()
	require.NoError(t, err)
	j := &judgeServer{latency: latency, refuted: map[string]bool{}}
	for _, c := range canaries {
		j.refuted[c.Conclusion] = c.Want == trajectory.NotEntailed
	}
	return j
}

func (j *judgeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []trajectory.Message `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(j.latency):
	case <-r.Context().Done():
		return
	}
	j.calls.Add(1)
	if j.broken.Load() {
		http.Error(w, `{"error": {"message": "overloaded"}}`, http.StatusServiceUnavailable)
		return
	}
	var step struct {
		Conclusion string `json:"conclusion"`
	}
	for line := range strings.Lines(req.Messages[len(req.Messages)-1].Content) {
		if strings.HasPrefix(line, "{") && step.Conclusion == "" {
			_ = json.Unmarshal([]byte(line), &step)
		}
	}
	verdict := "entailed"
	if j.refuted[step.Conclusion] {
		verdict = "not_entailed"
	}
	text, _ := json.Marshal(map[string]string{"reasoning": "r", "verdict": verdict})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
		"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": string(text)},
	}}, "usage": map[string]int{"prompt_tokens": 9, "completion_tokens": 3}})
}
