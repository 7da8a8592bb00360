package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/dataset/parquet"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

func TestMain(m *testing.M) { patience.Main(m) }

// memory is the broker and the stores of one run, held in memory. Messages leave with their ack.
type memory struct {
	mu        sync.Mutex
	backlog   chan leader.BacklogItem
	scored    chan trajectory.ScoredGroup
	published []task.Dispatch
	leases    map[string]bool
	aside     map[string]bool
	events    []leader.Event
	batches   []leader.BatchRecord
	objects   map[string][]byte
	acks      []string
	archived  []string
	puts      int
	putErr    error
	ackErr    map[string]error
	onPublish func(task.Dispatch)
}

func newMemory() *memory {
	return &memory{
		backlog: make(chan leader.BacklogItem, 100), scored: make(chan trajectory.ScoredGroup, 100),
		leases: map[string]bool{}, aside: map[string]bool{}, objects: map[string][]byte{},
	}
}

func (m *memory) NextPrompt(ctx context.Context) (leader.Held[leader.BacklogItem], error) {
	return held(ctx, m, m.backlog, func(b leader.BacklogItem) string {
		if b.Final {
			return "final"
		}
		return "prompt " + b.Prompt.ID
	})
}

func (m *memory) NextScored(ctx context.Context) (leader.Held[trajectory.ScoredGroup], error) {
	return held(ctx, m, m.scored, func(g trajectory.ScoredGroup) string { return "scored " + g.Group.Dispatch.ID })
}

func held[T any](ctx context.Context, m *memory, from <-chan T, name func(T) string) (leader.Held[T], error) {
	select {
	case v := <-from:
		note := func(how string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.acks = append(m.acks, how+name(v))
		}
		return leader.Held[T]{
			Value: v, Release: func() { note("released ") },
			Ack: func(context.Context) error { note(""); return m.ackErr[name(v)] }, Drop: func() { note("dropped ") },
		}, nil
	case <-ctx.Done():
		return leader.Held[T]{}, ctx.Err()
	}
}

func (m *memory) Publish(_ context.Context, d task.Dispatch) error {
	m.mu.Lock()
	m.published = append(m.published, d)
	m.leases[d.ID] = true
	hook := m.onPublish
	m.mu.Unlock()
	if hook != nil {
		hook(d)
	}
	return nil
}

func (m *memory) SetAside(context.Context) (map[string]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]bool{}
	for k := range m.aside {
		out[k] = true
	}
	return out, nil
}

func (m *memory) ForgetSetAside(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.aside, id)
	return nil
}

func (m *memory) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}

func (m *memory) OpenLeases(context.Context) (map[string]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]bool{}
	for k := range m.leases {
		out[k] = true
	}
	return out, nil
}

func (m *memory) Put(_ context.Context, name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	if m.putErr != nil {
		return m.putErr
	}
	m.objects[name] = data
	return nil
}

type logOf[T any] struct {
	m    *memory
	into *[]T
}

func (l logOf[T]) Append(_ context.Context, e T) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	*l.into = append(*l.into, e)
	return nil
}

func config() leader.Config {
	c := leader.Defaults()
	c.Run, c.GroupSize, c.BatchGroups, c.MaxGroups = "r1", 2, 2, 4
	return c
}

func (m *memory) leader(t *testing.T, cfg leader.Config) *leader.Leader {
	t.Helper()
	return m.leaderWith(t, cfg, func(*leader.Deps) {})
}

func (m *memory) leaderWith(t *testing.T, cfg leader.Config, edit func(*leader.Deps)) *leader.Leader {
	t.Helper()
	m.mu.Lock()
	events, batches := slices.Clone(m.events), slices.Clone(m.batches)
	m.mu.Unlock()
	deps := leader.Deps{
		Streams: m, Ledger: logOf[leader.Event]{m, &m.events}, Batches: logOf[leader.BatchRecord]{m, &m.batches}, Objects: m,
		Encode: func(w *bytes.Buffer, meta dataset.Meta, rows []dataset.Row) error {
			return parquet.Write(w, meta, rows)
		},
		Archive: func(g trajectory.ScoredGroup) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.archived = append(m.archived, g.Group.Dispatch.ID)
			return nil
		},
		Epoch: 1, Log: zap.NewNop(),
	}
	edit(&deps)
	l, err := leader.New(cfg, deps, leader.NewHistory(events, batches))
	require.NoError(t, err)
	return l
}

