package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// idleTimeout is below uvicorn's keep-alive of 5 s: a POST on a connection that the server has just
// closed fails, and net/http doesn't replay it.
const idleTimeout = 4 * time.Second

// idlePerHost is above any worker's number of concurrent trajectories.
const idlePerHost = 4096

// Client calls one policy endpoint. It is safe for concurrent use.
type Client struct {
	cfg  Config
	root string
	key  Secret
	http *http.Client
	rec  Recorder
	open *Ledger
	// versionPath is where the server states its weight version, once that is known.
	versionPath atomic.Pointer[string]
}

// NewClient checks the configuration; it makes no call (see Probe).
func NewClient(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, root: cfg.Root(), key: cfg.Key(), rec: cfg.Recorder, open: cfg.Ledger}
	if c.rec == nil {
		c.rec = noRecorder{}
	}
	if c.open == nil {
		c.open = &Ledger{}
	}
	transport, err := cfg.RoundTripper()
	if err != nil {
		return nil, err
	}
	c.http = &http.Client{
		Transport: transport,
		// A redirect would carry the prompt and custom headers to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// RoundTripper is the transport that the configuration asks for.
func (c Config) RoundTripper() (http.RoundTripper, error) {
	if c.Transport != nil {
		return c.Transport, nil
	}
	tlsConfig, err := c.TLS.build()
	if err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.IdleConnTimeout = idleTimeout
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = idlePerHost
	t.TLSClientConfig = tlsConfig
	return t, nil
}

// Root is the endpoint's URL.
func (c *Client) Root() string { return c.root }

// Open is the ledger of calls that have not ended.
func (c *Client) Open() *Ledger { return c.open }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Complete generates once and returns an answer that passed every check. Overloaded and Unreachable
// are retried within the budget. The error is a *Error, or ctx.Err() as soon as ctx ends, which
// also closes the connection and so frees the engine's slot.
func (c *Client) Complete(ctx context.Context, r Request) (Completion, error) {
	return c.complete(ctx, r, c.cfg.RetryBudget)
}

func (c *Client) complete(ctx context.Context, r Request, budget time.Duration) (Completion, error) {
	if err := r.check(); err != nil {
		return Completion{}, &Error{Outcome: Rejected, Err: err}
	}
	body, err := json.Marshal(c.wireRequest(r))
	if err != nil {
		return Completion{}, &Error{Outcome: Rejected, Err: err}
	}
	call := Call{Kind: "completions", RequestID: r.ID, Session: r.Session, PromptTokens: len(r.Prompt)}
	var out Completion
	err = c.exchange(ctx, call, budget, http.MethodPost, "/v1/completions", body, func(data []byte, res *CallResult) error {
		var err error
		out, err = readCompletion(data, r)
		res.Finish, res.SampledTokens = out.Finish, len(out.IDs)
		out.Duration = res.Duration
		return err
	})
	if err != nil {
		return Completion{}, err
	}
	return out, nil
}

// exchange repeats one HTTP call until it is answered, refused or out of budget. accept reads an
// answer of status 200; its error makes the answer Rejected.
func (c *Client) exchange(ctx context.Context, call Call, budget time.Duration, method, path string, body []byte,
	accept func(data []byte, res *CallResult) error,
) error {
	call.Endpoint = c.root
	begin := time.Now()
	for {
		err := c.attempt(ctx, call, method, path, body, accept)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var failed *Error
		if !errors.As(err, &failed) {
			return err
		}
		call.Try++
		delay, again := RetryDelay(failed, call.Try, time.Since(begin), budget, rand.Float64())
		if !again {
			return failed
		}
		if err := Wait(ctx, delay); err != nil {
			return err
		}
	}
}

// Wait sleeps for d, or until ctx ends, whose error it then gives.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt is one recorded HTTP exchange.
func (c *Client) attempt(ctx context.Context, call Call, method, path string, body []byte,
	accept func([]byte, *CallResult) error,
) (err error) {
	call.Start = time.Now()
	c.rec.CallStarted(call)
	var res CallResult
	defer func() {
		res.Duration = time.Since(call.Start)
		res.Outcome, res.Err = "ok", err
		var failed *Error
		switch {
		case err == nil:
		case ctx.Err() != nil:
			res.Outcome, res.Err = "canceled", ctx.Err()
		case errors.As(err, &failed):
			res.Outcome = string(failed.Outcome)
		}
		c.rec.CallEnded(call, res)
	}()
	endable, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer c.open.enter(call, end)()
	limited, cancel := context.WithTimeout(endable, c.cfg.CallTimeout)
	defer cancel()
	status, header, data, err := c.roundTrip(limited, call, method, path, body)
	res.Status, res.Duration = status, time.Since(call.Start)
	if err != nil {
		var overdue overdueError
		switch {
		case ctx.Err() != nil:
		case errors.As(context.Cause(endable), &overdue):
			err = overdue
		case limited.Err() != nil:
			err = fmt.Errorf("no complete answer within %v", c.cfg.CallTimeout)
		}
		outcome := Unreachable
		if errors.Is(err, errTooLarge) {
			outcome = Rejected
		}
		return &Error{Outcome: outcome, Status: status, Err: c.cfg.Redact(err)}
	}
	if status != http.StatusOK {
		return c.cfg.Failure(status, header, data)
	}
	if err := accept(data, &res); err != nil {
		if failed := c.failureUnder200(data, err); failed != nil {
			return failed
		}
		return &Error{Outcome: Rejected, Status: status, Err: c.cfg.Redact(err)}
	}
	return nil
}

var errTooLarge = errors.New("the answer is larger than max_response_bytes")

func (c *Client) roundTrip(ctx context.Context, call Call, method, path string, body []byte) (int, http.Header, []byte, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.root+path, reader)
	if err != nil {
		return 0, nil, nil, err
	}
	c.setHeaders(req, call, body != nil)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, c.cfg.MaxResponseBytes+1))
	if err != nil {
		return resp.StatusCode, resp.Header, nil, fmt.Errorf("reading the answer: %w", err)
	}
	if int64(len(data)) > c.cfg.MaxResponseBytes {
		return resp.StatusCode, resp.Header, nil, errTooLarge
	}
	return resp.StatusCode, resp.Header, data, nil
}

func (c *Client) setHeaders(req *http.Request, call Call, hasBody bool) {
	for name, value := range c.cfg.Headers {
		req.Header.Set(name, value.Reveal())
	}
	if hasBody {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if !c.key.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	if call.RequestID != "" {
		req.Header.Set("X-Request-Id", call.RequestID)
	}
	if call.Session != "" {
		req.Header.Set("X-Session-ID", call.Session)
	}
}
