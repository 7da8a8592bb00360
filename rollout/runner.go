package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
	Config Config
	Policy Policy
	// Text takes Policy's place for teachers and baselines that give no token ids: the trajectories
	// are marked TextOnly and hold no segments. The tokenizer then only counts and parses.
	Text      policy.TextPolicy
	Tokenizer Tokenizer
	Chat      Chat
	Sandbox   sandbox.Provider
	// HashSeed and SessionClock are those of Sandbox, to be recorded.
	HashSeed     uint32
	SessionClock string
	Analyzer     Analyzer
	Templates    *Templates
	// Version is the newest policy version known.
	Version func() int64
	// ContextLimit is the context length that the server stated, 0 while it is not known; it holds where
	// Config.MaxContext is 0. Nil states none.
	ContextLimit func() int
	// Clock stands still while the policy is paused; nil is the time of day.
	Clock func() time.Time
	// Tracer is told of rollouts and turns; nil is told nothing.
	Tracer Tracer
	// Replay runs submitted trajectories again before they are published; nil leaves them as they are.
	Replay Replayer
}

var (
	_ Policy       = (*policy.Client)(nil)
	_ sandbox.Host = (*evidence.Cell)(nil)
)

// Run runs one attempt of one member. It always returns a trajectory; what went wrong on our side
// is its Termination and Error. Files maps data file names to host paths.
func (r *Runner) Run(ctx context.Context, d task.Dispatch, sample, attempt int, files map[string]string) trajectory.Trajectory {
	return r.runShared(ctx, d, sample, attempt, shared{files: files, task: graphTask(d.Prompt)})
}

// shared is what the members of a group have in common.
type shared struct {
	files map[string]string
	age   *groupAge
	task  evidence.Task
	// record is of one member; nil records nothing. abandon ends all members.
	record  *record
	abandon context.CancelCauseFunc
}

func (r *Runner) runShared(ctx context.Context, d task.Dispatch, sample, attempt int, common shared) trajectory.Trajectory {
	own := *r
	own.Config = r.Config.asked(d.Prompt.Sampling)
	if own.Config.MaxContext == 0 && r.ContextLimit != nil {
		own.Config.MaxContext = r.ContextLimit()
	}
	rn := &run{
		Runner: &own, dispatch: d, shared: common, seed: sampleSeed(d.Seed, sample),
		out: trajectory.Trajectory{
			ID:      task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: sample},
			Attempt: attempt, PromptID: d.Prompt.ID, DataSource: d.Prompt.DataSource, Seed: sampleSeed(d.Seed, sample), HashSeed: r.HashSeed, Clock: r.SessionClock,
		},
	}
	limited, cancel := limit(ctx, r.Config.TrajectoryTimeout, r.clock)
	defer cancel()
	end := rn.play(limited)
	rn.close()
	switch {
	case errors.Is(context.Cause(ctx), errStale):
		end = End{trajectory.Stale, errStale}
	case ctx.Err() != nil:
		end = End{trajectory.Canceled, ctx.Err()}
	case limited.Err() != nil:
		end = End{trajectory.TrajectoryTimeout, fmt.Errorf("not finished after %s", r.Config.TrajectoryTimeout)}
	}
	return rn.replayed(ctx, rn.finish(end))
}

// run is the state of one attempt: the machine decides, run does what it says.
type run struct {
	*Runner
	shared
	dispatch task.Dispatch
	seed     int64
	graph    *evidence.Graph
	machine  *Machine
	session  sandbox.Session
	out      trajectory.Trajectory
}

func (r *run) play(ctx context.Context) End {
	system, user, err := r.Templates.messages(r.dispatch.Prompt, r.shown())
	if err != nil {
		return End{trajectory.Canceled, err}
	}
	r.graph = evidence.New(r.task, r.Config.Evidence)
	r.out.Messages = []trajectory.Message{{Role: "system", Content: system}, {Role: "user", Content: user}}
	r.machine = NewMachine(r.Config, r.Tokenizer, r.Chat, r.Chat.Prompt(system, user))
	turns := turns{of: ctx, tracer: r.Tracer}
	defer turns.end()
	for {
		switch s := r.machine.Next().(type) {
		case End:
			return s
		case Generate:
			ctx := turns.at(s.Turn)
			if r.age.tooOld() {
				r.machine.Stop(trajectory.Stale, errStale)
				continue
			}
			if r.Text != nil {
				r.write(ctx, r.machine, s)
				continue
			}
			r.generate(ctx, r.machine, s)
		case RunCell:
			if err := r.cell(turns.at(s.Turn), r.machine, s); err != nil {
				r.machine.Stop(lossOf(err), err)
			}
		}
	}
}

// finish completes the trajectory. Mask-0 ids after the last sampled one never enter a row.
func (r *run) finish(end End) trajectory.Trajectory {
	t := &r.out
	t.Termination = end.Reason
	if end.Err != nil {
		t.Error = end.Err.Error()
	}
	if r.graph != nil {
		t.Graph = r.graph.Export()
		t.Answer = t.Graph.Answer()
		t.Flags = flags(t)
	}
	m := r.machine
	if m == nil {
		return *t
	}
	t.Turns = m.turns
	if r.Config.Agent != AgentVeriGraph {
		inWords(t, r.Config.Agent, m.answer)
	}
	t.Messages = append(t.Messages, m.messages...)
	for i := range t.Turns {
		t.Timing.GenerateS += t.Turns[i].GenerateS
	}
	t.Segments = m.Segments()
	t.DriftTurns = m.Drift()
	if err := m.Check(t.Segments); err != nil && end.Reason.Rewarded() {
		// A broken invariant is our fault and must not become a training row.
		t.Termination, t.Error = trajectory.Canceled, fmt.Sprintf("rollout %s: %v", t.ID, err)
	}
	if r.Text != nil {
		t.TextOnly, t.Segments, t.DriftTurns = true, nil, 0
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