// run runs the leader until it is complete.
func run(t *testing.T, l *leader.Leader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for {
		changed := l.Changed()
		if l.Complete() {
			break
		}
		select {
		case <-changed:
		case err := <-done:
			t.Fatalf("leader ended: %v", err)
		case <-ctx.Done():
			t.Fatal("the run does not complete")
		}
	}
	cancel()
	require.NoError(t, patience.Receive(t, done, "the end of the leader"))
}

func prompt(id string) leader.BacklogItem {
	return leader.BacklogItem{Prompt: &task.Prompt{ID: id, Question: "q", DataSource: "test"}}
}

// group is a scored group; statuses are one per member.
func group(d task.Dispatch, statuses ...trajectory.ScoreStatus) trajectory.ScoredGroup {
	g := trajectory.ScoredGroup{Group: trajectory.Group{
		Dispatch: d, Model: "m", TokenizerSHA256: "t", ChatTemplateSHA256: "c",
		Sampling: trajectory.Sampling{Temperature: 1, TopP: 1, TopK: -1, RepetitionPenalty: 1},
	}}
	for i, st := range statuses {
		t := trajectory.Trajectory{
			ID:       task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: i},
			PromptID: d.Prompt.ID, DataSource: d.Prompt.DataSource, Termination: trajectory.NoSubmission,
			Turns: []trajectory.Turn{{Text: "x", FinishReason: "stop", SampledIDs: 1}},
			Segments: []trajectory.Segment{{
				PromptIDs: []int32{1}, ResponseIDs: []int32{2}, ResponseMask: []int8{1}, LogProbs: []float32{-0.5},
				Spans: []trajectory.Span{{Start: 0, End: 1, Kind: trajectory.SpanSampled}},
			}},
		}
		t.Graph.SubmitTurn = -1
		s := trajectory.Score{Status: st, Preset: "default", PresetHash: "h", TurnRewards: []float64{0}}
		if st == trajectory.ScoreLost {
			t.Termination, t.Segments = trajectory.SandboxLost, nil
		}
		g.Group.Trajectories = append(g.Group.Trajectories, t)
		g.Scores = append(g.Scores, s)
	}
	return g
}

func (m *memory) finish(statuses ...trajectory.ScoreStatus) func(task.Dispatch) {
	return func(d task.Dispatch) { m.scored <- group(d, statuses...) }
}

func ledgerOf(t *testing.T, l *leader.Leader) leader.Ledger {
	t.Helper()
	p, err := l.Progress(t.Context())
	require.NoError(t, err)
	return p.Ledger
}

func TestEveryDispatchedRolloutLeavesExactlyOnce(t *testing.T) {
	t.Parallel()
	m := newMemory()
	plan := map[string][]trajectory.ScoreStatus{
		"a": {trajectory.ScoreOK, trajectory.ScoreOK},
		"b": {trajectory.ScoreOK, trajectory.ScoreLost},
		"c": {trajectory.ScoreUnscored, trajectory.ScoreUnscored},
		"d": {trajectory.ScoreOK, trajectory.ScoreOK},
		"e": {trajectory.ScoreOK, trajectory.ScoreOK},
	}
	m.onPublish = func(d task.Dispatch) {
		if d.Prompt.ID == "f" {
			m.mu.Lock()
			m.aside[d.ID] = true
			delete(m.leases, d.ID)
			m.mu.Unlock()
			return
		}
		m.scored <- group(d, plan[d.Prompt.ID]...)
	}
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		m.backlog <- prompt(id)
	}
	m.backlog <- leader.BacklogItem{Final: true}
	l := m.leader(t, config())
	run(t, l)
	got := ledgerOf(t, l)
	require.Equal(t, leader.Ledger{Dispatched: 12, Delivered: 6, Unscored: 2, Failed: 2, SetAside: 2}, got)
	require.True(t, got.Balanced())
	require.Len(t, m.batches, 2, "two groups, then the last one when nothing else can come")
	require.Equal(t, []int64{1, 2}, []int64{m.batches[0].Sequence, m.batches[1].Sequence})
}

