package openai

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/trajectory"
)

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func TestStartWarnsWhereATimeLimitCantFitTheTokens(t *testing.T) {
	t.Parallel()
	cfg := Defaults()
	require.Empty(t, cfg.Warnings(), "the defaults fit")
	cfg.MaxTokens, cfg.RetryMaxTokens, cfg.Timeout = 16384, 16384, 300*time.Second // 409 s at 40 tokens/s
	warnings := cfg.Warnings()
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[0], "timeout 5m0s is shorter than the 6m50s")
	require.Contains(t, warnings[1], "deadline")
	cfg.TokensPerSecond = 200
	require.Empty(t, cfg.Warnings())
	cfg.TokensPerMinute = 100
	require.Contains(t, cfg.Warnings()[0], "tokens_per_minute")
}

func TestSpendIsBookedAlsoWhereNoVerdictCanBeRead(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ int, _ chatRequest) { say(w, "I can't decide.", "stop") })
	j := newJudge(t, url, nil)
	_, err := j.Entails(t.Context(), step)
	require.ErrorIs(t, err, reward.ErrNoVerdict)
	require.ErrorIs(t, err, reward.ErrText, "the judge was reached; this text got no answer")
	require.Equal(t, Usage{Calls: 2, UnreadReplies: 2, PromptTokens: 200, CompletionTokens: 20}, j.Usage())

	synctest.Test(t, func(t *testing.T) {
		j := bubbled(t, "half")
		_, err := j.Entails(t.Context(), step)
		require.ErrorIs(t, err, reward.ErrNoVerdict)
		require.NotErrorIs(t, err, reward.ErrText)
		require.Positive(t, j.Usage().PromptTokens, "an undecodable response is booked as estimated")
	})
}

// bubbled is a judge inside a bubble whose endpoint always has one fault.
func bubbled(t *testing.T, fault string) *Judge {
	t.Helper()
	cfg := Defaults()
	cfg.BaseURL, cfg.Model = "http://judge.invalid/v1", "m"
	j, err := New(cfg)
	require.NoError(t, err)
	j.transport(&endpoint{start: time.Now(), fault: func(int, time.Duration) string { return fault }})
	return j
}

func TestRefusedTextIsTheTextsFaultAndARefusedKeyIsNot(t *testing.T) {
	t.Parallel()
	for status, text := range map[int]bool{
		http.StatusBadRequest: true, http.StatusRequestEntityTooLarge: true, http.StatusUnprocessableEntity: true,
		http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusNotFound: false,
	} {
		url := serve(t, func(w http.ResponseWriter, _ int, _ chatRequest) {
			http.Error(w, `{"error": {"message": "maximum context length"}}`, status)
		})
		_, err := newJudge(t, url, nil).Entails(t.Context(), step)
		require.ErrorIs(t, err, reward.ErrNoVerdict)
		require.Equal(t, text, errorsIs(err, reward.ErrText), "%d", status)
	}
}

func TestJudgeKeepsToItsRequestsPerMinuteAndLosesNoVerdictByIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := Defaults()
		cfg.BaseURL, cfg.Model, cfg.RequestsPerMinute = "http://judge.invalid/v1", "m", 10
		j, err := New(cfg)
		require.NoError(t, err)
		e := &endpoint{start: time.Now(), fault: healthy}
		j.transport(e)
		start := time.Now()
		for range 30 {
			v, err := j.Entails(t.Context(), step)
			require.NoError(t, err)
			require.Equal(t, trajectory.Entailed, v.Kind)
		}
		require.InDelta(t, 120, time.Since(start).Seconds(), 1)
		require.Equal(t, 30, e.calls)
	})
}

func TestBreakerSparesAnEndpointThatIsDown(t *testing.T) {
	t.Parallel()
	count := func(failures int) int {
		calls := 0
		synctest.Test(t, func(t *testing.T) {
			cfg := Defaults()
			cfg.BaseURL, cfg.Model, cfg.BreakerFailures = "http://judge.invalid/v1", "m", failures
			j, err := New(cfg)
			require.NoError(t, err)
			e := &endpoint{start: time.Now(), fault: func(int, time.Duration) string { return "503" }}
			j.transport(e)
			done := make(chan error)
			for range 16 {
				go func() {
					_, err := j.Entails(t.Context(), step)
					done <- err
				}()
			}
			for range 16 {
				require.ErrorIs(t, <-done, reward.ErrNoVerdict)
			}
			calls = e.calls
		})
		return calls
	}
	with, without := count(4), count(0)
	require.Less(t, with, without/4, "%d calls with a breaker, %d without", with, without)
}

func TestRolloutsDeadlineBoundsAllItsJudging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := Defaults()
		cfg.BaseURL, cfg.Model = "http://judge.invalid/v1", "m"
		j, err := New(cfg)
		require.NoError(t, err)
		j.transport(&endpoint{start: time.Now(), fault: func(int, time.Duration) string { return "hang" }})
		preset, err := reward.LoadPreset("default")
		require.NoError(t, err)
		s, err := reward.New(reward.Config{Preset: preset, Judge: j, Deadline: 30 * time.Second})
		require.NoError(t, err)
		start := time.Now()
		score := s.Score(t.Context(), derivations()[12], promptOf(), referenceOf())
		require.Equal(t, trajectory.ScoreUnscored, score.Status)
		require.Contains(t, score.Reason, "deadline")
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestUnreadableTextIsUnjudgeableWhileTheJudgeIsWell(t *testing.T) {
	t.Parallel()
	preset, err := reward.LoadPreset("default")
	require.NoError(t, err)
	for _, c := range []struct {
		fault string
		well  bool
		want  trajectory.ScoreStatus
	}{{"prose", true, trajectory.ScoreUnjudgeable}, {"prose", false, trajectory.ScoreUnscored}, {"503", true, trajectory.ScoreUnscored}} {
		synctest.Test(t, func(t *testing.T) {
			s, err := reward.New(reward.Config{Preset: preset, Judge: bubbled(t, c.fault), Healthy: func(context.Context) bool { return c.well }})
			require.NoError(t, err)
			score := s.Score(t.Context(), derivations()[3], promptOf(), referenceOf())
			require.Equal(t, c.want, score.Status)
			require.Zero(t, score.Reward)
		})
	}
}
