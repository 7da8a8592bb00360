package pool

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/verigraph/verigraph/policy"
)

// Config says which endpoints serve the policy and how many calls each may hold.
type Config struct {
	// URLs are fixed endpoints, in addition to base_url.
	URLs []string `yaml:"urls"`
	// DNS makes base_url's host stand for all its addresses, which are looked up again every Refresh.
	DNS bool `yaml:"dns"`
	// Allow lists what a trainer may name as endpoints: HOST:PORT, a pattern such as
	// *.rollout.svc:8000, or addresses such as 10.0.0.0/8. Empty allows none.
	Allow []string `yaml:"allow"`
	// Refresh is the time between two DNS look-ups.
	Refresh time.Duration `yaml:"refresh"`
	// EjectAfter is the number of failures in a row after which an endpoint gets no calls until a
	// health check passes.
	EjectAfter int `yaml:"eject_after"`
	// MaxInFlight bounds the calls on one endpoint. With Adaptive it is the upper bound, and
	// StartInFlight is where the search for the right number begins.
	MaxInFlight   int  `yaml:"max_in_flight"`
	Adaptive      bool `yaml:"adaptive"`
	StartInFlight int  `yaml:"start_in_flight"`
	// CheckEvery is the time between two health checks of an endpoint.
	CheckEvery time.Duration `yaml:"check_every"`
}

// Defaults is one endpoint that takes what it can.
func Defaults() Config {
	return Config{
		Refresh: 15 * time.Second, EjectAfter: 3, MaxInFlight: 1024, Adaptive: true, StartInFlight: 128,
		CheckEvery: time.Second,
	}
}

// Validate reports all problems at once.
func (c Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("policy.endpoints."+format, args...))
	}
	for _, u := range c.URLs {
		if _, err := cleanURL(u); err != nil {
			add("urls: %w", err)
		}
	}
	for _, a := range c.Allow {
		if _, err := path.Match(a, ""); err != nil || a == "" {
			add("allow: %q: want HOST:PORT, a pattern of it, or ADDRESS/BITS", a)
		}
	}
	if c.EjectAfter < 1 {
		add("eject_after: %d, want at least 1", c.EjectAfter)
	}
	if c.MaxInFlight < 1 {
		add("max_in_flight: %d, want at least 1", c.MaxInFlight)
	}
	if c.Adaptive && (c.StartInFlight < 1 || c.StartInFlight > c.MaxInFlight) {
		add("start_in_flight: %d, want 1 to max_in_flight", c.StartInFlight)
	}
	if c.Refresh <= 0 || c.CheckEvery <= 0 {
		add("refresh and check_every: want more than 0")
	}
	return errors.Join(errs...)
}

// ValidateWith checks the pool and the client's part of the configuration together: base_url may be left
// out where a trainer may name endpoints.
func (c Config) ValidateWith(p policy.Config) error {
	if p.BaseURL != "" || len(c.Allow) == 0 {
		return errors.Join(c.Validate(), p.Validate())
	}
	err := errors.Join(c.Validate(), p.ValidateWithoutURL())
	if c.DNS {
		err = errors.Join(err, errors.New("policy.endpoints.dns: needs policy.base_url"))
	}
	return err
}

// cleanURL gives scheme://host:port. Its errors quote no user info.
func cleanURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", errors.New("want http://host:port or https://host:port")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%s: holds user info, a query or a fragment", u.Host)
	}
	if p := strings.TrimRight(u.Path, "/"); p != "" && p != "/v1" {
		return "", fmt.Errorf("%s: holds a path", u.Host)
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}

// allowed reports whether a trainer may name this endpoint.
func (c Config) allowed(clean string) bool {
	u, err := url.Parse(clean)
	if err != nil {
		return false
	}
	addr, addrErr := netip.ParseAddr(u.Hostname())
	return slices.ContainsFunc(c.Allow, func(rule string) bool {
		if prefix, err := netip.ParsePrefix(rule); err == nil {
			return addrErr == nil && prefix.Contains(addr.Unmap())
		}
		ok, err := path.Match(strings.ToLower(rule), u.Host)
		return err == nil && ok
	})
}
