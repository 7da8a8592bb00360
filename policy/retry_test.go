package policy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyOverloadAndUnreachableAreRetriedWithinTheBudget(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for name, tc := range map[string]struct {
		e      Error
		try    int
		spent  time.Duration
		jitter float64
		want   time.Duration
		again  bool
	}{
		"first":              {Error{Outcome: Unreachable}, 1, 0, 0, 50 * time.Millisecond, true},
		"first, full jitter": {Error{Outcome: Unreachable}, 1, 0, 0.999999, 99 * time.Millisecond, true},
		"fourth":             {Error{Outcome: Overloaded}, 4, 0, 0, 400 * time.Millisecond, true},
		"capped":             {Error{Outcome: Overloaded}, 200, 0, 0, 5 * time.Second, true},
		"server's wish":      {Error{Outcome: Overloaded, RetryAfter: 7 * time.Second}, 1, 0, 0, 7 * time.Second, true},
		"wish past budget":   {Error{Outcome: Overloaded, RetryAfter: 61 * time.Second}, 1, 0, 0, 61 * time.Second, false},
		"budget spent":       {Error{Outcome: Unreachable}, 1, minute, 0, 50 * time.Millisecond, false},
		"rejected":           {Error{Outcome: Rejected}, 1, 0, 0, 0, false},
		"context full":       {Error{Outcome: ContextFull}, 1, 0, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, again := RetryDelay(&tc.e, tc.try, tc.spent, minute, tc.jitter)
			require.Equal(t, tc.again, again)
			require.InDelta(t, tc.want, got, float64(time.Millisecond))
		})
	}
}

func TestRetryAfterIsSecondsOrADateAndBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "x": 0, "-3": 0, "7": 7 * time.Second, "99999999999": maxRetryAfter,
		now.Add(9 * time.Second).Format(http.TimeFormat):  9 * time.Second,
		now.Add(-9 * time.Second).Format(http.TimeFormat): 0,
	} {
		require.Equal(t, want, retryAfter(value, now), value)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

const goodAnswer = `{"choices":[{"index":0,"finish_reason":"stop","token_ids":[7],"prompt_token_ids":[1],
	"logprobs":{"tokens":["token_id:7"],"token_logprobs":[-1]}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`

func fakeClient(t *testing.T, budget time.Duration, f roundTrip) *Client {
	t.Helper()
	cfg := Defaults()
	cfg.BaseURL, cfg.Model, cfg.RetryBudget, cfg.Transport = "http://policy", "m", budget, f
	c, err := NewClient(cfg)
	require.NoError(t, err)
	return c
}

func TestClientWaitsAsLongAsTheServerAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := fakeClient(t, time.Minute, func(*http.Request) (*http.Response, error) {
			if calls++; calls == 1 {
				return respond(429, "", "Retry-After", "30"), nil
			}
			return respond(200, goodAnswer), nil
		})
		begin := time.Now()
		_, err := c.Complete(t.Context(), Request{Prompt: []int32{1}, MaxTokens: 1})
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, time.Since(begin))
	})
}

func TestClientGivesUpWhenTheBudgetIsSpent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := fakeClient(t, time.Minute, func(*http.Request) (*http.Response, error) {
			calls++
			return nil, errors.New("connection refused")
		})
		begin := time.Now()
		_, err := c.Complete(t.Context(), Request{Prompt: []int32{1}, MaxTokens: 1})
		var failed *Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, Unreachable, failed.Outcome)
		require.Less(t, time.Since(begin), time.Minute)
		require.Greater(t, calls, 8)
		require.Less(t, calls, 30)
	})
}

func TestACallThatRanIntoItsTimeLimitIsNotRepeatedPastTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := fakeClient(t, time.Minute, func(r *http.Request) (*http.Response, error) {
			calls++
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		begin := time.Now()
		_, err := c.Complete(t.Context(), Request{Prompt: []int32{1}, MaxTokens: 1})
		require.ErrorContains(t, err, "no complete answer within 20m0s")
		require.Equal(t, 1, calls)
		require.Equal(t, 20*time.Minute, time.Since(begin))
	})
}

func TestCancelingEndsTheWaitBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(t, time.Hour, func(*http.Request) (*http.Response, error) {
			return respond(503, "", "Retry-After", "60"), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err := c.Complete(ctx, Request{Prompt: []int32{1}, MaxTokens: 1})
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, time.Second, time.Since(begin))
	})
}

func TestListsOfIDsAreReadExactlyOrRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int32{
		"[]": {}, "[ ]": {}, "[0]": {0}, "[1,2,3]": {1, 2, 3}, " [ 7 ,\n8 ] ": {7, 8}, "[-1]": {-1},
		"[2147483647]": {2147483647}, "[2147483648]": nil, "[1.5]": nil, "[1e3]": nil, `["1"]`: nil, "[null]": nil,
		"[[1]]": nil, "{}": nil, "7": nil, "[true]": nil, "[99999999999999999999]": nil, "[-]": nil,
	} {
		var got *idList
		err := json.Unmarshal([]byte(text), &got)
		if want == nil {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, []int32(*got), text)
	}
	var absent *idList
	require.NoError(t, json.Unmarshal([]byte("null"), &absent))
	require.Nil(t, absent)
}
