package leader

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/verigraph/verigraph/dataset"
)

// NoStaleness is the value of Config.MaxStaleness that bounds nothing.
const NoStaleness = -1

// Stragglers says what happens when the next batch would make a running group too old.
type Stragglers string

// What happens to stragglers.
const (
	// StragglersWait holds the batch back until the group has ended: long tasks are never starved.
	StragglersWait Stragglers = "wait"
	// StragglersDrop goes on; the group is stale when it ends, and its prompt is dispatched again.
	StragglersDrop Stragglers = "drop"
)

// Exhausted says what happens when max_rounds went by without a full batch.
type Exhausted string

// What happens when the rounds are used up.
const (
	// ExhaustedPartial sends the good groups that there are, if any, and goes on.
	ExhaustedPartial Exhausted = "partial"
	// ExhaustedSkip keeps the good groups for a later batch and goes on.
	ExhaustedSkip Exhausted = "skip"
	// ExhaustedStop ends the leader with ErrExhausted; all state is kept.
	ExhaustedStop Exhausted = "stop"
)

// Filter is DAPO's dynamic sampling: groups whose metric does not vary are left out and replaced.
type Filter struct {
	// Enabled leaves those groups out.
	Enabled bool `yaml:"enabled"`
	// Metric is auto (acc where a rule judged every valid member, else score), acc, score,
	// seq_reward, seq_final_reward, r_process, r_infer or r_outcome.
	Metric string `yaml:"metric"`
	// MaxRounds bounds how many batches' worth of groups may end before a batch is full.
	MaxRounds int `yaml:"max_rounds"`
	// Exhausted says what happens when the rounds are used up: partial (send what there is), skip (keep it for a
	// later batch) or stop.
	Exhausted Exhausted `yaml:"exhausted"`
}

// Difficulty sorts prompts into pools by the accuracy that an earlier policy had on them, which a
// prompt carries in its meta object. Prompts without it are of normal difficulty.
type Difficulty struct {
	// Key of the accuracy in [0, 1]; empty switches the pools off.
	Key string `yaml:"key"`
	// Easy and Hard: at or above Easy a prompt is easy, at or below Hard it is hard.
	Easy float64 `yaml:"easy"`
	Hard float64 `yaml:"hard"`
	// Weights of the pools easy, normal and hard; a missing one is 1.
	Weights map[string]float64 `yaml:"weights"`
}

// Config of a leader.
type Config struct {
	Run string `yaml:"-"`
	// GroupSize is the number of rollouts of a prompt (verl's rollout.n).
	GroupSize int `yaml:"group_size"`
	// BatchGroups is the number of groups of a full batch.
	BatchGroups int `yaml:"batch_groups"`
	// MaxGroups bounds the groups that are dispatched and not yet delivered.
	MaxGroups int `yaml:"max_groups"`
	// Seed of the run: order, rollouts and sessions follow from it.
	Seed int64 `yaml:"seed"`
	// MinValid is the number of rewarded members below which a group fails; 0 means 2.
	MinValid int `yaml:"min_valid"`
	// MaxLost is the share of lost rollouts above which dispatching pauses but for one group at a time.
	MaxLost float64 `yaml:"max_lost"`
	// FillLost gives lost members a row of mask 0 (for trainers that need group_size rows).
	FillLost bool `yaml:"fill_lost"`
	// MaxStaleness is the largest age of a group in policy versions when it is trained on: 0 is
	// synchronous, 1 one step off, more is asynchronous, -1 bounds nothing.
	MaxStaleness int `yaml:"max_staleness"`
	// Stragglers says what happens when the next batch would make a running group too old: wait (hold the batch
	// back) or drop (its prompt is dispatched again).
	Stragglers Stragglers `yaml:"stragglers"`
	Filter     Filter     `yaml:"filter"`
	// Weights share the dispatches out over data sources that have prompts waiting; a missing one is 1.
	// Without weights prompts leave in the order in which they came.
	Weights    map[string]float64 `yaml:"weights"`
	Difficulty Difficulty         `yaml:"difficulty"`
	// MaxBacklog is the number of waiting prompts above which a trainer's prompts are refused.
	MaxBacklog int `yaml:"max_backlog"`
	// OnRestore is what a restore does unless the trainer says: regenerate or replay.
	OnRestore RestoreMode `yaml:"on_restore"`
	// Share is the run's part of the workers where several runs use one broker.
	Share Share `yaml:"share"`
	// Endpoints are the patterns (HOST:PORT, with * for a part) that policy addresses sent by a trainer
	// must match; without any, all are refused.
	Endpoints []string `yaml:"allow_endpoints"`
	// Limits are the trainer's prompt and response lengths.
	Limits   dataset.Limits        `yaml:"-"`
	Overlong dataset.OverlongOwner `yaml:"-"`
	// OneRow refuses rollouts of several rows, for trainers that take one.
	OneRow bool `yaml:"-"`
}