func TestMessageIsAcknowledgedOnlyAfterTheBatchRecord(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = m.finish(trajectory.ScoreOK, trajectory.ScoreOK)
	m.putErr = errors.New("disk full")
	m.backlog <- prompt("a")
	m.backlog <- prompt("b")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := m.leader(t, config())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	waitsFor(t, l, "disk full")
	m.mu.Lock()
	require.Empty(t, m.batches)
	require.NotContains(t, m.acks, "scored a-0", "an undelivered group stays in its queue")
	m.putErr = nil
	m.mu.Unlock()
	until(t, l, func() bool { return l.Last() == 1 }) // the store has room again: it goes on by itself
	cancel()
	require.NoError(t, patience.Receive(t, done, "the end of the leader"))
	require.Contains(t, m.acks, "scored a-0")
}

// waitsFor returns when something waits for a reason that holds text.
func waitsFor(t *testing.T, l *leader.Leader, text string) {
	t.Helper()
	for {
		changed := l.Changed()
		p, err := l.Progress(t.Context())
		require.NoError(t, err)
		for _, w := range p.Waiting {
			if strings.Contains(w.For, text) {
				return
			}
		}
		patience.Receive(t, changed, "a change on the way to "+text)
	}
}

// next takes the next dispatch.
func next(t *testing.T, published <-chan task.Dispatch) task.Dispatch {
	t.Helper()
	return patience.Receive(t, published, "a dispatch")
}

func TestRepeatedGroupIsAcknowledgedAndNotDeliveredTwice(t *testing.T) {
	t.Parallel()
	m := newMemory()
	var out []task.Dispatch
	m.onPublish = func(d task.Dispatch) { // called by the leader's loop alone
		if out = append(out, d); len(out) == 4 {
			for _, i := range []int{0, 0, 1, 0, 2, 3} { // a batch has two groups: the first comes again while it is held, and later
				m.scored <- group(out[i], trajectory.ScoreOK, trajectory.ScoreOK)
			}
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		m.backlog <- prompt(id)
	}
	m.backlog <- leader.BacklogItem{Final: true}
	l := m.leader(t, config())
	run(t, l)
	require.Equal(t, leader.Ledger{Dispatched: 8, Delivered: 8}, ledgerOf(t, l))
	require.Equal(t, []string{"a-0", "b-0", "c-0", "d-0"}, m.archived)
	require.Equal(t, 1, countOf(m.acks, "dropped scored a-0"), "what came while the group was held leaves its queue with the batch")
	require.Equal(t, 2, countOf(m.acks, "scored a-0"), "what came after the batch leaves at once")
}

// A message that is held comes again where its holder stood still for longer than the ack wait.
func TestAHeldMessageThatComesAgainStaysInItsQueueUntilItsBatchIsThere(t *testing.T) {
	t.Parallel()
	m := newMemory()
	var first task.Dispatch
	m.onPublish = func(d task.Dispatch) {
		if first.ID == "" {
			first = d
			m.scored <- group(d, trajectory.ScoreOK, trajectory.ScoreOK)
			m.scored <- group(d, trajectory.ScoreOK, trajectory.ScoreOK)
			return
		}
		m.mu.Lock()
		require.NotContains(t, m.acks, "scored a-0")
		m.mu.Unlock()
		m.scored <- group(d, trajectory.ScoreOK, trajectory.ScoreOK)
	}
	m.backlog <- prompt("a")
	l := m.leader(t, config())
	leading(t, l)
	patience.Until(t, "the first delivery is let go", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		require.NotContains(t, m.acks, "scored a-0")
		return slices.Contains(m.acks, "dropped scored a-0")
	})
	m.backlog <- prompt("b")
	until(t, l, func() bool { return l.Last() == 1 })
	require.Len(t, m.batches[0].Groups, 2)
}

