package trajectory

// Termination is why a trajectory ended. The set is closed.
type Termination string

// The policy's own reasons are rewarded; ours never are: the rollout is retried or leaves with a reason.
const (
	Submitted     Termination = "submitted"
	NoSubmission  Termination = "no_submission"
	MaxTurns      Termination = "max_turns"
	MaxTokens     Termination = "max_tokens"
	TurnTruncated Termination = "turn_truncated"
	ContextFull   Termination = "context_full"

	TrajectoryTimeout Termination = "trajectory_timeout"
	SandboxLost       Termination = "sandbox_lost"
	PolicyUnavailable Termination = "policy_unavailable"
	Canceled          Termination = "canceled"
	Stale             Termination = "stale"
)

// Rewarded reports whether the reason is the policy's, so that the rollout gets a reward.
func (t Termination) Rewarded() bool {
	switch t {
	case Submitted, NoSubmission, MaxTurns, MaxTokens, TurnTruncated, ContextFull:
		return true
	}
	return false
}

// Valid reports whether t is one of the closed set.
func (t Termination) Valid() bool {
	switch t {
	case TrajectoryTimeout, SandboxLost, PolicyUnavailable, Canceled, Stale:
		return true
	}
	return t.Rewarded()
}
