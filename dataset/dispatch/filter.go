package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/verigraph/verigraph/trajectory"
)

// Metric names what must vary within a group, by verl's names.
type Metric string

// Metrics of the group filter. MetricAuto is acc where a rule judged the answer, else the reward.
const (
	MetricAuto   Metric = "auto"
	MetricAcc    Metric = "acc"
	MetricScore  Metric = "score"
	MetricReward Metric = "seq_reward"
	MetricFinal  Metric = "seq_final_reward"
)

// Exhausted says what happens when the rounds of a batch are used up before it is full.
type Exhausted string

// Outcomes of exhausted rounds: write the batch with the good groups there are (none: like skip);
// go on to the next prompts with the count reset; end the run, everything kept.
const (
	ExhaustedPartial Exhausted = "partial"
	ExhaustedSkip    Exhausted = "skip"
	ExhaustedStop    Exhausted = "stop"
)

// Filter is DAPO's dynamic sampling: a group whose metric does not vary teaches nothing and is
// replaced by a new prompt.
type Filter struct {
	Enabled bool   `yaml:"enabled"`
	Metric  Metric `yaml:"metric"`
	// MaxRounds bounds how many batches' worth of groups may be filtered for one batch; 0 is no bound.
	MaxRounds int       `yaml:"max_rounds"`
	Exhausted Exhausted `yaml:"exhausted"`
}

// FilterDefaults is switched off.
func FilterDefaults() Filter {
	return Filter{Metric: MetricAuto, MaxRounds: 10, Exhausted: ExhaustedPartial}
}

// Validate reports every problem at once.
func (f Filter) Validate() error {
	var errs []error
	if !slices.Contains([]Metric{MetricAuto, MetricAcc, MetricScore, MetricReward, MetricFinal}, f.Metric) {
		errs = append(errs, fmt.Errorf("leader.filter.metric: %q, want auto, acc, score, seq_reward or seq_final_reward", f.Metric))
	}
	if !slices.Contains([]Exhausted{ExhaustedPartial, ExhaustedSkip, ExhaustedStop}, f.Exhausted) {
		errs = append(errs, fmt.Errorf("leader.filter.exhausted: %q, want partial, skip or stop", f.Exhausted))
	}
	if f.MaxRounds < 0 {
		errs = append(errs, fmt.Errorf("leader.filter.max_rounds: %d is negative", f.MaxRounds))
	}
	return errors.Join(errs...)
}

// Same reports whether the metric has one value over the group's rewarded members, and that value
// as text for the counts. Members without a reward take no part.
func (f Filter) Same(scores []trajectory.Score) (value string, same bool) {
	var seen []float64
	for i := range scores {
		if scores[i].Status == trajectory.ScoreOK {
			seen = append(seen, f.value(&scores[i]))
		}
	}
	if len(seen) == 0 {
		return "", false
	}
	for _, v := range seen[1:] {
		if v != seen[0] {
			return "", false
		}
	}
	return strconv.FormatFloat(seen[0], 'g', 4, 64), true
}

func (f Filter) value(s *trajectory.Score) float64 {
	switch f.Metric {
	case MetricAcc:
		return s.Accuracy
	case MetricScore:
		return s.Total
	case MetricReward:
		return s.Clipped
	case MetricFinal:
		return s.Reward
	}
	if s.Correct != nil {
		return s.Accuracy
	}
	return s.Reward
}

// RoundsUsed reports whether filtered groups since the last batch use up its rounds.
func (f Filter) RoundsUsed(filtered, batchGroups int) bool {
	return f.Enabled && f.MaxRounds > 0 && filtered >= f.MaxRounds*batchGroups
}