func countOf(list []string, what string) int {
	return len(list) - len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == what }))
}

func TestNewLeaderRebuildsItsBooksFromTheLogs(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = m.finish(trajectory.ScoreOK, trajectory.ScoreOK)
	m.backlog <- prompt("a")
	m.backlog <- leader.BacklogItem{Final: true}
	first := m.leader(t, config())
	run(t, first)
	second := m.leader(t, config())
	require.True(t, second.Complete())
	require.True(t, second.Knows("a"))
	require.Equal(t, ledgerOf(t, first), ledgerOf(t, second))
	b, _, ok := second.Batch(1)
	require.True(t, ok)
	require.Equal(t, m.batches[0], b)
}

func TestPromptAdmittedBeforeACrashIsPublishedAgainUnderTheSameDispatch(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.events = []leader.Event{{Kind: leader.Admitted, Dispatch: "a-0", PromptID: "a", Rollouts: 2}}
	m.onPublish = m.finish(trajectory.ScoreOK, trajectory.ScoreOK)
	m.backlog <- prompt("a")
	m.backlog <- prompt("b")
	m.backlog <- leader.BacklogItem{Final: true}
	l := m.leader(t, config())
	run(t, l)
	require.Equal(t, 4, ledgerOf(t, l).Dispatched, "the ledger counts the dispatch once")
	require.Equal(t, []int64{0, 1}, []int64{m.published[0].Index, m.published[1].Index})
}

func TestAdmissionWaitsForCapacity(t *testing.T) {
	t.Parallel()
	m := newMemory()
	for i := range 10 {
		m.backlog <- prompt(fmt.Sprint(i))
	}
	published := make(chan task.Dispatch, 10)
	m.onPublish = func(d task.Dispatch) { published <- d }
	ctx, cancel := context.WithCancel(t.Context())
	l := m.leader(t, config())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	var open []task.Dispatch
	for range 4 {
		open = append(open, next(t, published))
	}
	require.Equal(t, 8, ledgerOf(t, l).InFlight)
	m.scored <- group(open[0], trajectory.ScoreOK, trajectory.ScoreOK)
	m.scored <- group(open[1], trajectory.ScoreOK, trajectory.ScoreOK)
	next(t, published)
	next(t, published)
	select {
	case d := <-published:
		t.Fatalf("dispatch %s is over the capacity of 4 groups", d.ID)
	default:
	}
	cancel()
	require.NoError(t, patience.Receive(t, done, "the end of the leader"))
}

func TestRowIndexDoesNotDependOnTheOrderOfCompletion(t *testing.T) {
	t.Parallel()
	index := func(reverse bool) map[string]int32 {
		m := newMemory()
		var ds []task.Dispatch
		m.onPublish = func(d task.Dispatch) {
			if ds = append(ds, d); len(ds) < 3 {
				return
			}
			if reverse {
				slices.Reverse(ds)
			}
			for _, d := range ds {
				m.scored <- group(d, trajectory.ScoreOK, trajectory.ScoreOK)
			}
		}
		for _, id := range []string{"a", "b", "c"} {
			m.backlog <- prompt(id)
		}
		m.backlog <- leader.BacklogItem{Final: true}
		run(t, m.leader(t, config()))
		out := map[string]int32{}
		for _, data := range m.objects {
			_, rows, err := parquet.Read(bytes.NewReader(data), int64(len(data)))
			require.NoError(t, err)
			for _, r := range rows {
				out[r.RolloutID] = r.RowIdx
			}
		}
		return out
	}
	require.Equal(t, index(false), index(true))
}

