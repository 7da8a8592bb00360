package policy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config says where the policy is served and how patient the client is.
type Config struct {
	// BaseURL is the server's root, with or without a trailing /v1.
	BaseURL string `yaml:"base_url"`
	// Model is the served model's name.
	Model string `yaml:"model"`
	// APIKey is sent as a bearer token; empty sends none. APIKeyEnv names an environment variable
	// that holds it instead, and must then be set.
	APIKey    Secret `yaml:"api_key"`
	APIKeyEnv string `yaml:"api_key_env"`
	// Headers are sent with every request. Their values are never logged.
	Headers map[string]Secret `yaml:"headers"`
	// TLS of https endpoints.
	TLS TLS `yaml:"tls"`
	// CallTimeout is the wall-clock limit of one HTTP exchange. It is long because a server that is
	// paused for a weight update queues requests instead of answering.
	CallTimeout time.Duration `yaml:"call_timeout"`
	// RetryBudget is how long after a call's start another attempt may still begin; 0 turns retries off.
	RetryBudget time.Duration `yaml:"retry_budget"`
	// MaxResponseBytes bounds one answer.
	MaxResponseBytes int64 `yaml:"max_response_bytes"`
	// Recorder gets a start and an end record of every exchange; nil records nothing.
	Recorder Recorder `yaml:"-"`
	// Ledger holds the open calls; nil takes one of the client's own.
	Ledger *Ledger `yaml:"-"`
	// Transport replaces the default transport, in tests.
	Transport http.RoundTripper `yaml:"-"`
}

// Defaults is a configuration that lacks only BaseURL and Model.
func Defaults() Config {
	return Config{
		CallTimeout:      20 * time.Minute,
		RetryBudget:      2 * time.Minute,
		MaxResponseBytes: 64 << 20,
	}
}

// Validate reports all problems at once.
func (c Config) Validate() error {
	return errors.Join(c.validateURL(), c.ValidateWithoutURL())
}

func (c Config) validateURL() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("policy: "+format, args...)) }
	if u, err := url.Parse(c.BaseURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		add("base_url: want http://host:port or https://host") // never quoted: it may hold a password
	} else if u.User != nil || u.RawQuery != "" {
		add("base_url: must hold no user info and no query: use api_key or headers")
	}
	return errors.Join(errs...)
}

// ValidateWithoutURL is Validate where base_url is given later, by a trainer.
func (c Config) ValidateWithoutURL() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("policy: "+format, args...)) }
	if c.Model == "" {
		add("model: must name the served model")
	}
	if c.APIKeyEnv != "" {
		if !c.APIKey.IsZero() {
			add("api_key and api_key_env: give one of them")
		}
		if os.Getenv(c.APIKeyEnv) == "" {
			add("api_key_env: the environment variable %s is not set", c.APIKeyEnv)
		}
	}
	if _, err := c.TLS.build(); err != nil {
		errs = append(errs, err)
	}
	if c.CallTimeout <= 0 {
		add("call_timeout: must be positive, got %v", c.CallTimeout)
	}
	if c.RetryBudget < 0 {
		add("retry_budget: must not be negative, got %v", c.RetryBudget)
	}
	if c.MaxResponseBytes <= 0 {
		add("max_response_bytes: must be positive, got %d", c.MaxResponseBytes)
	}
	for name, value := range c.Headers {
		if !validHeader(name, value.Reveal()) {
			add("headers: %q: not a header name, or its value holds a control character", name)
		}
	}
	return errors.Join(errs...)
}

// Key is the bearer token, from the configuration or the environment.
func (c Config) Key() Secret {
	if c.APIKeyEnv != "" {
		return NewSecret(strings.TrimSpace(os.Getenv(c.APIKeyEnv)))
	}
	return c.APIKey
}

// Root is BaseURL without a trailing slash and /v1.
func (c Config) Root() string {
	return strings.TrimSuffix(strings.TrimRight(c.BaseURL, "/"), "/v1")
}

// validHeader keeps net/http from refusing every later request with the value in its error.
func validHeader(name, value string) bool {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	}) {
		return false
	}
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
