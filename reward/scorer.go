package reward

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Terms name the parts of a total.
const (
	termProcess = "process"
	termInfer   = "infer"
	termOutcome = "outcome"
	termPenalty = "penalty"
)

// defaultParallel is how many judge calls one rollout makes at once; the judge has its own limit.
const defaultParallel = 8

// Config is what a Scorer needs.
type Config struct {
	Preset Preset
	// Judge is needed where weights.infer is not 0.
	Judge Judge
	// Outcome is needed for references without named sub-answers.
	Outcome OutcomeJudge
	// Hooks are custom outcome scorers by the name that a reference's meta.scorer gives.
	Hooks map[string]Hook
	// Parallel bounds the judge calls of one rollout; 0 means 8.
	Parallel int
	// Deadline bounds all judging of one rollout; 0 means none but the caller's.
	Deadline time.Duration
	// Healthy, when set, is asked after a text got no usable verdict: a judge that is well otherwise
	// makes the rollout unjudgeable and not unscored.
	Healthy func(context.Context) bool
}

// Scorer computes rewards. It is safe for concurrent use and holds no state between calls.
type Scorer struct {
	preset   Preset
	hash     string
	judge    Judge
	outcome  OutcomeJudge
	hooks    map[string]Hook
	parallel int
	deadline time.Duration
	healthy  func(context.Context) bool
}

// New checks the configuration.
func New(cfg Config) (*Scorer, error) {
	if err := cfg.Preset.Validate(); err != nil {
		return nil, fmt.Errorf("reward preset %s: %w", cfg.Preset.Name, err)
	}
	if cfg.Judge == nil && cfg.Preset.asks() {
		return nil, fmt.Errorf("reward preset %s: weights.infer is %g and no judge is configured", cfg.Preset.Name, cfg.Preset.Weights.Infer)
	}
	if cfg.Parallel < 0 || cfg.Deadline < 0 {
		return nil, errors.New("reward: parallel or deadline is negative")
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = defaultParallel
	}
	return &Scorer{
		preset: cfg.Preset, hash: cfg.Preset.Hash(), judge: cfg.Judge, outcome: cfg.Outcome, hooks: cfg.Hooks,
		parallel: cfg.Parallel, deadline: cfg.Deadline, healthy: cfg.Healthy,
	}, nil
}

// asks reports whether a preset needs verdicts on derived claims.
func (p Preset) asks() bool { return p.Weights.Infer != 0 }

// Preset returns the preset that the scorer applies.
func (s *Scorer) Preset() Preset { return s.preset }

// Score returns the reward of one trajectory with all its parts. It is pure apart from judge calls.
// The status is lost if the rollout ended for a reason of ours and unscored if a judge gave no
// verdict or the reference can't be scored; both carry a reason and no number. When ctx ends during
// judging the score is unscored too: callers check ctx before they keep it.
func (s *Scorer) Score(ctx context.Context, t trajectory.Trajectory, p task.Prompt, ref task.Reference) trajectory.Score {
	if !t.Termination.Rewarded() {
		return s.without(trajectory.ScoreLost, fmt.Sprintf("%s: %s", t.Termination, t.Error), nil)
	}
	if ref.PromptID != "" && t.PromptID != "" && ref.PromptID != t.PromptID {
		return s.without(trajectory.ScoreUnscored, fmt.Sprintf("reference of prompt %s given for prompt %s", ref.PromptID, t.PromptID), nil)
	}
	sub := newSubmission(&t.Graph, len(t.Turns))
	edges := sub.edges(s.preset.Infer.Scope)
	judging := ctx
	if s.deadline > 0 {
		var cancel context.CancelFunc
		judging, cancel = context.WithTimeout(ctx, s.deadline)
		defer cancel()
	}
	out, err := s.scoreOutcome(judging, sub, p, ref, &t)
	if err != nil {
		return s.failed(ctx, err, edges, nil)
	}
	stand := standing(sub, out)
	counts := !s.preset.GateOnSubmission || stand == standAnswered
	inf := inferResult{}
	if s.preset.asks() && counts {
		inf = s.scoreInfer(judging, sub, p, out)
		if inf.err != nil {
			return s.failed(ctx, inf.err, edges, inf.verdicts)
		}
		s.refute(&out, sub, inf)
	}
	proc := scoreProcess(&t)
	score := trajectory.Score{
		Status: trajectory.ScoreOK, Preset: s.preset.Name, PresetHash: s.hash,
		Process: proc.value, Infer: inf.value, Outcome: out.value, Correct: out.correct, Accuracy: out.value, Verdicts: inf.verdicts,
		Method: out.method, Edges: edges, Gov: inf.gov,
	}
	if out.correct != nil {
		score.Accuracy = 0
		if *out.correct {
			score.Accuracy = 1
		}
	}
	w := s.preset.Weights
	score.Parts = append(score.Parts, weighted(proc.parts, gate(w.Process, counts), notCounted(counts, stand))...)
	score.Parts = append(score.Parts, weighted(inf.parts, w.Infer, "")...)
	score.Parts = append(score.Parts, weighted(out.parts, w.Outcome, "")...)
	penalties := s.penalties(sub, stand, proc.value, inf.restated)
	score.Parts = append(score.Parts, penalties...)
	for _, part := range penalties {
		score.Penalty += part.Weight * part.Value
	}
	score.Total = gate(w.Process, counts)*proc.value + w.Infer*inf.value + w.Outcome*out.value + score.Penalty
	score.TurnRewards = place(score.Parts, len(t.Turns))
	s.shape(&score, &t)
	if field := notFinite(&score); field != "" {
		return s.without(trajectory.ScoreUnscored, field+" is not finite", inf.verdicts)
	}
	return score
}

