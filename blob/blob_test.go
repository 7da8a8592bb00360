package blob_test

import (
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/blob/blobtest"
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
		t.Run(name, func(t *testing.T) { blobtest.Promises(t, s) })
	}
}

// TestNoEmptyDirectoryIsLeft: a run frees thousands of groups, each with a directory of its own.
func TestNoEmptyDirectoryIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := blob.OpenDir(dir)
	require.NoError(t, err)
	defer s.Close()
	for _, name := range []string{"parts/r/1-0/a", "parts/r/1-0/b", "parts/r/2-0/a"} {
		require.NoError(t, s.Put(t.Context(), name, []byte("x")))
	}
	require.NoError(t, s.Delete(t.Context(), "parts/r/1-0/a"))
	require.DirExists(t, filepath.Join(dir, "parts/r/1-0"), "it holds another object")
	require.NoError(t, s.DeleteAll(t.Context(), "parts/r/1-0/"))
	require.NoDirExists(t, filepath.Join(dir, "parts/r/1-0"))
	require.DirExists(t, filepath.Join(dir, "parts/r/2-0"))
	require.NoError(t, s.DeleteAll(t.Context(), "parts/"))
	require.NoDirExists(t, filepath.Join(dir, "parts"))
	require.DirExists(t, dir, "the store itself stays")
	require.NoError(t, s.Put(t.Context(), "parts/r/3-0/a", []byte("x")))
}

func TestUnknownSchemeNamesTheChoices(t *testing.T) {
	t.Parallel()
	_, err := blob.Open(t.Context(), "ftp://host/dir")
	require.ErrorContains(t, err, "s3://")
}

// TestAPutIsNotLostToTheRemovalOfItsDirectory: workers store parts of groups while the leader frees others of the same name.
func TestAPutIsNotLostToTheRemovalOfItsDirectory(t *testing.T) {
	t.Parallel()
	s, err := blob.OpenDir(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	var g errgroup.Group
	g.Go(func() error {
		for range 300 {
			if err := s.DeleteAll(t.Context(), "parts/"); err != nil {
				return err
			}
		}
		return nil
	})
	for range 2 {
		g.Go(func() error {
			for i := range 300 {
				if err := s.Put(t.Context(), "parts/r/1-0/"+strconv.Itoa(i), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}
