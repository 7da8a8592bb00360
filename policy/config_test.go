package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy"
)

func valid() policy.Config {
	cfg := policy.Defaults()
	cfg.BaseURL, cfg.Model = "https://policy:8000/v1", "m"
	return cfg
}

func TestDefaultsNeedOnlyAnAddressAndAModel(t *testing.T) {
	t.Parallel()
	require.NoError(t, valid().Validate())
	err := policy.Defaults().Validate()
	require.ErrorContains(t, err, "base_url")
	require.ErrorContains(t, err, "model")
}

func TestValidateNamesEveryBadKey(t *testing.T) {
	t.Parallel()
	for key, change := range map[string]func(*policy.Config){
		"base_url":           func(c *policy.Config) { c.BaseURL = "policy:8000" },
		"user info":          func(c *policy.Config) { c.BaseURL = "http://me:hunter2@policy" },
		"query":              func(c *policy.Config) { c.BaseURL = "http://policy?key=hunter2" },
		"model":              func(c *policy.Config) { c.Model = "" },
		"call_timeout":       func(c *policy.Config) { c.CallTimeout = 0 },
		"retry_budget":       func(c *policy.Config) { c.RetryBudget = -1 },
		"max_response_bytes": func(c *policy.Config) { c.MaxResponseBytes = 0 },
		"VERIGRAPH_NO_KEY":   func(c *policy.Config) { c.APIKeyEnv = "VERIGRAPH_NO_KEY" },
		"give one of them":   func(c *policy.Config) { c.APIKeyEnv, c.APIKey = "PATH", policy.NewSecret("hunter2") },
		`"X Y"`:              func(c *policy.Config) { c.Headers = map[string]policy.Secret{"X Y": policy.NewSecret("hunter2")} },
		`"X-Z"`:              func(c *policy.Config) { c.Headers = map[string]policy.Secret{"X-Z": policy.NewSecret("hunter2\n")} },
	} {
		cfg := valid()
		change(&cfg)
		err := cfg.Validate()
		require.ErrorContains(t, err, key)
		require.NotContains(t, err.Error(), "hunter2")
		_, err = policy.NewClient(cfg)
		require.Error(t, err)
	}
}

func TestASecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.APIKey = policy.NewSecret("hunter2")
	cfg.Headers = map[string]policy.Secret{"X-Key": policy.NewSecret("hunter2")}
	marshaled, err := json.Marshal(cfg.APIKey)
	require.NoError(t, err)
	for _, text := range []string{
		fmt.Sprint(cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg), fmt.Sprintf("%s %q %x %d", cfg.APIKey, cfg.APIKey, cfg.APIKey, cfg.APIKey),
		cfg.APIKey.String(), string(marshaled),
	} {
		require.Contains(t, text, "[redacted]")
		require.NotContains(t, text, "hunter2")
	}
	client, err := policy.NewClient(cfg)
	require.NoError(t, err)
	hidden := struct{ cfg policy.Config }{cfg}
	require.NotContains(t, fmt.Sprintf("%+v %#v %+v %#v", client, client, hidden, hidden), "hunter2")

	var s policy.Secret
	require.True(t, s.IsZero())
	require.Empty(t, s.String())
	require.NoError(t, s.UnmarshalText([]byte("hunter2")))
	require.Equal(t, "hunter2", s.Reveal())
}

func TestTheKeyComesFromTheEnvironmentAndIsRedactedInErrors(t *testing.T) {
	t.Setenv("VERIGRAPH_TEST_KEY", "hunter2")
	var sent string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"wrong key: hunter2, tenant: blue-team"}}`)
	}, func(cfg *policy.Config) {
		cfg.APIKeyEnv = "VERIGRAPH_TEST_KEY"
		cfg.Headers = map[string]policy.Secret{"X-Tenant": policy.NewSecret("blue-team")}
	})
	_, err := c.Complete(t.Context(), request())
	require.Equal(t, "Bearer hunter2", sent)
	require.ErrorContains(t, err, "wrong key: [redacted], tenant: [redacted]")
	for e := err; e != nil; e = errors.Unwrap(e) {
		require.NotContains(t, fmt.Sprintf("%+v %#v", e, e), "hunter2")
	}
}

// closedAddress is one where nothing listens.
const closedAddress = "http://127.0.0.1:1"

func TestProbeSaysInOneLineWhatIsWrong(t *testing.T) {
	t.Parallel()
	models := func(w http.ResponseWriter, r *http.Request, completion any) {
		if r.URL.Path == "/v1/models" {
			reply(map[string]any{"data": []any{map[string]any{"id": "a"}, map[string]any{"id": "m", "max_model_len": 99}}})(w, r)
			return
		}
		reply(completion)(w, r)
	}
	good := answer()
	firstChoice(good)["prompt_token_ids"], firstChoice(good)["token_ids"] = []any{1}, []any{7}
	firstChoice(good)["logprobs"] = map[string]any{"tokens": []any{"token_id:7"}, "token_logprobs": []any{-1}}
	good["usage"] = map[string]any{"prompt_tokens": 1, "completion_tokens": 1}

	c := newClient(t, func(w http.ResponseWriter, r *http.Request) { models(w, r, good) }, nil)
	m, err := c.Probe(t.Context())
	require.NoError(t, err)
	require.Equal(t, policy.Model{Name: "m", MaxModelLen: 99}, m)

	bare := map[string]any{"choices": []any{map[string]any{"text": "x", "finish_reason": "length"}}}
	for want, tc := range map[string]*policy.Client{
		`no model "z"; it serves: a, m`: newClient(t, func(w http.ResponseWriter, r *http.Request) { models(w, r, good) },
			func(cfg *policy.Config) { cfg.Model = "z" }),
		"return_token_ids": newClient(t, func(w http.ResponseWriter, r *http.Request) { models(w, r, bare) }, nil),
		"unreachable": newClient(t, nil, func(cfg *policy.Config) {
			cfg.BaseURL, cfg.RetryBudget = closedAddress, time.Hour
		}),
	} {
		_, err := tc.Probe(t.Context())
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
		require.ErrorContains(t, err, "policy endpoint http://")
	}
}

func TestWeightVersionReadsEveryForm(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int64{
		`{"weight_version":"12"}`: 12, `{"weight_version":12}`: 12, `{"weight_version":"default"}`: -1, `{"weight_version":null}`: -1, `{}`: -1,
	} {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }, nil)
		got, err := c.WeightVersion(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got, body)
	}
	absent := newClient(t, http.NotFound, nil)
	got, err := absent.WeightVersion(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(-1), got)

	odd := newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"weight_version":"step-3"}`) }, nil)
	_, err = odd.WeightVersion(t.Context())
	require.ErrorContains(t, err, "not a version number")
}

func TestTokenizeAddsNoSpecialTokens(t *testing.T) {
	t.Parallel()
	var got map[string]any
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&got)
		_, _ = io.WriteString(w, `{"count":2,"tokens":[4,5]}`)
	}, nil)
	ids, err := c.Tokenize(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, []int32{4, 5}, ids)
	require.Equal(t, map[string]any{"model": "m", "prompt": "x", "add_special_tokens": false}, got)

	c = newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) }, nil)
	_, err = c.Tokenize(t.Context(), "x")
	require.ErrorContains(t, err, "no tokens")
}
