// Package reward computes R = w_p*R_process + w_i*R_infer + w_o*R_outcome over a trajectory's
// submitted subgraph, then penalty, clip and overlong shaping.
//
// Invariants: a reward is a pure function of the stored trajectory, the reference answer, the
// preset and the verdicts; a judge that gives no verdict makes the rollout unscored, never a
// number; no value that leaves this package is NaN or infinite.
package reward

import (
	"context"
	"errors"

	"github.com/verigraph/verigraph/trajectory"
)

// Step is one derived claim put to a judge.
type Step struct {
	Question   string
	Premises   []string // texts, in the claim's premise order
	Reasoning  string
	Conclusion string
}

// Judge decides whether a step's premises entail its conclusion. Implementations are safe for
// concurrent use. A verdict is entailed, not_entailed or abstained; when the judge said nothing
// usable (time-out, rate limit, bad answer) it returns an error that wraps ErrNoVerdict.
type Judge interface {
	Entails(ctx context.Context, step Step) (trajectory.Verdict, error)
	// Name is the judge model, or "rules".
	Name() string
}

// BlockJudge also decides several steps in one call, each of which may rest on those before it: the
// place of the first step that does not follow, -1 if all do.
type BlockJudge interface {
	Judge
	EntailsBlock(ctx context.Context, block Block) (first int, v trajectory.Verdict, err error)
}

// Block is a run of steps put to a judge at once. Given are the claims taken as true.
type Block struct {
	Question string
	Given    []string
	Steps    []Step
}

// ErrNoVerdict is wrapped by every judge failure.
var ErrNoVerdict = errors.New("judge: no verdict")

// ErrText is wrapped beside ErrNoVerdict when the judge was reached and this text got nothing usable
// out of it, as opposed to an outage.
var ErrText = errors.New("judge: the text got no usable answer")
