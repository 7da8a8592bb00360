// Package blobtest is the conformance suite of every kind of store.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
)

// Promises tries what a store promises on an empty one.
func Promises(t *testing.T, s *blob.Store) {
	t.Helper()
	t.Run("an object is read back whole and in parts, and deleted once or twice", func(t *testing.T) {
		ctx := t.Context()
		data := bytes.Repeat([]byte("0123456789"), 10_000)
		_, err := s.Get(ctx, "batches/1")
		require.ErrorIs(t, err, blob.ErrNotFound)
		require.NoError(t, s.Put(ctx, "batches/1", data))
		got, err := s.Get(ctx, "batches/1")
		require.NoError(t, err)
		require.Equal(t, data, got)
		r, err := s.ReadRange(ctx, "batches/1", 5, 10)
		require.NoError(t, err)
		part, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Equal(t, "5678901234", string(part))
		require.NoError(t, s.Delete(ctx, "batches/1"))
		require.NoError(t, s.Delete(ctx, "batches/1"))
		_, err = s.Get(ctx, "batches/1")
		require.ErrorIs(t, err, blob.ErrNotFound)
	})
	t.Run("objects are listed and deleted by prefix", func(t *testing.T) {
		ctx := t.Context()
		for _, name := range []string{"parts/r/1-0/a", "parts/r/1-0/b", "parts/r/1-01/a"} {
			require.NoError(t, s.Put(ctx, name, []byte("x")))
		}
		require.NoError(t, s.DeleteAll(ctx, "parts/r/1-0/"))
		names, err := s.Names(ctx, "parts/")
		require.NoError(t, err)
		require.Equal(t, []string{"parts/r/1-01/a"}, names)
	})
	t.Run("data files travel by digest and damage is noticed", func(t *testing.T) {
		ctx := t.Context()
		src := filepath.Join(t.TempDir(), "a.csv")
		require.NoError(t, os.WriteFile(src, []byte("x\n1\n"), 0o600))
		sum := sha256.Sum256([]byte("x\n1\n"))
		digest := hex.EncodeToString(sum[:])
		require.NoError(t, s.PutFile(ctx, digest, src))
		require.NoError(t, s.PutFile(ctx, digest, "/nowhere"), "a file that is there is not read again")
		path, err := s.Fetch(ctx, digest, t.TempDir())
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "x\n1\n", string(got))

		require.NoError(t, s.Put(ctx, blob.DataName(digest), []byte("other")))
		_, err = s.Fetch(ctx, digest, t.TempDir())
		require.ErrorContains(t, err, "has digest")
	})
	t.Run("a canceled put leaves no object", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, s.Put(ctx, "half", []byte("x")))
		_, err := s.Get(t.Context(), "half")
		require.ErrorIs(t, err, blob.ErrNotFound)
	})
}
