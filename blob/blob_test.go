package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
)

// stores opens every kind of store; the S3 one talks HTTP to a server in this process.
func stores(t *testing.T) map[string]*blob.Store {
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("runs"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	out := map[string]*blob.Store{}
	for name, url := range map[string]string{
		"directory": t.TempDir(), "file URL": "file://" + t.TempDir(),
		"S3-compatible": fmt.Sprintf("s3://runs?endpoint=%s&use_path_style=true&region=us-east-1&prefix=vg/"+
			"&request_checksum_calculation=when_required&response_checksum_validation=when_required", server.URL),
	} {
		s, err := blob.Open(url)
		require.NoError(t, err, name)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		out[name] = s
	}
	return out
}

func TestEveryStoreKeepsTheContract(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
			require.NoError(t, s.Put(ctx, "batches/a.parquet", big))
			got, err := s.Get(ctx, "batches/a.parquet")
			require.NoError(t, err)
			require.True(t, bytes.Equal(big, got))
			r, err := s.ReadRange(ctx, "batches/a.parquet", 1<<20+3, 5)
			require.NoError(t, err)
			part, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, r.Close())
			require.Equal(t, "34567", string(part))

			require.NoError(t, s.Put(ctx, "batches/a.parquet", []byte("second")))
			got, err = s.Get(ctx, "batches/a.parquet")
			require.NoError(t, err)
			require.Equal(t, "second", string(got))

			_, err = s.Get(ctx, "batches/b.parquet")
			require.ErrorIs(t, err, blob.ErrNotFound)
			_, err = s.ReadRange(ctx, "batches/b.parquet", 0, -1)
			require.ErrorIs(t, err, blob.ErrNotFound)

			for _, n := range []string{"parts/r/a-0/1", "parts/r/a-0/2", "parts/r/a~2D-01/1"} {
				require.NoError(t, s.Put(ctx, n, []byte("x")))
			}
			require.NoError(t, s.DeleteAll(ctx, "parts/r/a-0/"))
			names, err := s.Names(ctx, "")
			require.NoError(t, err)
			require.Equal(t, []string{"batches/a.parquet", "parts/r/a~2D-01/1"}, names)
			require.NoError(t, s.Delete(ctx, "batches/a.parquet"))
			require.NoError(t, s.Delete(ctx, "batches/a.parquet"), "deleting twice is no error")
		})
	}
}

func TestDataFilesTravelByHashAndAreCheckedOnArrival(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			content := []byte("a,b\n1,2\n")
			sum := sha256.Sum256(content)
			digest := hex.EncodeToString(sum[:])
			file := filepath.Join(t.TempDir(), "t.csv")
			require.NoError(t, os.WriteFile(file, content, 0o600))
			require.NoError(t, s.PutFile(ctx, digest, file))
			require.NoError(t, os.WriteFile(file, []byte("changed later"), 0o600))
			require.NoError(t, s.PutFile(ctx, digest, file), "what is there is not written again")
			cache := t.TempDir()
			path, err := s.Fetch(ctx, digest, cache)
			require.NoError(t, err)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, content, got)

			require.NoError(t, s.Put(ctx, blob.DataName(digest), []byte("forged")))
			_, err = s.Fetch(ctx, digest, t.TempDir())
			require.ErrorContains(t, err, "content has digest")
		})
	}
}

func TestAnInterruptedWriteLeavesNoObject(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, s.Put(ctx, "batches/half.parquet", make([]byte, 1<<20)))
			names, err := s.Names(t.Context(), "")
			require.NoError(t, err)
			require.Empty(t, names)
		})
	}
}

func TestAnUnknownSchemeNamesTheKnownOnes(t *testing.T) {
	t.Parallel()
	_, err := blob.Open("ftp://host/dir")
	require.ErrorContains(t, err, `scheme "ftp" is not supported`)
	require.ErrorContains(t, err, "s3")
}
