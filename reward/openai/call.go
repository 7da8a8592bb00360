package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/limit"
)

// Usage is what the judge has spent, unreadable replies included.
type Usage struct {
	Calls            int64
	FailedCalls      int64
	UnreadReplies    int64
	PromptTokens     int64
	CompletionTokens int64
}

type usage struct{ calls, failed, unread, prompt, completion atomic.Int64 }

// Usage returns the spend since the judge was made.
func (j *Judge) Usage() Usage {
	u := &j.usage
	return Usage{u.calls.Load(), u.failed.Load(), u.unread.Load(), u.prompt.Load(), u.completion.Load()}
}

// reply is the text of one completion and whether its token limit cut it off.
type reply struct {
	text string
	cut  bool
}

// ask gets one verdict. A slot is held for the whole of it, so an outage holds new calls back; the
// deadline runs from the first call, so waiting for a slot costs no verdict. A reply that can't be
// read is asked for once more, with more room.
func ask[T any](ctx context.Context, j *Judge, p *prompt, material any, accept func(object) (T, error)) (T, bool, error) {
	var none T
	select {
	case j.slots <- struct{}{}:
		defer func() { <-j.slots }()
	case <-ctx.Done():
		return none, false, ctx.Err()
	}
	within, cancel := context.WithTimeout(ctx, j.cfg.Deadline)
	defer cancel()
	var last error
	for _, room := range []int{j.cfg.MaxTokens, j.cfg.RetryMaxTokens} {
		r, err := j.complete(within, p, material, room)
		if err != nil {
			if ctx.Err() != nil {
				return none, false, ctx.Err() // the caller's cancellation is no judge failure
			}
			return none, false, j.failure(err)
		}
		value, repaired, err := readReply(r.text, r.cut, accept)
		if err == nil {
			return value, repaired, nil
		}
		j.usage.unread.Add(1)
		last = fmt.Errorf("reply can't be read: %w: %w", reward.ErrText, err)
	}
	return none, false, j.failure(last)
}

const maxFailure = 300

// failure is a no-verdict error, its text bounded and free of the key.
func (j *Judge) failure(err error) error {
	text := j.key.mask(err.Error())
	if len(text) > maxFailure {
		text = strings.ToValidUTF8(text[:maxFailure], "") + "…"
	}
	if errors.Is(err, reward.ErrText) {
		return fmt.Errorf("%w: %s: %s%w", reward.ErrNoVerdict, j.cfg.Model, text, silent{reward.ErrText})
	}
	return fmt.Errorf("%w: %s: %s", reward.ErrNoVerdict, j.cfg.Model, text)
}

// silent marks an error whose text is already said.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// errPermanent marks failures that no retry mends.
var errPermanent = errors.New("refused")

// complete calls the endpoint until it answers, with growing waits, within ctx.
func (j *Judge) complete(ctx context.Context, p *prompt, material any, room int) (reply, error) {
	pause := j.cfg.Backoff
	for {
		r, x, err := j.call(ctx, p, material, room)
		if err == nil || errors.Is(err, errPermanent) {
			return r, err
		}
		if ctx.Err() != nil {
			return reply{}, fmt.Errorf("deadline %s: %w", j.cfg.Deadline, err)
		}
		d := max(pause, x.retryAfter)
		if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
			return reply{}, fmt.Errorf("the deadline is before the next try: %w", err)
		}
		if werr := j.wait(ctx, d); werr != nil {
			return reply{}, fmt.Errorf("%w: %w", werr, err)
		}
		pause = min(2*pause, j.cfg.MaxBackoff)
	}
}

// call makes one request.
func (j *Judge) call(ctx context.Context, p *prompt, material any, room int) (reply, exchange, error) {
	system, user, err := p.render(material)
	if err != nil {
		return reply{}, exchange{}, fmt.Errorf("%w: %w", errPermanent, err)
	}
	req := openai.ChatCompletionRequest{
		Model: j.cfg.Model,
		//lint:ignore SA1019 vLLM, SGLang and their likes know max_tokens; the new name is OpenAI's own
		MaxTokens: room,
		N:         1,
		Messages: []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleSystem, Content: system},
			{Role: openai.ChatMessageRoleUser, Content: user},
		},
	}
	schema := !j.noSchema.Load()
	if schema {
		req.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: p.name, Schema: p.schema, Strict: true},
		}
	}
	estimate := (len(system)+len(user))/3 + room
	if err := j.gate.Enter(ctx, estimate); err != nil {
		return reply{}, exchange{}, fmt.Errorf("held back by the endpoint's limits: %w", err)
	}
	r, x, spent, err := j.send(ctx, req)
	j.gate.Leave(verdictOn(ctx, x, err), estimate, spent)
	switch {
	case err == nil:
		return r, x, nil
	case schema && x.status == http.StatusBadRequest && schemaRefused(err):
		j.noSchema.Store(true)
		return j.call(ctx, p, material, room)
	case x.status == http.StatusBadRequest || x.status == http.StatusRequestEntityTooLarge || x.status == http.StatusUnprocessableEntity:
		err = fmt.Errorf("%w: %w: %w", errPermanent, reward.ErrText, err)
	case permanent(x.status):
		err = fmt.Errorf("%w: %w", errPermanent, err)
	}
	return reply{}, x, err
}

// send makes one exchange and books what it spent. Where a response can't be decoded nobody knows
// what it cost, so the prompt is booked as estimated: an endpoint charges for bad replies too.
func (j *Judge) send(ctx context.Context, req openai.ChatCompletionRequest) (reply, exchange, int, error) {
	var x exchange
	within, cancel := context.WithTimeout(context.WithValue(ctx, exchangeKey{}, &x), j.cfg.Timeout)
	defer cancel()
	j.usage.calls.Add(1)
	resp, err := j.client.CreateChatCompletion(within, req)
	if err != nil {
		j.usage.failed.Add(1)
		if x.status != http.StatusOK {
			return reply{}, x, 0, err
		}
		spent := 0
		for _, m := range req.Messages {
			spent += len(m.Content) / 3
		}
		j.usage.prompt.Add(int64(spent))
		return reply{}, x, spent, err
	}
	j.usage.prompt.Add(int64(resp.Usage.PromptTokens))
	j.usage.completion.Add(int64(resp.Usage.CompletionTokens))
	spent := resp.Usage.PromptTokens + resp.Usage.CompletionTokens
	if len(resp.Choices) == 0 {
		return reply{}, x, spent, nil // an empty text, which can't be read
	}
	c := resp.Choices[0]
	return reply{c.Message.Content, c.FinishReason == openai.FinishReasonLength}, x, spent, nil
}

// verdictOn says what a call tells about the endpoint: a refusal shows that it works.
func verdictOn(ctx context.Context, x exchange, err error) limit.Verdict {
	switch {
	case err == nil || permanent(x.status):
		return limit.Answered
	case ctx.Err() != nil:
		return limit.Canceled
	}
	return limit.Failed
}

// permanent reports client errors other than those that time heals.
func permanent(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

func schemaRefused(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "response_format") || strings.Contains(text, "json_schema") || strings.Contains(text, "guided")
}
