package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
)

// stores opens one store of each kind.
func stores(t *testing.T) map[string]*blob.Store {
	t.Helper()
	dir, err := blob.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() })

	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("batches"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s3, err := blob.Open(t.Context(), "s3://batches?region=us-east-1&use_path_style=true&endpoint="+url.QueryEscape(server.URL)+
		"&request_checksum_calculation=when_required&response_checksum_validation=when_required")
	require.NoError(t, err)
	t.Cleanup(func() { _ = s3.Close() })
	return map[string]*blob.Store{"directory": dir, "s3": s3}
}

func TestEveryKindOfStoreKeepsTheSamePromises(t *testing.T) {
	for name, s := range stores(t) {
		ctx := t.Context()
		data := bytes.Repeat([]byte("0123456789"), 10_000)
		_, err := s.Get(ctx, "batches/1")
		require.ErrorIs(t, err, blob.ErrNotFound, name)
		require.NoError(t, s.Put(ctx, "batches/1", data), name)
		got, err := s.Get(ctx, "batches/1")
		require.NoError(t, err, name)
		require.Equal(t, data, got, name)
		r, err := s.ReadRange(ctx, "batches/1", 5, 10)
		require.NoError(t, err, name)
		part, err := io.ReadAll(r)
		require.NoError(t, err, name)
		require.NoError(t, r.Close())
		require.Equal(t, "5678901234", string(part), name)
		require.NoError(t, s.Delete(ctx, "batches/1"), name)
		require.NoError(t, s.Delete(ctx, "batches/1"), name)
		_, err = s.Get(ctx, "batches/1")
		require.ErrorIs(t, err, blob.ErrNotFound, name)
	}
}

func TestDataFilesTravelByDigestAndDamageIsNoticed(t *testing.T) {
	for name, s := range stores(t) {
		ctx := t.Context()
		src := filepath.Join(t.TempDir(), "a.csv")
		require.NoError(t, os.WriteFile(src, []byte("x\n1\n"), 0o600))
		sum := sha256.Sum256([]byte("x\n1\n"))
		digest := hex.EncodeToString(sum[:])
		require.NoError(t, s.PutFile(ctx, digest, src), name)
		require.NoError(t, s.PutFile(ctx, digest, "/nowhere"), "%s: a file that is there is not read again", name)
		dir := t.TempDir()
		path, err := s.Fetch(ctx, digest, dir)
		require.NoError(t, err, name)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "x\n1\n", string(got), name)

		require.NoError(t, s.Put(ctx, blob.DataName(digest), []byte("other")), name)
		_, err = s.Fetch(ctx, digest, t.TempDir())
		require.ErrorContains(t, err, "has digest", name)
	}
}

func TestCanceledPutLeavesNoObject(t *testing.T) {
	for name, s := range stores(t) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, s.Put(ctx, "half", []byte("x")), name)
		_, err := s.Get(t.Context(), "half")
		require.ErrorIs(t, err, blob.ErrNotFound, name)
	}
}

func TestUnknownSchemeNamesTheChoices(t *testing.T) {
	t.Parallel()
	_, err := blob.Open(t.Context(), "ftp://host/dir")
	require.ErrorContains(t, err, "s3://")
}
