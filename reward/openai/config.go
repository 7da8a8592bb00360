package openai

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config of an LLM judge.
type Config struct {
	// BaseURL ends where /chat/completions begins, e.g. http://host:8000/v1.
	BaseURL string `yaml:"base_url"`
	// Model is the served model's name.
	Model string `yaml:"model"`
	// APIKeyEnv names the environment variable that holds the key; empty means no key is sent.
	APIKeyEnv string `yaml:"api_key_env"`
	// MaxTokens bounds a reply, RetryMaxTokens the second one after an unreadable first.
	MaxTokens      int `yaml:"max_tokens"`
	RetryMaxTokens int `yaml:"retry_max_tokens"`
	// Prompts is a directory of templates that win over the shipped ones of the same name; empty uses
	// the shipped ones only.
	Prompts string `yaml:"prompts"`
	// Concurrency is how many verdicts are worked on at once.
	Concurrency int `yaml:"concurrency"`
	// RequestsPerMinute and TokensPerMinute are the endpoint's limits; 0 means none.
	RequestsPerMinute int `yaml:"requests_per_minute"`
	TokensPerMinute   int `yaml:"tokens_per_minute"`
	// BreakerFailures is how many calls in a row may fail before calls are held back; 0 never.
	BreakerFailures int `yaml:"breaker_failures"`
	// TokensPerSecond is the decoding speed expected of one call, for the check at start.
	TokensPerSecond float64 `yaml:"tokens_per_second"`
	// Timeout bounds one call; Deadline one verdict with all its retries, from its first call.
	Timeout  time.Duration `yaml:"timeout"`
	Deadline time.Duration `yaml:"deadline"`
	// Backoff is the first wait after a failed call; it doubles up to MaxBackoff. A server's
	// Retry-After is obeyed in full where it is longer.
	Backoff    time.Duration `yaml:"backoff"`
	MaxBackoff time.Duration `yaml:"max_backoff"`
}

// Defaults returns a configuration that lacks only the address and the model.
func Defaults() Config {
	return Config{
		MaxTokens: 1024, RetryMaxTokens: 4096, Concurrency: 16, BreakerFailures: 8, TokensPerSecond: 40,
		Timeout: 2 * time.Minute, Deadline: 10 * time.Minute, Backoff: 500 * time.Millisecond, MaxBackoff: 20 * time.Second,
	}
}

// Or fills what c leaves at zero from base. A judge of its own address takes no key from base.
func (c Config) Or(base Config) Config {
	if c.BaseURL == "" {
		c.BaseURL = base.BaseURL
		fill(&c.APIKeyEnv, base.APIKeyEnv)
	}
	fill(&c.Model, base.Model)
	fill(&c.Prompts, base.Prompts)
	fill(&c.MaxTokens, base.MaxTokens)
	fill(&c.RetryMaxTokens, base.RetryMaxTokens)
	fill(&c.Concurrency, base.Concurrency)
	fill(&c.RequestsPerMinute, base.RequestsPerMinute)
	fill(&c.TokensPerMinute, base.TokensPerMinute)
	fill(&c.BreakerFailures, base.BreakerFailures)
	fill(&c.TokensPerSecond, base.TokensPerSecond)
	fill(&c.Timeout, base.Timeout)
	fill(&c.Deadline, base.Deadline)
	fill(&c.Backoff, base.Backoff)
	fill(&c.MaxBackoff, base.MaxBackoff)
	return c
}

func fill[T comparable](into *T, from T) {
	var zero T
	if *into == zero {
		*into = from
	}
}

// Validate reports all problems at once. A named key variable that is empty is one of them.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("judge: "+format, args...)) }
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		bad("base_url: %q is no http(s) address", redactURL(c.BaseURL))
	} else if u.User != nil {
		bad("base_url: holds credentials; name them by api_key_env")
	}
	if c.Model == "" {
		bad("model: is empty")
	}
	if c.APIKeyEnv != "" && strings.TrimSpace(os.Getenv(c.APIKeyEnv)) == "" {
		bad("api_key_env: %s is not set", c.APIKeyEnv)
	}
	if c.MaxTokens <= 0 {
		bad("max_tokens: %d is not positive", c.MaxTokens)
	}
	if c.RetryMaxTokens < c.MaxTokens {
		bad("retry_max_tokens: %d is below max_tokens %d", c.RetryMaxTokens, c.MaxTokens)
	}
	if c.Concurrency <= 0 {
		bad("concurrency: %d is not positive", c.Concurrency)
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"requests_per_minute", c.RequestsPerMinute}, {"tokens_per_minute", c.TokensPerMinute}, {"breaker_failures", c.BreakerFailures}} {
		if n.value < 0 {
			bad("%s: %d is negative", n.key, n.value)
		}
	}
	if !(c.TokensPerSecond > 0) {
		bad("tokens_per_second: %g is not positive", c.TokensPerSecond)
	}
	if c.Prompts != "" {
		if info, err := os.Stat(c.Prompts); err != nil || !info.IsDir() {
			bad("prompts: %s is no directory", c.Prompts)
		}
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"timeout", c.Timeout}, {"deadline", c.Deadline}, {"backoff", c.Backoff}, {"max_backoff", c.MaxBackoff}} {
		if d.value <= 0 {
			bad("%s: %s is not positive", d.key, d.value)
		}
	}
	return errors.Join(errs...)
}

// Warnings name settings that are valid and yet bound to cost verdicts: a time limit in which the
// tokens that a reply may have can't be decoded ends calls that were going well.
func (c Config) Warnings() []string {
	var out []string
	if c.TokensPerSecond <= 0 {
		return nil
	}
	need := func(tokens int) time.Duration {
		return time.Duration(float64(tokens) / c.TokensPerSecond * float64(time.Second))
	}
	if d := need(c.RetryMaxTokens); d > c.Timeout {
		out = append(out, fmt.Sprintf("judge: timeout %s is shorter than the %s that %d tokens take at %g tokens/s (retry_max_tokens)",
			c.Timeout, d.Round(time.Second), c.RetryMaxTokens, c.TokensPerSecond))
	}
	if d := need(c.MaxTokens) + need(c.RetryMaxTokens); d > c.Deadline {
		out = append(out, fmt.Sprintf("judge: deadline %s is shorter than the %s of one reply and its retry at %g tokens/s",
			c.Deadline, d.Round(time.Second), c.TokensPerSecond))
	}
	if c.TokensPerMinute > 0 && c.TokensPerMinute < c.RetryMaxTokens {
		out = append(out, fmt.Sprintf("judge: tokens_per_minute %d is below retry_max_tokens %d: such a call waits for a whole minute's tokens",
			c.TokensPerMinute, c.RetryMaxTokens))
	}
	return out
}

// redactURL drops what may be a password.
func redactURL(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return "[redacted]" + s[at:]
	}
	return s
}

// secret prints as [redacted] under every verb.
type secret string

func (secret) String() string   { return "[redacted]" }
func (secret) GoString() string { return "[redacted]" }

// mask removes the key from a text that a server may have echoed it in.
func (s secret) mask(text string) string {
	if s == "" {
		return text
	}
	return strings.ReplaceAll(text, string(s), "[redacted]")
}
