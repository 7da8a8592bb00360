package reward

import (
	"math"

	"github.com/verigraph/verigraph/trajectory"
)

// Overlong is DAPO's soft punishment (verl reward_manager/dapo.py): with expected =
// max_response_length - buffer, add min(-(length-expected)/buffer*penalty_factor, 0). It has one
// owner: server applies it here, trainer leaves it to the trainer, none applies it nowhere.
type Overlong struct {
	Owner Owner `json:"owner" yaml:"owner"`
	// MaxResponseLength and Buffer are in tokens; tool tokens count.
	MaxResponseLength int     `json:"max_response_length" yaml:"max_response_length"`
	Buffer            int     `json:"buffer" yaml:"buffer"`
	PenaltyFactor     float64 `json:"penalty_factor" yaml:"penalty_factor"`
}

// Owner is who applies the overlong rule.
type Owner string

// Owners of the overlong rule.
const (
	OwnerNone    Owner = "none"
	OwnerServer  Owner = "server"
	OwnerTrainer Owner = "trainer"
)

func (o Overlong) validate(bad func(key, format string, args ...any)) {
	switch o.Owner {
	case OwnerNone, OwnerTrainer:
		return
	case OwnerServer:
	default:
		bad("overlong.owner", "%q is none of none, server, trainer", o.Owner)
		return
	}
	if o.Buffer <= 0 {
		bad("overlong.buffer", "%d is not positive", o.Buffer)
	}
	if o.MaxResponseLength <= o.Buffer {
		bad("overlong.max_response_length", "%d is not above the buffer %d", o.MaxResponseLength, o.Buffer)
	}
	if math.IsNaN(o.PenaltyFactor) || o.PenaltyFactor <= 0 || o.PenaltyFactor > maxMagnitude {
		bad("overlong.penalty_factor", "%g is not between 0 and %d", o.PenaltyFactor, maxMagnitude)
	}
}

// Punishment is the amount (<= 0) for a response of length tokens.
func (o Overlong) Punishment(length int) float64 {
	if o.Owner != OwnerServer {
		return 0
	}
	exceed := length - (o.MaxResponseLength - o.Buffer)
	if exceed <= 0 {
		return 0
	}
	return -float64(exceed) / float64(o.Buffer) * o.PenaltyFactor
}

// responseLength is the longest row's: rows of a compressed rollout repeat retained history, so
// their sum would count tokens twice, and all rows share one reward.
func responseLength(t *trajectory.Trajectory) int {
	longest := 0
	for i := range t.Segments {
		longest = max(longest, len(t.Segments[i].ResponseIDs))
	}
	return longest
}
