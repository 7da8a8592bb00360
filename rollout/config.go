package rollout

import (
	"errors"
	"fmt"
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// StopMode says where a generation ends.
type StopMode string

// Stop modes (DESIGN section 5): at the closing code tag, or at the end-of-turn id, in which case
// ids after the token that closes the tag are cut off.
const (
	StopAtCodeTag   StopMode = "code_tag"
	StopAtEndOfTurn StopMode = "end_of_turn"
)

// ContextMode says what happens when the context has no room for the next turn.
type ContextMode string

// Context modes (DESIGN section 5): the trajectory ends, or a new segment begins in which only the
// newest observation is kept. The padded contract of one row per rollout refuses ContextCompress.
const (
	ContextAppend   ContextMode = "append"
	ContextCompress ContextMode = "compress"
)

// Agent is the protocol that the policy is told to follow.
type Agent string

// Agents: VeriGraph's evidence protocol, and the baselines of its evaluation, which answer in words inside
// <answer> tags: with the same Python sessions, or without tools.
const (
	AgentVeriGraph Agent = "verigraph"
	AgentCodeAct   Agent = "codeact"
	AgentDirect    Agent = "direct"
)

// Config bounds trajectories by what the policy controls, and sets how it is sampled.
type Config struct {
	// Agent is verigraph, codeact or direct; the last two are for evaluations.
	Agent Agent `yaml:"agent"`
	// MaxTurns is the number of generations.
	MaxTurns int `yaml:"max_turns"`
	// MaxTurnTokens bounds one turn.
	MaxTurnTokens int `yaml:"max_turn_tokens"`
	// MaxResponseTokens bounds the whole response, observations included, and MaxPromptTokens the
	// first prompt: they are the trainer's response_length and prompt_length, set from there.
	MaxResponseTokens int `yaml:"-"`
	MaxPromptTokens   int `yaml:"-"`
	// MaxContext is the model's context length; 0 takes it from /v1/models.
	MaxContext int `yaml:"max_context"`
	// Stop is where a generation ends: code_tag (at the closing tag) or end_of_turn (what follows the tag is cut off).
	Stop StopMode `yaml:"stop"`
	// Thinking false renders every assistant header with an empty block of reasoning.
	Thinking bool `yaml:"thinking"`
	// Context is append, or compress: one training row per segment.
	Context ContextMode `yaml:"context"`
	// TrajectoryTimeout is the wall-clock bound of one attempt; reaching it is our failure.
	TrajectoryTimeout time.Duration       `yaml:"trajectory_timeout"`
	Sampling          trajectory.Sampling `yaml:"sampling"`
	// MaxStaleness cancels a group once its oldest tokens are more than this many policy versions behind
	// the newest, since the trainer would drop it; -1 never does. Set it to the trainer's own bound.
	MaxStaleness int64 `yaml:"max_staleness"`
	// MaxAttempts is how often a member that ended for our reasons is tried.
	MaxAttempts int             `yaml:"max_attempts"`
	Evidence    evidence.Config `yaml:"evidence"`
	// Journal is on, or off: every finished turn is durable before the next one starts, so that a worker
	// that dies costs no sampled token.
	Journal JournalMode `yaml:"journal"`
	// Replay is off, or submitted: every submission is run again before it is published.
	Replay  ReplayMode  `yaml:"replay"`
	Prompts PromptFiles `yaml:"prompts"`
}

// Defaults suit the demo and small models.
func Defaults() Config {
	return Config{
		Agent: AgentVeriGraph, MaxTurns: 16, MaxTurnTokens: 4096, MaxResponseTokens: 16384, MaxPromptTokens: 4096,
		Stop: StopAtCodeTag, Thinking: true, Context: ContextAppend, TrajectoryTimeout: 30 * time.Minute,
		Sampling:     trajectory.Sampling{Temperature: 1, TopP: 1, TopK: -1, MinP: 0, RepetitionPenalty: 1},
		MaxStaleness: -1, MaxAttempts: 3, Evidence: evidence.Defaults(), Replay: ReplayOff, Journal: JournalOn,
	}
}

// asked is the configuration with what a prompt asked for in its place.
func (c Config) asked(s *task.Sampling) Config {
	if s == nil {
		s = &task.Sampling{}
	}
	set(&c.Sampling.Temperature, s.Temperature)
	set(&c.Sampling.TopP, s.TopP)
	set(&c.Sampling.TopK, s.TopK)
	if s.MaxTokens != nil {
		c.MaxTurnTokens = min(c.MaxTurnTokens, *s.MaxTokens)
	}
	c.Sampling.MaxTokens = c.MaxTurnTokens
	return c
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, v int) {
		if v < 1 {
			errs = append(errs, fmt.Errorf("rollout.%s: %d, want at least 1", name, v))
		}
	}
	positive("max_turns", c.MaxTurns)
	positive("max_turn_tokens", c.MaxTurnTokens)
	positive("max_response_tokens", c.MaxResponseTokens)
	positive("max_prompt_tokens", c.MaxPromptTokens)
	positive("max_attempts", c.MaxAttempts)
	if c.MaxContext < 0 {
		errs = append(errs, fmt.Errorf("rollout.max_context: %d, want 0 or more", c.MaxContext))
	}
	if c.Agent != AgentVeriGraph && c.Agent != AgentCodeAct && c.Agent != AgentDirect {
		errs = append(errs, fmt.Errorf("rollout.agent: %q, want %s, %s or %s", c.Agent, AgentVeriGraph, AgentCodeAct, AgentDirect))
	}
	if c.Stop != StopAtCodeTag && c.Stop != StopAtEndOfTurn {
		errs = append(errs, fmt.Errorf("rollout.stop: %q, want %s or %s", c.Stop, StopAtCodeTag, StopAtEndOfTurn))
	}
	if c.MaxStaleness < -1 {
		errs = append(errs, fmt.Errorf("rollout.max_staleness: %d, want -1 (never) or more", c.MaxStaleness))
	}
	if c.Context != ContextAppend && c.Context != ContextCompress {
		errs = append(errs, fmt.Errorf("rollout.context: %q, want %s or %s", c.Context, ContextAppend, ContextCompress))
	}
	if c.Replay != ReplayOff && c.Replay != ReplaySubmitted {
		errs = append(errs, fmt.Errorf("rollout.replay: %q, want %s or %s", c.Replay, ReplayOff, ReplaySubmitted))
	}
	if c.Journal != JournalOn && c.Journal != JournalOff {
		errs = append(errs, fmt.Errorf("rollout.journal: %q, want %s or %s", c.Journal, JournalOn, JournalOff))
	}
	if c.TrajectoryTimeout <= 0 {
		errs = append(errs, fmt.Errorf("rollout.trajectory_timeout: %s, want more than 0", c.TrajectoryTimeout))
	}
	if s := c.Sampling; s.Temperature < 0 || s.TopP <= 0 || s.TopP > 1 || s.MinP < 0 || s.MinP > 1 || s.RepetitionPenalty <= 0 || s.TopK < -1 {
		errs = append(errs, fmt.Errorf("rollout.sampling: %+v is out of range", s))
	}
	return errors.Join(append(errs, c.Evidence.Validate())...)
}
