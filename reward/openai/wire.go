package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxReply bounds what is read of one response.
const maxReply = 8 << 20

// exchange is what the wire tells beyond go-openai's answer.
type exchange struct {
	status     int
	retryAfter time.Duration
}

type exchangeKey struct{}

// doer puts "temperature": 0 into every body, since go-openai leaves zeros out and a server would
// then apply the model's own default; it bounds replies and notes status and Retry-After.
type doer struct {
	client *http.Client
	now    func() time.Time
}

func (d doer) Do(req *http.Request) (*http.Response, error) {
	if err := zeroTemperature(req); err != nil {
		return nil, err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, err
	}
	if x, ok := req.Context().Value(exchangeKey{}).(*exchange); ok {
		x.status = resp.StatusCode
		x.retryAfter = retryAfter(resp.Header.Get("Retry-After"), d.now())
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxReply), resp.Body}
	return resp, nil
}

func zeroTemperature(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return fmt.Errorf("judge: request body: %w", err)
	}
	if err := req.Body.Close(); err != nil {
		return fmt.Errorf("judge: request body: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return fmt.Errorf("judge: request body: %w", err)
	}
	fields["temperature"] = json.RawMessage("0")
	if body, err = json.Marshal(fields); err != nil {
		return fmt.Errorf("judge: request body: %w", err)
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.ContentLength = int64(len(body))
	return nil
}

// retryAfter reads seconds or an HTTP date; anything else is no hint.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if s, err := strconv.ParseFloat(header, 64); err == nil && s > 0 && s < 86400 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(header); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// wait pauses for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
