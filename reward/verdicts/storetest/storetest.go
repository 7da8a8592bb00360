// Package storetest is the conformance suite of reward.Store.
package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
)

// Key is a key of the form that a Cache uses.
func Key(n int) string { return fmt.Sprintf("%064x", n) }

// Run checks one implementation; open returns two handles on one empty store, as two replicas hold.
func Run(t *testing.T, open func(t *testing.T) (a, b reward.Store)) {
	t.Run("a verdict that was put is there for all replicas", func(t *testing.T) {
		a, b := open(t)
		_, ok, err := b.Get(t.Context(), Key(1))
		require.NoError(t, err)
		require.False(t, ok)
		stands, err := a.Put(t.Context(), Key(1), []byte(`{"v":1}`), false)
		require.NoError(t, err)
		require.JSONEq(t, `{"v":1}`, string(stands))
		got, ok, err := b.Get(t.Context(), Key(1))
		require.NoError(t, err)
		require.True(t, ok)
		require.JSONEq(t, `{"v":1}`, string(got))
		_, ok, err = b.Get(t.Context(), Key(2))
		require.NoError(t, err)
		require.False(t, ok)
	})
	t.Run("the first verdict stays unless it is replaced", func(t *testing.T) {
		a, b := open(t)
		_, err := a.Put(t.Context(), Key(1), []byte(`1`), false)
		require.NoError(t, err)
		stands, err := b.Put(t.Context(), Key(1), []byte(`2`), false)
		require.NoError(t, err)
		require.Equal(t, "1", string(stands))
		stands, err = b.Put(t.Context(), Key(1), []byte(`3`), true)
		require.NoError(t, err)
		require.Equal(t, "3", string(stands))
		got, _, err := a.Get(t.Context(), Key(1))
		require.NoError(t, err)
		require.Equal(t, "3", string(got))
	})
	t.Run("writers at once are told one value", func(t *testing.T) {
		a, b := open(t)
		told := make([]string, 20)
		var wg sync.WaitGroup
		for i := range told {
			wg.Go(func() {
				s := a
				if i%2 == 1 {
					s = b
				}
				stands, err := s.Put(t.Context(), Key(1), fmt.Append(nil, i), false)
				if err == nil {
					told[i] = string(stands)
				}
			})
		}
		wg.Wait()
		require.NotEmpty(t, told[0])
		for _, v := range told {
			require.Equal(t, told[0], v)
		}
	})
}
