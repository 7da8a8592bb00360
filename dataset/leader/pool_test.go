package leader_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/task"
)

func TestWeightsShareDispatchesOutAndPriorityGoesFirst(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 100)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.Weights = map[string]float64{"math": 3}
	cfg.MaxGroups = 64
	l := m.leader(t, cfg)
	leading(t, l)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
	for i := range 40 {
		it := prompt(fmt.Sprintf("m%d", i))
		it.Prompt.DataSource = "math"
		m.backlog <- it
	}
	for i := range 40 {
		it := prompt(fmt.Sprintf("t%d", i))
		it.Prompt.DataSource = "tables"
		m.backlog <- it
	}
	urgent := prompt("urgent")
	urgent.Priority = 5
	m.backlog <- urgent
	until(t, l, func() bool { return l.Backlog() == 81 })
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
	require.Equal(t, "urgent", next(t, published).Prompt.ID)
	count := map[string]int{}
	for range 40 {
		count[next(t, published).Prompt.DataSource]++
	}
	require.Equal(t, map[string]int{"math": 30, "tables": 10}, count)
}

func TestEasyAndHardPromptsOfAnEarlierPolicyComeByTheirWeights(t *testing.T) {
	t.Parallel()
	for pool, accuracy := range map[string][2]string{ // just in the pool, just outside
		"easy": {"0.9", "0.89"},
		"hard": {"0.1", "0.11"},
	} {
		t.Run(pool, func(t *testing.T) {
			t.Parallel()
			m := newMemory()
			published := make(chan task.Dispatch, 100)
			m.onPublish = func(d task.Dispatch) { published <- d }
			cfg := config()
			cfg.MaxGroups = 64
			cfg.Difficulty.Key, cfg.Difficulty.Weights = "pass_rate", map[string]float64{pool: 0.25}
			l := m.leader(t, cfg)
			leading(t, l)
			require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
			for i := range 30 {
				in, out := prompt(fmt.Sprintf("in%d", i)), prompt(fmt.Sprintf("out%d", i))
				in.Prompt.Meta, out.Prompt.Meta = []byte(`{"pass_rate": `+accuracy[0]+`}`), []byte(`{"pass_rate": `+accuracy[1]+`}`)
				m.backlog <- in
				m.backlog <- out
			}
			until(t, l, func() bool { return l.Backlog() == 60 })
			require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
			in := 0
			for range 25 {
				if next(t, published).Prompt.ID[0] == 'i' {
					in++
				}
			}
			require.Equal(t, 5, in)
		})
	}
}

func TestASourceThatHadNoPromptsDoesNotMakeUpForIt(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 100)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.MaxGroups, cfg.Weights = 64, map[string]float64{"early": 1, "late": 1}
	l := m.leader(t, cfg)
	leading(t, l)
	add := func(source string, from, n int) {
		for i := from; i < from+n; i++ {
			it := prompt(fmt.Sprint(source, i))
			it.Prompt.DataSource = source
			m.backlog <- it
		}
	}
	add("early", 0, 20)
	for range 20 {
		next(t, published)
	}
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
	add("late", 0, 20)
	add("early", 20, 20)
	until(t, l, func() bool { return l.Backlog() == 40 })
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
	count := map[string]int{}
	for range 20 {
		count[next(t, published).Prompt.DataSource]++
	}
	require.InDelta(t, 10, count["late"], 1)
}

func TestValidationAndTrainingTakeTurnsWhileBothWait(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 100)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.MaxGroups = 64
	l := m.leader(t, cfg)
	leading(t, l)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
	for i := range 20 {
		it := prompt(fmt.Sprint(i))
		it.Validate = i < 10
		if i == 9 {
			it.Priority = 1
		}
		m.backlog <- it
	}
	until(t, l, func() bool { return l.Backlog() == 20 })
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
	validate, first := 0, ""
	for range 10 {
		if d := next(t, published); d.Validate {
			validate++
			if first == "" {
				first = d.Prompt.ID
			}
		}
	}
	require.Equal(t, 5, validate)
	require.Equal(t, "9", first, "of the higher priority")
}