func TestGroupsOfTwoModelsNeverShareABatch(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) {
		g := group(d, trajectory.ScoreOK, trajectory.ScoreOK)
		if d.Prompt.ID == "b" {
			g.Group.Model = "another"
		}
		m.scored <- g
	}
	for _, id := range []string{"a", "b", "c"} {
		m.backlog <- prompt(id)
	}
	m.backlog <- leader.BacklogItem{Final: true}
	run(t, m.leader(t, config()))
	var groups []string
	for _, b := range m.batches {
		var ids []string
		for _, g := range b.Groups {
			ids = append(ids, g.Dispatch)
		}
		groups = append(groups, strings.Join(ids, "+"))
	}
	slices.Sort(groups)
	require.Equal(t, []string{"a-0+c-0", "b-0"}, groups)
}

func TestGroupsOfTheSameQuestionStayApart(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = m.finish(trajectory.ScoreOK, trajectory.ScoreOK)
	for _, id := range []string{"a", "b"} {
		p := prompt(id)
		p.Prompt.Files = []task.File{{Name: "t.csv", SHA256: strings.Repeat(id, 64), Size: 1}}
		m.backlog <- p
	}
	m.backlog <- leader.BacklogItem{Final: true}
	l := m.leader(t, config())
	run(t, l)
	require.Len(t, m.published, 2)
	require.Equal(t, m.published[0].Prompt.Question, m.published[1].Prompt.Question)
	var groups []string
	for _, g := range m.batches[0].Groups {
		groups = append(groups, g.Dispatch)
	}
	slices.Sort(groups)
	require.Equal(t, []string{"a-0", "b-0"}, groups)
}

func TestGreedyValidationOfOneRolloutSharesNoBatchWithTraining(t *testing.T) {
	t.Parallel()
	m := newMemory()
	var groups []trajectory.ScoredGroup
	m.onPublish = func(d task.Dispatch) { // called by the leader's loop alone
		g := group(d, slices.Repeat([]trajectory.ScoreStatus{trajectory.ScoreOK}, d.GroupSize)...)
		if s := d.Prompt.Sampling; s != nil {
			g.Group.Sampling.Temperature = *s.Temperature
		}
		if groups = append(groups, g); len(groups) == 4 { // a batch is partial when no other prompt is known
			for _, g := range groups {
				m.scored <- g
			}
		}
	}
	cfg := config()
	cfg.MinValid = 2
	zero, one := 0.0, 1
	for _, id := range []string{"a", "b", "c", "d"} {
		p := prompt(id)
		if p.Validate = id >= "c"; p.Validate {
			p.Prompt.Sampling = &task.Sampling{Temperature: &zero, N: &one}
		}
		m.backlog <- p
	}
	m.backlog <- leader.BacklogItem{Final: true}
	l := m.leader(t, cfg)
	run(t, l)
	var got []string
	for _, b := range m.batches {
		for _, g := range b.Groups {
			got = append(got, fmt.Sprintf("%s validate=%t rollouts=%d", g.Dispatch, b.Validate, b.Rollouts()))
		}
	}
	slices.Sort(got)
	require.Equal(t, []string{
		"a-0 validate=false rollouts=4", "b-0 validate=false rollouts=4",
		"c-0 validate=true rollouts=2", "d-0 validate=true rollouts=2",
	}, got)
	require.True(t, ledgerOf(t, l).Balanced())
}

func TestLeaderConfigNamesEveryWrongKey(t *testing.T) {
	t.Parallel()
	require.NoError(t, leader.Defaults().Validate())
	one := leader.Defaults()
	one.MinValid = 1
	require.ErrorContains(t, one.Validate(), "leader.min_valid: 1")
	err := leader.Config{GroupSize: 1, BatchGroups: 5, MaxGroups: 2, MinValid: 3, MaxStaleness: -2}.Validate()
	for _, key := range []string{"leader.group_size", "leader.max_groups", "leader.min_valid", "leader.max_staleness", "leader.filter.metric"} {
		require.ErrorContains(t, err, key)
	}
}
