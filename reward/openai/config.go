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
	Model   string `yaml:"model"`
	// APIKeyEnv names the environment variable that holds the key; empty means no key is sent.
	APIKeyEnv string `yaml:"api_key_env"`
	// MaxTokens bounds a reply, RetryMaxTokens the second one after an unreadable first.
	MaxTokens      int `yaml:"max_tokens"`
	RetryMaxTokens int `yaml:"retry_max_tokens"`
	// Concurrency is how many verdicts are worked on at once.
	Concurrency int `yaml:"concurrency"`
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
		MaxTokens: 1024, RetryMaxTokens: 4096, Concurrency: 16,
		Timeout: time.Minute, Deadline: 10 * time.Minute, Backoff: 500 * time.Millisecond, MaxBackoff: 20 * time.Second,
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
