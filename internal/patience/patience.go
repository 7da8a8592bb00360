// Package patience bounds what tests wait for. A wait without an end costs the timeout of a whole package and says
// nothing; one with a short end fails on a machine that is busy with something else.
package patience

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Limit is far beyond what anything takes that a test waits for, also with the race detector on a busy machine.
const Limit = 2 * time.Minute

// look is the pause between two looks at a condition that nothing announces.
const look = 5 * time.Millisecond

// Receive takes the next value, or the zero value of a closed channel. It is for the test's own goroutine.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case v := <-from:
		return v
	case <-limit.C:
		t.Fatalf("%s: nothing came within %s", what, Limit)
		panic("not reached")
	}
}

// Until looks again and again until the condition holds. It is for the test's own goroutine.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Limit); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not so within %s", what, Limit)
		}
		<-time.After(look)
	}
}

// Context ends with the test, at the latest after Limit.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// unwinding is how long goroutines may take to end after the last test; goleak's own patience is under half a second.
const unwinding = 20 * time.Second

// Main runs the tests of a package, then after, and fails if they left a goroutine behind.
func Main(m *testing.M, after ...func()) {
	code := m.Run()
	for _, f := range after {
		f()
	}
	if code == 0 {
		if err := Leak(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines after the last test:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Leak waits for all goroutines but the caller's to end, and says which did not.
func Leak() error {
	for end := time.Now().Add(unwinding); ; {
		err := goleak.Find()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
