// Package scorehook calls custom outcome scorers over HTTP or gRPC.
//
// Invariant: a grade counts only if it was stated, is finite and lies in [0, 1]; every other reply and
// every outage wraps reward.ErrNoVerdict, so that no fault of a scorer becomes a number.
package scorehook

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/verigraph/verigraph/reward"
)

// Config of one custom scorer.
type Config struct {
	// URL is http(s)://HOST/PATH, or grpc://HOST:PORT.
	URL string `yaml:"url"`
	// Timeout bounds one call; Deadline one grade with all its retries.
	Timeout  time.Duration `yaml:"timeout"`
	Deadline time.Duration `yaml:"deadline"`
	// Concurrency is how many grades are worked on at once.
	Concurrency int `yaml:"concurrency"`
}

// WithDefaults fills what is not set.
func (c Config) WithDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Deadline == 0 {
		c.Deadline = 10 * time.Minute
	}
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	return c
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "grpc":
		errs = append(errs, fmt.Errorf("url: want http(s)://HOST/PATH or grpc://HOST:PORT"))
	case u.User != nil:
		errs = append(errs, errors.New("url: holds credentials"))
	}
	if c.Timeout < 0 || c.Deadline < 0 || c.Concurrency < 0 {
		errs = append(errs, errors.New("timeout, deadline and concurrency can't be negative"))
	}
	return errors.Join(errs...)
}

// caller makes one call. A permanent error will not go away by asking again.
type caller interface {
	call(ctx context.Context, item reward.HookItem) (g reward.Grade, permanent bool, err error)
	close() error
}

// Hook is one custom scorer. It is safe for concurrent use.
type Hook struct {
	name  string
	cfg   Config
	via   caller
	slots chan struct{}
}

var _ reward.Hook = (*Hook)(nil)

// New checks the configuration; it makes no call. Close it.
func New(name string, cfg Config) (*Hook, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("scorer %s: %w", name, err)
	}
	h := &Hook{name: name, cfg: cfg, slots: make(chan struct{}, cfg.Concurrency)}
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("scorer %s: %w", name, err)
	}
	if u.Scheme == "grpc" {
		h.via, err = newGRPC(u.Host)
	} else {
		h.via, err = newHTTP(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("scorer %s: %w", name, err)
	}
	return h, nil
}

// Close frees connections.
func (h *Hook) Close() error { return h.via.close() }

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 20 * time.Second
)

// Grade asks until there is a grade, the scorer refuses for good, or the deadline has passed.
func (h *Hook) Grade(ctx context.Context, item reward.HookItem) (reward.Grade, error) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return reward.Grade{}, ctx.Err()
	}
	within, cancel := context.WithTimeout(ctx, h.cfg.Deadline)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		call, done := context.WithTimeout(within, h.cfg.Timeout)
		g, permanent, err := h.via.call(call, item)
		done()
		switch {
		case err == nil:
			if err := check(g); err != nil {
				return reward.Grade{}, fmt.Errorf("%w: %w: scorer %s: %w", reward.ErrNoVerdict, reward.ErrText, h.name, err)
			}
			return g, nil
		case ctx.Err() != nil:
			return reward.Grade{}, ctx.Err()
		case permanent:
			return reward.Grade{}, fmt.Errorf("%w: %w: scorer %s: %w", reward.ErrNoVerdict, reward.ErrText, h.name, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-within.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return reward.Grade{}, ctx.Err()
			}
			return reward.Grade{}, fmt.Errorf("%w: scorer %s: deadline %s: %w", reward.ErrNoVerdict, h.name, h.cfg.Deadline, err)
		case <-timer.C:
		}
	}
}

func check(g reward.Grade) error {
	values := []reward.Axis{{Name: "score", Value: g.Score}}
	if len(g.Axes) > 0 {
		values = g.Axes
	}
	for _, a := range values {
		if math.IsNaN(a.Value) || a.Value < 0 || a.Value > 1 {
			return fmt.Errorf("%s %g is not between 0 and 1", a.Name, a.Value)
		}
	}
	return nil
}
