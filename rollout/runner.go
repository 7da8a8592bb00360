package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Policy generates. *policy.Client is the real one.
type Policy interface {
	Complete(ctx context.Context, req policy.Request) (policy.Completion, error)
}

// Tokenizer decodes ids to bytes.
type Tokenizer interface {
	policy.Vocabulary
	Decode(ids []int32) []byte
}

// Chat renders the conversation to ids.
type Chat interface {
	Prompt(system, user string) []int32
	Delta(closed bool, observation string) []int32
	EndOfTurn() int32
}

// Analyzer is the static pass. An error is ours; a cell that does not parse is Analysis.Error.
type Analyzer interface {
	Analyze(ctx context.Context, source string, state map[string]json.RawMessage) (evidence.Analysis, error)
}

// Runner runs single trajectories. Safe for concurrent use.
type Runner struct {
	Config    Config
	Policy    Policy
	Tokenizer Tokenizer
	Chat      Chat
	Sandbox   sandbox.Provider
	Analyzer  Analyzer
	Templates *Templates
	// Version is the newest policy version known.
	Version func() int64
}

var (
	_ Policy       = (*policy.Client)(nil)
	_ sandbox.Host = (*evidence.Cell)(nil)
)

// Run runs one attempt of one member. It always returns a trajectory; what went wrong on our side
// is its Termination and Error. Files maps data file names to host paths.
func (r *Runner) Run(ctx context.Context, d task.Dispatch, sample, attempt int, files map[string]string) trajectory.Trajectory {
	rn := &run{
		Runner: r, dispatch: d, files: files, seed: sampleSeed(d.Seed, sample),
		out: trajectory.Trajectory{
			ID:      task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: sample},
			Attempt: attempt, PromptID: d.Prompt.ID, DataSource: d.Prompt.DataSource,
		},
	}
	limited, cancel := context.WithTimeout(ctx, r.Config.TrajectoryTimeout)
	defer cancel()
	reason, err := rn.play(limited)
	rn.close()
	switch {
	case ctx.Err() != nil:
		reason, err = trajectory.Canceled, ctx.Err()
	case limited.Err() != nil:
		reason, err = trajectory.TrajectoryTimeout, fmt.Errorf("not finished after %s", r.Config.TrajectoryTimeout)
	}
	return rn.finish(reason, err)
}

// run is the state of one attempt.
type run struct {
	*Runner
	dispatch task.Dispatch
	files    map[string]string
	seed     int64
	graph    *evidence.Graph
	log      *tokenLog
	session  sandbox.Session
	out      trajectory.Trajectory
}

func (r *run) play(ctx context.Context) (trajectory.Termination, error) {
	system, user, err := r.Templates.Messages(r.dispatch.Prompt)
	if err != nil {
		return trajectory.Canceled, err
	}
	prompt := r.Chat.Prompt(system, user)
	if len(prompt) > r.Config.MaxPromptTokens {
		return trajectory.ContextFull, fmt.Errorf("prompt has %d tokens, the limit is %d", len(prompt), r.Config.MaxPromptTokens)
	}
	r.log = newTokenLog(prompt)
	r.out.Messages = []trajectory.Message{{Role: "system", Content: system}, {Role: "user", Content: user}}
	r.graph = evidence.New(graphTask(r.dispatch.Prompt), r.Config.Evidence)
	for turn := range r.Config.MaxTurns {
		reason, err := r.turn(ctx, turn)
		if err != nil || reason != "" {
			return reason, err
		}
	}
	return trajectory.MaxTurns, nil
}

// turn plays one turn; an empty reason means that the trajectory goes on.
func (r *run) turn(ctx context.Context, turn int) (trajectory.Termination, error) {
	gen, err := r.generate(ctx, turn)
	if err != nil {
		return classify(err), err
	}
	r.record(turn, gen)
	if gen.cut != "" {
		return gen.cut, nil
	}
	if !gen.hasCode {
		return trajectory.NoSubmission, nil
	}
	observation, err := r.cell(ctx, turn, gen.code)
	if err != nil {
		return trajectory.SandboxLost, err
	}
	if r.graph.Submitted() {
		return trajectory.Submitted, nil
	}
	if turn+1 == r.Config.MaxTurns {
		return trajectory.MaxTurns, nil
	}
	delta := r.Chat.Delta(gen.closed, observation)
	// No room for the observation and one more token: the row ends with the sampled turn.
	if r.log.responseLen()+len(delta) >= r.Config.MaxResponseTokens {
		return trajectory.MaxTokens, nil
	}
	r.log.appendMasked(trajectory.SpanObservation, turn, delta)
	r.out.Messages = append(r.out.Messages, trajectory.Message{Role: "user", Content: observation})
	return "", nil
}

// record appends a generated turn to the token log and the readable record.
func (r *run) record(turn int, gen generated) {
	for _, p := range gen.tokens.pieces {
		r.log.appendSampled(turn, p)
	}
	r.out.Turns = append(r.out.Turns, trajectory.Turn{
		Text: gen.text, FinishReason: gen.finish, SampledIDs: gen.tokens.len(), GenerateS: gen.seconds,
	})
	r.out.Timing.GenerateS += gen.seconds
	r.out.Messages = append(r.out.Messages, trajectory.Message{Role: "assistant", Content: gen.text})
}

// finish completes the trajectory. Mask-0 ids after the last sampled one never enter a row.
func (r *run) finish(reason trajectory.Termination, err error) trajectory.Trajectory {
	t := &r.out
	t.Termination = reason
	if err != nil {
		t.Error = err.Error()
	}
	if r.graph != nil {
		t.Graph = r.graph.Export()
		t.Answer = t.Graph.Answer()
		t.Flags = flags(t)
	}
	if r.log == nil {
		return *t
	}
	seg := r.log.seg
	seg.CutTail()
	if len(seg.ResponseIDs) > 0 {
		t.Segments = []trajectory.Segment{seg}
	}
	if err := t.Check(); err != nil && reason.Rewarded() {
		// A broken invariant is our fault and must not become a training row.
		t.Termination, t.Error = trajectory.Canceled, err.Error()
	}
	return *t
}

func (r *run) close() {
	if r.session != nil {
		_ = r.session.Close() // the session is gone either way
		r.session = nil
	}
}

func graphTask(p task.Prompt) evidence.Task {
	t := evidence.Task{Question: p.Question}
	for _, f := range p.Files {
		t.Sources = append(t.Sources, evidence.Source{Name: f.Name, SHA256: f.SHA256})
	}
	return t
}

func classify(err error) trajectory.Termination {
	var pe *policy.Error
	if errors.As(err, &pe) {
		if pe.Outcome == policy.ContextFull {
			return trajectory.ContextFull
		}
		return trajectory.PolicyUnavailable
	}
	return trajectory.Canceled
}

func flags(t *trajectory.Trajectory) []string {
	seen := map[string]bool{}
	var out []string
	add := func(f string) {
		if !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	for _, m := range t.Graph.Taints {
		add("tainted:" + m.Construct)
	}
	for _, m := range t.Graph.Refusals {
		add("refused:" + m.Rule)
	}
	for _, f := range t.Graph.Flags {
		add(f)
	}
	return out
}