// Defaults of a leader.
func Defaults() Config {
	return Config{
		GroupSize: 4, BatchGroups: 8, MaxGroups: 64, MaxLost: 0.5, Overlong: dataset.OverlongNone,
		Share: Share{Weight: 1}, MaxStaleness: NoStaleness, Stragglers: StragglersWait, MaxBacklog: 200_000, OnRestore: Regenerate,
		Filter:     Filter{Metric: MetricAuto, MaxRounds: 10, Exhausted: ExhaustedPartial},
		Difficulty: Difficulty{Easy: 0.9, Hard: 0.1},
	}
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("leader."+key+": "+format, args...))
	}
	for _, e := range []struct {
		name string
		v    int
		low  int
	}{
		{"group_size", c.GroupSize, 2},
		{"batch_groups", c.BatchGroups, 1},
		{"max_groups", c.MaxGroups, 1},
		{"min_valid", c.MinValid, 0},
		{"max_staleness", c.MaxStaleness, NoStaleness},
		{"max_backlog", c.MaxBacklog, 1},
		{"filter.max_rounds", c.Filter.MaxRounds, 1},
	} {
		if e.v < e.low {
			bad(e.name, "%d, want at least %d", e.v, e.low)
		}
	}
	if c.MinValid == 1 {
		bad("min_valid", "1: a single member's raw reward would pass for an advantage; want 2 or more, or 0 for 2")
	}
	if c.MinValid > c.GroupSize {
		bad("min_valid", "%d is above the group size %d", c.MinValid, c.GroupSize)
	}
	if !(c.MaxLost >= 0 && c.MaxLost <= 1) {
		bad("max_lost", "%g, want a share from 0 to 1 (1 never pauses)", c.MaxLost)
	}
	if c.MaxGroups < c.BatchGroups {
		bad("max_groups", "%d is below batch_groups %d: no batch would ever fill", c.MaxGroups, c.BatchGroups)
	}
	if !slices.Contains([]Stragglers{StragglersWait, StragglersDrop}, c.Stragglers) {
		bad("stragglers", "%q, want wait or drop", c.Stragglers)
	}
	if c.OnRestore != Regenerate && c.OnRestore != Replay {
		bad("on_restore", "%q, want regenerate or replay", c.OnRestore)
	}
	for _, pattern := range c.Endpoints {
		if _, err := path.Match(pattern, ""); err != nil {
			bad("allow_endpoints", "%q: %v", pattern, err)
		}
	}
	if !slices.Contains([]Exhausted{ExhaustedPartial, ExhaustedSkip, ExhaustedStop}, c.Filter.Exhausted) {
		bad("filter.exhausted", "%q, want partial, skip or stop", c.Filter.Exhausted)
	}
	if _, ok := metrics[c.Filter.Metric]; !ok && c.Filter.Metric != MetricAuto {
		bad("filter.metric", "%q is none of auto, acc, score, seq_reward, seq_final_reward, r_process, r_infer, r_outcome", c.Filter.Metric)
	}
	for name, w := range c.Weights {
		if !(w > 0) {
			bad("weights", "%s: %g, want more than 0", name, w)
		}
	}
	for name, w := range c.Difficulty.Weights {
		if !slices.Contains([]string{poolEasy, poolNormal, poolHard}, name) || !(w > 0) {
			bad("difficulty.weights", "%s: %g, want easy, normal or hard with more than 0", name, w)
		}
	}
	if c.Difficulty.Key != "" && !(c.Difficulty.Hard < c.Difficulty.Easy) {
		bad("difficulty", "hard %g is not below easy %g", c.Difficulty.Hard, c.Difficulty.Easy)
	}
	return errors.Join(append(errs, c.Share.validate())...)
}