// failed is the score of a rollout that a judge gave no verdict on.
func (s *Scorer) failed(ctx context.Context, err error, edges int, verdicts []trajectory.Verdict) trajectory.Score {
	status := trajectory.ScoreUnscored
	if errors.Is(err, ErrText) && s.healthy != nil && s.healthy(ctx) {
		status = trajectory.ScoreUnjudgeable
	}
	score := s.without(status, err.Error(), verdicts)
	score.Edges = edges
	return score
}

// refute takes the worth of sub-answers that stand in a derived claim which the judge did not let
// stand, or which rests on one. R_outcome's rule looks at values only: without this, a conclusion that
// asserts the answer over an unrelated grounded premise would be paid in full.
func (s *Scorer) refute(out *outcomeResult, sub *submission, inf inferResult) {
	if s.preset.Infer.AnswerNeeds == NeedsNothing || out.rule == nil {
		return
	}
	bad := map[string]string{}
	for _, part := range inf.parts {
		n := sub.nodes[part.Name]
		switch {
		case part.Value == notEntailedValue:
			bad[part.Name] = "refuted"
		case s.preset.Infer.AnswerNeeds == NeedsEntailed && part.Weight == 0 && n.Restates == "":
			bad[part.Name] = "not entailed"
		}
	}
	support := s.preset.Infer.AnswerNeeds == NeedsSupport && !out.rule.Graded
	if len(bad) == 0 && !support {
		return
	}
	w := newWords(sub, inf.verdicts)
	out.value = 0
	for i := range out.parts {
		part := &out.parts[i]
		if support && part.Value > 0 && worded(out.got[i]) && !w.supported(out.claims[i], part.Name, out.got[i]) {
			part.Value, part.Reason = 0, "right, yet a guess: the word comes from no data, and no judge found that the premises say it"
		}
		if part.Value > 0 && i < len(out.claims) {
			in := sub.closure([]string{out.claims[i]})
			for _, n := range sub.order {
				if why := bad[n.ID]; why != "" && in[n.ID] {
					part.Value, part.Reason = 0, fmt.Sprintf("right, yet %s is %s", n.ID, why)
					break
				}
			}
		}
		out.value += part.Value * part.Weight
	}
	out.value = min(out.value, 1)
}

// without is a score that holds no number.
func (s *Scorer) without(status trajectory.ScoreStatus, reason string, verdicts []trajectory.Verdict) trajectory.Score {
	return trajectory.Score{Status: status, Reason: reason, Preset: s.preset.Name, PresetHash: s.hash, Verdicts: verdicts}
}

// shape clips the total and adds the overlong punishment.
func (s *Scorer) shape(score *trajectory.Score, t *trajectory.Trajectory) {
	score.Clipped = score.Total
	if c := s.preset.Clip; c != nil {
		score.Clipped = min(max(score.Total, c.Min), c.Max)
	}
	score.Overlong = s.preset.Overlong.Punishment(responseLength(t))
	score.Reward = score.Clipped + score.Overlong
}

func gate(weight float64, counts bool) float64 {
	if counts {
		return weight
	}
	return 0
}

func notCounted(counts bool, stand standingKind) string {
	if counts {
		return ""
	}
	return "not counted: " + string(stand)
}

// weighted multiplies the parts' own weights by the term's.
func weighted(parts []trajectory.Part, weight float64, reason string) []trajectory.Part {
	for i := range parts {
		parts[i].Weight *= weight
		if reason != "" {
			parts[i].Reason += "; " + reason
		}
	}
	return parts
}

// place puts each part on its turn. A rollout that ended before its first turn has one entry, so
// that the sum is still the total.
func place(parts []trajectory.Part, turns int) []float64 {
	rewards := make([]float64, max(turns, 1))
	for _, part := range parts {
		rewards[min(max(part.Turn, 0), len(rewards)-1)] += part.Weight * part.Value
	}
	return rewards
}

// notFinite names the first number that is NaN or infinite. With validated presets and checked
// verdicts none can be; the guard is what the package's invariant rests on.
func notFinite(score *trajectory.Score) string {
	bad := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"process", score.Process},
		{"infer", score.Infer},
		{"outcome", score.Outcome},
		{"penalty", score.Penalty},
		{"total", score.Total},
		{"clipped", score.Clipped},
		{"overlong", score.Overlong},
		{"reward", score.Reward},
		{"accuracy", score.Accuracy},
	} {
		if bad(f.value) {
			return f.name
		}
	}
	for i, part := range score.Parts {
		if bad(part.Value) || bad(part.Weight) {
			return fmt.Sprintf("part %d (%s %s)", i, part.Term, part.Name)
		}
	}
	for i, v := range score.TurnRewards {
		if bad(v) {
			return fmt.Sprintf("turn reward %d", i)
		}
	}
	return ""
}
