package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/lease"
)

// words hands out its words one after another, and ends the loop after the last.
type words struct {
	left []string
	done context.CancelFunc
}

func (s *words) Receive(ctx context.Context) (lease.Lease[string, string], error) {
	if len(s.left) == 0 {
		s.done()
		return nil, ctx.Err()
	}
	w := s.left[0]
	s.left = s.left[1:]
	return word(w), nil
}

type word string

func (w word) Value() string                             { return string(w) }
func (word) Context(ctx context.Context) context.Context { return ctx }
func (w word) Deliveries() int                           { return 1 }
func (w word) Drop()                                     {}
func (w word) Finish(_ context.Context, out string) error {
	fmt.Println("stored", out)
	return nil
}

func (w word) Retry(after time.Duration) error {
	fmt.Println("handed out again after", after)
	return nil
}

func (w word) SetAside(context.Context, string) error { return nil }

// Each message ends exactly once: stored in the next stage, or handed out again when the work failed.
func ExampleLoop() {
	ctx, done := context.WithCancel(context.Background())
	l := lease.Loop[string, string]{
		Source: &words{[]string{"mean", "", "median"}, done}, Slots: 1, MaxDeliver: 5,
		Work: func(_ context.Context, in string) (string, error) {
			if in == "" {
				return "", errors.New("the sandbox was lost")
			}
			return strings.ToUpper(in), nil
		},
		Fields: func(string) []zap.Field { return nil }, Log: zap.NewNop(),
	}
	fmt.Println(l.Run(ctx))
	// Output:
	// stored MEAN
	// handed out again after 1s
	// stored MEDIAN
	// <nil>
}
