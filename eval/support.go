package eval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/openai"
)

// Supporter decides J: whether the evidence of a claim supports it. Split finds the claims of an answer in
// words. An error is no verdict.
type Supporter interface {
	Supports(ctx context.Context, question string, evidence []string, claim string) (bool, string, error)
	Split(ctx context.Context, question, answer string) ([]string, error)
}

// JudgeSupporter is an LLM judge that remembers its verdicts in the run's store, so that a stored evaluation
// is scored again without a call.
type JudgeSupporter struct {
	Judge *openai.Judge
	Store reward.Store
	// Rejudge asks anew.
	Rejudge bool
}

var _ Supporter = JudgeSupporter{}

// Supports implements Supporter.
func (s JudgeSupporter) Supports(ctx context.Context, question string, evidence []string, claim string) (bool, string, error) {
	v, err := remembered(ctx, s, []any{"support", question, evidence, claim}, func() (openai.Support, error) {
		return s.Judge.Supports(ctx, question, evidence, claim)
	})
	return v.Supported, v.Reason, err
}

// Split implements Supporter.
func (s JudgeSupporter) Split(ctx context.Context, question, answer string) ([]string, error) {
	return remembered(ctx, s, []any{"split", question, answer}, func() ([]string, error) {
		return s.Judge.Split(ctx, question, answer)
	})
}

// remembered takes a verdict from the store, else from the judge. A store that fails costs a call.
func remembered[T any](ctx context.Context, s JudgeSupporter, content []any, call func() (T, error)) (T, error) {
	material, err := json.Marshal(append(content, s.Judge.SupportIdentity()))
	var v T
	if err != nil {
		return v, fmt.Errorf("support: %w", err)
	}
	sum := sha256.Sum256(material)
	key := hex.EncodeToString(sum[:])
	if !s.Rejudge {
		if data, ok, err := s.Store.Get(ctx, key); err == nil && ok && json.Unmarshal(data, &v) == nil {
			return v, nil
		}
	}
	if v, err = call(); err != nil {
		return v, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return v, fmt.Errorf("support: %w", err)
	}
	if kept, err := s.Store.Put(ctx, key, data, s.Rejudge); err == nil {
		_ = json.Unmarshal(kept, &v) // what stands in the store is what every replica reads
	}
	return v, nil
}
