package line

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/verigraph/verigraph/cmd/internal/tracing"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/reward/rules"
	"github.com/verigraph/verigraph/reward/service"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// traceRunner puts spans around what a rollout does; without a tracer the runner stays as it is.
func traceRunner(r *rollout.Runner, t *tracing.Tracer) {
	if t == nil {
		return
	}
	r.Tracer, r.Sandbox = tracedRollouts{t}, tracedSandbox{r.Sandbox, t}
	if r.Policy != nil {
		r.Policy = tracedPolicy{r.Policy, t}
	}
	if r.Text != nil {
		r.Text = tracedText{r.Text, t}
	}
}

type tracedRollouts struct{ t *tracing.Tracer }

func (t tracedRollouts) Rollout(ctx context.Context, id task.RolloutID, attempt int) (context.Context, func(trajectory.Termination)) {
	ctx, span := t.t.Start(ctx, tracing.SpanRollout, tracing.Rollout.String(id.String()), tracing.Attempt.Int(attempt))
	return ctx, func(why trajectory.Termination) {
		span.SetAttributes(tracing.Termination.String(string(why)))
		if !why.Rewarded() {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

func (t tracedRollouts) Turn(ctx context.Context, turn int) (context.Context, func()) {
	ctx, span := t.t.Start(ctx, tracing.SpanTurn, tracing.Turn.Int(turn))
	return ctx, func() { span.End() }
}

type tracedPolicy struct {
	rollout.Policy
	t *tracing.Tracer
}

func (p tracedPolicy) Complete(ctx context.Context, req policy.Request) (policy.Completion, error) {
	ctx, span := p.t.Start(ctx, tracing.SpanPolicy, tracing.Request.String(req.ID))
	c, err := p.Policy.Complete(ctx, req)
	if err == nil {
		span.SetAttributes(tracing.Finish.String(c.Finish), tracing.Tokens.Int(len(c.IDs)))
	}
	tracing.End(span, err)
	return c, err
}

type tracedText struct {
	policy.TextPolicy
	t *tracing.Tracer
}

func (p tracedText) Chat(ctx context.Context, req policy.TextRequest) (policy.Text, error) {
	ctx, span := p.t.Start(ctx, tracing.SpanPolicy)
	c, err := p.TextPolicy.Chat(ctx, req)
	if err == nil {
		span.SetAttributes(tracing.Finish.String(c.Finish))
	}
	tracing.End(span, err)
	return c, err
}

type tracedSandbox struct {
	sandbox.Provider
	t *tracing.Tracer
}

func (s tracedSandbox) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Session, error) {
	ctx, span := s.t.Start(ctx, tracing.SpanSession)
	session, err := s.Provider.Start(ctx, spec)
	tracing.End(span, err)
	if err != nil {
		return nil, err
	}
	return tracedSession{session, s.t}, nil
}

type tracedSession struct {
	sandbox.Session
	t *tracing.Tracer
}

func (s tracedSession) Run(ctx context.Context, code string, host sandbox.Host) (sandbox.Result, error) {
	ctx, span := s.t.Start(ctx, tracing.SpanCell)
	res, err := s.Session.Run(ctx, code, host)
	if err == nil {
		span.SetAttributes(tracing.Status.String(string(res.Status)))
	}
	tracing.End(span, err)
	return res, err
}

type tracedScorer struct {
	service.Scorer
	t *tracing.Tracer
}

func (s tracedScorer) Score(ctx context.Context, r trajectory.Trajectory, p task.Prompt, ref task.Reference) trajectory.Score {
	ctx, span := s.t.Start(ctx, tracing.SpanScore, tracing.Rollout.String(r.ID.String()), tracing.Attempt.Int(r.Attempt))
	score := s.Scorer.Score(ctx, r, p, ref)
	span.SetAttributes(tracing.Status.String(string(score.Status)))
	span.End()
	return score
}

// tracedJudge stands before the cache's judge: a verdict that came from the cache is no call.
type tracedJudge struct {
	judges.LLM
	t *tracing.Tracer
}

// traceJudge leaves the judge as it is without a tracer.
func traceJudge(j judges.LLM, t *tracing.Tracer) judges.LLM {
	if t == nil {
		return j
	}
	return tracedJudge{j, t}
}

func (j tracedJudge) start(ctx context.Context) (context.Context, trace.Span) {
	return j.t.Start(ctx, tracing.SpanJudge, tracing.Model.String(j.Name()))
}

func (j tracedJudge) Entails(ctx context.Context, s reward.Step) (trajectory.Verdict, error) {
	ctx, span := j.start(ctx)
	v, err := j.LLM.Entails(ctx, s)
	ended(span, v, err)
	return v, err
}

func (j tracedJudge) EntailsBlock(ctx context.Context, b reward.Block) (int, trajectory.Verdict, error) {
	ctx, span := j.start(ctx)
	first, v, err := j.LLM.EntailsBlock(ctx, b)
	ended(span, v, err)
	return first, v, err
}

func (j tracedJudge) Outcome(ctx context.Context, item reward.OutcomeItem) (reward.OutcomeVerdict, error) {
	ctx, span := j.start(ctx)
	v, err := j.LLM.Outcome(ctx, item)
	tracing.End(span, err)
	return v, err
}

func ended(span trace.Span, v trajectory.Verdict, err error) {
	kind := v.Kind
	if err != nil {
		kind = trajectory.NoVerdict
	}
	span.SetAttributes(tracing.Verdict.String(string(kind)))
	tracing.End(span, err)
}

// tracedRules is the rule judge with spans.
type tracedRules struct {
	rules.Judge
	t *tracing.Tracer
}

func (j tracedRules) Entails(ctx context.Context, s reward.Step) (trajectory.Verdict, error) {
	ctx, span := j.t.Start(ctx, tracing.SpanJudge, tracing.Model.String(j.Name()))
	v, err := j.Judge.Entails(ctx, s)
	ended(span, v, err)
	return v, err
}

func rulesJudge(t *tracing.Tracer) reward.Judge {
	if t == nil {
		return rules.Judge{}
	}
	return tracedRules{rules.Judge{}, t}
}
