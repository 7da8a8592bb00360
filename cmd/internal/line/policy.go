package line

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/openaichat"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/policy/probe"
	"github.com/verigraph/verigraph/policy/servertok"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/rollout"
)

// exactPolicy gives the runner a policy of token ids. Its server is probed when the first endpoints are
// known (see follower).
func (w *Worker) exactPolicy(ctx context.Context, cfg config.Config, runner *rollout.Runner) error {
	var err error
	if w.endpoints, err = pool.New(cfg.Policy.Endpoints, cfg.Policy.Config, w.log); err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { w.endpoints.Close(); return nil })
	if cfg.Policy.Endpoints.DNS {
		w.endpoints.Resolve(ctx)
	}
	tok, err := w.tokenizer(ctx, cfg.Policy.Tokenizer)
	if err != nil {
		return err
	}
	ml, err := chat.New(tok, chat.Thinking(cfg.Rollout.Thinking))
	if err != nil {
		return err
	}
	w.callLimit = cfg.Policy.CallTimeout + time.Minute
	w.prober = &prober{pool: w.endpoints, log: w.log, opt: probe.Options{
		Model: cfg.Policy.Model, Tokenizer: tok, Sampling: cfg.Rollout.Sampling,
		NeedContext: cfg.Trainer.PromptLength + cfg.Trainer.ResponseLength,
	}}
	w.Identity = rollout.Identity{
		Model: cfg.Policy.Model, TokenizerSHA256: tok.SHA256(), ChatTemplateSHA256: ml.SHA256(), PadTokenID: ml.Pad(),
	}
	runner.Policy, runner.Tokenizer, runner.Chat = w.endpoints, tok, ml
	runner.Version, runner.ContextLimit, runner.Clock = w.endpoints.Version, w.prober.contextLimit, w.endpoints.Now
	return nil
}

func (w *Worker) tokenizer(ctx context.Context, from string) (*tokenizer.Tokenizer, error) {
	if from != config.TokenizerServer {
		return tokenizer.Load(from)
	}
	tok, err := servertok.Load(ctx, w.endpoints.Client())
	if err == nil {
		w.log.Info("tokenizer rebuilt from the server's vocabulary", zap.Int("tokens", tok.Size()), zap.String("sha256", tok.SHA256()))
	}
	return tok, err
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
