package patience_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
)

// failing is a test that notes why it failed.
type failing struct {
	testing.TB
	said chan string
}

func (f failing) Helper() {}

func (f failing) Fatalf(format string, args ...any) {
	f.said <- fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAWaitThatNeverEndsFailsAfterItsLimitAndSaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(failing){
		"the answer: nothing came within 2m0s": func(f failing) { patience.Receive(f, make(chan int), "the answer") },
		"the end: not so within 2m0s":          func(f failing) { patience.Until(f, "the end", func() bool { return false }) },
	} {
		synctest.Test(t, func(t *testing.T) {
			f, begin := failing{t, make(chan string, 1)}, time.Now()
			go wait(f)
			require.Equal(t, name, <-f.said)
			require.InDelta(t, patience.Limit.Seconds(), time.Since(begin).Seconds(), 1)
		})
	}
}

func TestAWaitEndsWithWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer, begin := make(chan int), time.Now()
		go func() {
			<-time.After(time.Minute)
			answer <- 7
			close(answer)
		}()
		require.Equal(t, 7, patience.Receive(t, answer, "the answer"))
		require.Zero(t, patience.Receive(t, answer, "the end"))
		patience.Until(t, "a while later", func() bool { return time.Since(begin) > 90*time.Second })
		require.Less(t, time.Since(begin), patience.Limit)
		require.NoError(t, patience.Context(t).Err())
	})
}
