package policy

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// failureUnder200 classifies a body that is no answer although the status says so: a proxy's page or
// a cut body (nothing in it can be used, so trying again is safe), or an error object, by its code.
// It gives nil where the body is an answer that was refused for what it holds.
func (c *Client) failureUnder200(body []byte, cause error) *Error {
	if !json.Valid(body) {
		return &Error{Outcome: Unreachable, Status: http.StatusOK, Err: c.cfg.Redact(cause)}
	}
	var shape struct {
		Object string          `json:"object"`
		Error  json.RawMessage `json:"error"`
		Code   json.RawMessage `json:"code"`
	}
	if json.Unmarshal(body, &shape) != nil {
		return nil
	}
	var nested struct {
		Code json.RawMessage `json:"code"`
	}
	switch {
	case len(shape.Error) > 0 && string(shape.Error) != "null":
		_ = json.Unmarshal(shape.Error, &nested) // a string has no code
	case shape.Object == "error":
		nested.Code = shape.Code
	default:
		return nil
	}
	code, err := strconv.Atoi(strings.Trim(string(nested.Code), `"`))
	if err != nil || code < 400 || code > 599 {
		code = http.StatusInternalServerError
	}
	failed := c.cfg.Failure(code, nil, body)
	failed.Status = http.StatusOK
	return failed
}

// Failure classifies an answer that is not 200.
func (c Config) Failure(status int, header http.Header, body []byte) *Error {
	e := Classify(status, errorMessage(body))
	e.Err = c.Redact(e.Err)
	if e.Outcome == Overloaded {
		e.RetryAfter = retryAfter(header.Get("Retry-After"), time.Now())
	}
	return e
}

// Classify is the one table from an HTTP status and an error's words to an outcome.
func Classify(status int, message string) *Error {
	e := &Error{Outcome: Rejected, Status: status, Err: errors.New(excerpt([]byte(message)))}
	switch {
	case status == http.StatusBadRequest && isContextLimit(message):
		e.Outcome = ContextFull
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		e.Outcome = Overloaded
	case status >= 500, status == http.StatusRequestTimeout:
		e.Outcome = Unreachable
	}
	return e
}

// errorMessage reads the three shapes in use: vLLM's {"error":{"message"}}, a proxy's or the key
// check's {"error":"…"}, and SGLang's flat {"message"}. Anything else, HTML say, is quoted in part.
func errorMessage(body []byte) string {
	var shape struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if err := json.Unmarshal(body, &shape); err == nil {
		var nested struct {
			Message string `json:"message"`
		}
		var text string
		switch {
		case json.Unmarshal(shape.Error, &nested) == nil && nested.Message != "":
			return excerpt([]byte(nested.Message))
		case json.Unmarshal(shape.Error, &text) == nil && text != "":
			return excerpt([]byte(text))
		case shape.Message != "":
			return excerpt([]byte(shape.Message))
		case json.Unmarshal(shape.Detail, &text) == nil && text != "":
			return excerpt([]byte(text))
		}
	}
	if text := excerpt(body); text != "" {
		return text
	}
	return "no body"
}

// isContextLimit knows the words of vLLM (completions and engine) and of SGLang.
func isContextLimit(message string) bool {
	message = strings.ToLower(message)
	for _, words := range []string{
		"maximum context length",
		"model's context length",
		"maximum model length",
		"context_length_exceeded",
	} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 10 * time.Minute

// retryAfter reads seconds or an HTTP date.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.Atoi(value); err == nil {
		return min(max(time.Duration(min(seconds, int(maxRetryAfter/time.Second)))*time.Second, 0), maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// Redact takes the key and the custom headers' values out of an error's text: servers and proxies
// quote them back. The cause is kept where its text holds no secret.
func (c Config) Redact(err error) error {
	text := err.Error()
	clean := text
	secrets := []Secret{c.Key()}
	for _, v := range c.Headers {
		secrets = append(secrets, v)
	}
	for _, s := range secrets {
		if value := s.Reveal(); len(value) >= 4 { // shorter values would blank out ordinary words
			clean = strings.ReplaceAll(clean, value, redacted)
		}
	}
	if clean == text {
		return err
	}
	return errors.New(clean)
}
