package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/lease"
)

func TestMain(m *testing.M) { patience.Main(m) }

// held records how its lease ended.
type held struct {
	deliveries int
	finishErr  error
	ended      chan string
}

func (h *held) Value() int                                { return 1 }
func (h *held) Deliveries() int                           { return h.deliveries }
func (*held) Context(ctx context.Context) context.Context { return ctx }

func (h *held) Finish(ctx context.Context, _ string) error {
	if ctx.Err() != nil {
		h.ended <- "finish without time for it"
	}
	h.ended <- "finish"
	return h.finishErr
}

func (h *held) Retry(after time.Duration) error {
	h.ended <- "retry after " + after.String()
	return nil
}

func (h *held) SetAside(_ context.Context, reason string) error {
	h.ended <- "set aside: " + reason
	return nil
}

func (h *held) Drop() { h.ended <- "dropped" }

type source chan lease.Lease[int, string]

func (s source) Receive(ctx context.Context) (lease.Lease[int, string], error) {
	select {
	case l := <-s:
		return l, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// play runs the loop over one lease and returns the first n things that happened to it.
func play(t *testing.T, h *held, workErr error, n int) []string {
	t.Helper()
	h.ended = make(chan string, 4)
	s := make(source, 1)
	s <- h
	loop := lease.Loop[int, string]{
		Source: s, Slots: 1, MaxDeliver: 3, Log: zap.NewNop(), Fields: func(int) []zap.Field { return nil },
		Work: func(context.Context, int) (string, error) { return "done", workErr },
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- loop.Run(ctx) }()
	var got []string
	for range n {
		got = append(got, patience.Receive(t, h.ended, "the end of the lease"))
	}
	cancel()
	require.NoError(t, patience.Receive(t, stopped, "its end"))
	require.Empty(t, h.ended)
	return got
}

func TestEveryLeaseEndsOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"finish"}, play(t, &held{deliveries: 1}, nil, 1))
	require.Equal(t, []string{"retry after 2s"}, play(t, &held{deliveries: 2}, errors.New("trouble"), 1))
	require.Equal(t, []string{"set aside: trouble"}, play(t, &held{deliveries: 3}, errors.New("trouble"), 1))
}

func TestResultThatCannotBeStoredGivesTheMessageBack(t *testing.T) {
	t.Parallel()
	got := play(t, &held{deliveries: 1, finishErr: errors.New("broker away")}, nil, 2)
	require.Equal(t, []string{"finish", "retry after 1s"}, got)
}

func TestRetryDelayGrowsToAMinute(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Second, lease.RetryDelay(1))
	require.Equal(t, 8*time.Second, lease.RetryDelay(4))
	require.Equal(t, time.Minute, lease.RetryDelay(100))
}

func TestWorkThatHasBegunMayEndWithinTheDrainTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drain time.Duration
		slow  bool
		done  bool // all the same
		want  string
	}{
		"it ends in time":        {drain: time.Hour, want: "finish"},
		"it does not":            {drain: time.Millisecond, slow: true, want: "retry after 0s"},
		"there is no drain":      {slow: true, want: "retry after 0s"},
		"it is done as it ended": {slow: true, done: true, want: "finish"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			h := &held{deliveries: 1, ended: make(chan string, 2)}
			src := make(source, 2)
			src <- h
			l := lease.Loop[int, string]{
				Source: src, Slots: 1, MaxDeliver: 3, Drain: c.drain, Log: zap.NewNop(),
				Fields: func(int) []zap.Field { return nil },
				Work: func(work context.Context, _ int) (string, error) {
					cancel()
					if c.slow {
						<-work.Done()
					} else {
						select { // a drain that is too short shows now
						case <-work.Done():
						case <-time.After(50 * time.Millisecond):
						}
					}
					if c.done {
						return "", nil
					}
					return "", work.Err()
				},
			}
			require.NoError(t, l.Run(ctx))
			require.Equal(t, c.want, patience.Receive(t, h.ended, "the end of the lease"))
			require.Empty(t, h.ended)
		})
	}
}

func TestMessageThatAnotherProcessHasIsDroppedWithoutAWord(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	h := &held{deliveries: 9, ended: make(chan string, 2)}
	src := make(source, 1)
	src <- h
	l := lease.Loop[int, string]{
		Source: src, Slots: 1, MaxDeliver: 3, Log: zap.NewNop(), Fields: func(int) []zap.Field { return nil },
		Work: func(context.Context, int) (string, error) { cancel(); return "", lease.ErrSuperseded },
	}
	require.NoError(t, l.Run(ctx))
	require.Equal(t, "dropped", patience.Receive(t, h.ended, "the end of the lease"))
	require.Empty(t, h.ended)
}

func TestNoMoreMessagesAreTakenThanThereAreFreeSlots(t *testing.T) {
	t.Parallel()
	const slots, all = 2, 6
	ctx, cancel := context.WithCancel(t.Context())
	src := make(source, all)
	h := &held{deliveries: 1, ended: make(chan string, all)}
	for range all {
		src <- h
	}
	began, goOn := make(chan struct{}, all), make(chan struct{})
	l := lease.Loop[int, string]{
		Source: src, Slots: slots, MaxDeliver: 3, Log: zap.NewNop(), Fields: func(int) []zap.Field { return nil },
		Work: func(context.Context, int) (string, error) { began <- struct{}{}; <-goOn; return "", nil },
	}
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for taken := slots; taken <= all; taken++ {
		patience.Receive(t, began, "the work")
		if taken == slots {
			patience.Receive(t, began, "the work")
		}
		select {
		case <-began:
			t.Fatalf("more than %d are in work", slots)
		case <-time.After(20 * time.Millisecond):
		}
		require.Len(t, src, all-taken, "what is not in work was not taken")
		goOn <- struct{}{}
	}
	close(goOn)
	cancel()
	require.NoError(t, patience.Receive(t, done, "its end"))
}
