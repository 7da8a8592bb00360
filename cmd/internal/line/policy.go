package line

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/openaichat"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/rollout"
)

// exactPolicy gives the runner a policy of token ids, and takes the context limit from its server.
func (w *Worker) exactPolicy(ctx context.Context, cfg *config.Config, runner *rollout.Runner) error {
	tok, err := tokenizer.Load(cfg.Policy.Tokenizer)
	if err != nil {
		return err
	}
	ml, err := chat.New(tok, chat.Thinking(cfg.Rollout.Thinking))
	if err != nil {
		return err
	}
	if w.endpoints, err = pool.New(cfg.Policy.Endpoints, cfg.Policy.Config, w.log); err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { w.endpoints.Close(); return nil })
	if cfg.Policy.Endpoints.DNS {
		w.endpoints.Resolve(ctx)
	}
	model, err := w.endpoints.Client().Probe(ctx)
	if err != nil {
		return err
	}
	if cfg.Rollout.MaxContext == 0 {
		cfg.Rollout.MaxContext = model.MaxModelLen
	}
	w.endpoints.CheckNow(ctx)
	w.callLimit = cfg.Policy.CallTimeout + time.Minute
	for _, warning := range policy.SamplingWarnings(cfg.Rollout.Sampling) {
		w.log.Warn("sampling differs from the trained policy", zap.String("why", warning))
	}
	w.Identity = rollout.Identity{
		Model: cfg.Policy.Model, TokenizerSHA256: tok.SHA256(), ChatTemplateSHA256: ml.SHA256(), PadTokenID: ml.Pad(),
	}
	runner.Policy, runner.Tokenizer, runner.Chat, runner.Version = w.endpoints, tok, ml, w.endpoints.Version
	return nil
}

// textPolicy gives the runner a policy of text: a teacher or a baseline.
func (w *Worker) textPolicy(ctx context.Context, cfg config.Config, runner *rollout.Runner) error {
	client, err := openaichat.New(cfg.Policy.Config)
	if err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { client.Close(); return nil })
	if err := client.Probe(ctx); err != nil {
		return err
	}
	w.Identity = rollout.Identity{Model: cfg.Policy.Model}
	runner.Text, runner.Tokenizer, runner.Chat = client, rollout.Pieces{}, rollout.Pieces{}
	runner.Version = func() int64 { return 0 }
	return nil
}
