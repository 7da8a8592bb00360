package reward_test

import (
	"fmt"
	"testing"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/rules"
)

// benchRollout has a graph of 42 nodes whose replay ran.
func benchRollout() *rollout {
	r := newRollout(ok, ok, fail, ok, ok)
	for i := range 14 {
		r.data(fmt.Sprintf("v%d@1", i), i%5).atomic(fmt.Sprintf("c%d", i), i%5, fmt.Sprintf("v%d@1", i), fmt.Sprintf("Group %d has a mean of %d.25.", i, i))
	}
	for i := range 11 {
		r.derived(fmt.Sprintf("d%d", i), 4, fmt.Sprintf("Group %d has a higher mean than group %d.", i+1, i), fmt.Sprintf("c%d", i), fmt.Sprintf("c%d", i+1))
	}
	r.atomic("answer", 4, "v0@1", "@mean[34.65]").submit(4, "answer", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10")
	yes := true
	for i := range r.Graph.Grounding {
		r.Graph.Grounding[i].Replayed = &yes
	}
	return withValues(r)
}

// BenchmarkScore scores a graph of 40 nodes without a judge call, and one with the rules judge.
func BenchmarkScore(b *testing.B) {
	r := benchRollout()
	for _, c := range []struct {
		name, preset string
		judge        reward.Judge
		gov          bool
	}{{"no judge", "outcome_only", nil, false}, {"rules", "default", rules.Judge{}, false}, {"verdicts cached", "default", reward.NewCache(1000).Judge(rules.Judge{}), false}, {"gov, verdicts cached", "default", reward.NewCache(1000).Judge(rules.Judge{}), true}} {
		b.Run(c.name, func(b *testing.B) {
			p, err := reward.LoadPreset(c.preset)
			if err != nil {
				b.Fatal(err)
			}
			if c.gov {
				p.Infer.Strategy = reward.StrategyGov
			}
			s, err := reward.New(reward.Config{Preset: p, Judge: c.judge})
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for b.Loop() {
				s.Score(b.Context(), r.Trajectory, prompt, two)
				n++
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "trajectories/s")
		})
	}
}
