package blob_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/internal/patience"
)

// stored puts n files of 1,000 bytes into a store and gives their digests.
func stored(t *testing.T, n int) (*blob.Store, []string) {
	t.Helper()
	s, err := blob.OpenDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	digests := make([]string, n)
	for i := range digests {
		data := fmt.Appendf(nil, "%01000d", i)
		sum := sha256.Sum256(data)
		digests[i] = hex.EncodeToString(sum[:])
		require.NoError(t, s.Put(t.Context(), blob.DataName(digests[i]), data))
	}
	return s, digests
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func TestCacheRemovesWhatWasNotUsedForLongestAndNothingInUse(t *testing.T) {
	t.Parallel()
	s, d := stored(t, 5)
	c := &blob.Cache{Store: s, Dir: t.TempDir(), Max: 2500}
	fetch := func(i int) func() {
		t.Helper()
		path, release, err := c.Fetch(t.Context(), d[i])
		require.NoError(t, err)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%01000d", i), string(data))
		return release
	}
	old := func(i int, ago time.Duration) {
		at := time.Now().Add(-ago)
		require.NoError(t, os.Chtimes(filepath.Join(c.Dir, d[i]), at, at))
	}
	inUse := fetch(0)
	fetch(1)()
	old(0, 3*time.Hour)
	old(1, 2*time.Hour)
	fetch(2)()
	require.True(t, exists(c.Dir, d[0]), "the oldest one is in use")
	require.False(t, exists(c.Dir, d[1]))
	inUse()
	fetch(0)() // used now: the other one is older
	old(2, time.Hour)
	fetch(3)()
	require.False(t, exists(c.Dir, d[2]))
	require.True(t, exists(c.Dir, d[0]))
	fetch(1)() // comes again
	_, _, err := c.Fetch(t.Context(), "00")
	require.ErrorIs(t, err, blob.ErrNotFound)
}

func TestCacheKeepsAFileThatIsLargerThanItAndBoundsNothingWithoutABound(t *testing.T) {
	t.Parallel()
	s, d := stored(t, 3)
	small := &blob.Cache{Store: s, Dir: t.TempDir(), Max: 10}
	path, release, err := small.Fetch(patience.Context(t), d[0])
	require.NoError(t, err)
	require.FileExists(t, path)
	release()
	unbounded := &blob.Cache{Store: s, Dir: t.TempDir()}
	for _, digest := range d {
		_, release, err := unbounded.Fetch(t.Context(), digest)
		require.NoError(t, err)
		release()
	}
	for _, digest := range d {
		require.True(t, exists(unbounded.Dir, digest))
	}
}

func TestCacheRemovesDownloadsThatNobodyFinishes(t *testing.T) {
	t.Parallel()
	s, d := stored(t, 1)
	c := &blob.Cache{Store: s, Dir: t.TempDir(), Max: 5000}
	for name, age := range map[string]time.Duration{".fetch-dead": 2 * time.Hour, ".fetch-running": time.Minute} {
		require.NoError(t, os.WriteFile(filepath.Join(c.Dir, name), []byte("half"), 0o600))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(filepath.Join(c.Dir, name), at, at))
	}
	_, release, err := c.Fetch(t.Context(), d[0])
	require.NoError(t, err)
	release()
	require.False(t, exists(c.Dir, ".fetch-dead"))
	require.True(t, exists(c.Dir, ".fetch-running"))
}

func TestWorkersOfAHostShareACacheThatIsTooSmall(t *testing.T) {
	t.Parallel()
	s, d := stored(t, 6)
	dir := t.TempDir()
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			c := &blob.Cache{Store: s, Dir: dir, Max: 2000}
			for i := range 40 {
				n := (i*7 + w) % len(d)
				path, release, err := c.Fetch(t.Context(), d[n])
				if err != nil {
					t.Errorf("file %d: %v", n, err)
					return
				}
				if data, err := os.ReadFile(path); err != nil || string(data) != fmt.Sprintf("%01000d", n) {
					t.Errorf("file %d: %v", n, err)
				}
				release()
			}
		})
	}
	workers.Wait()
}

func TestCacheKeepsNoFileOfAnotherContent(t *testing.T) {
	t.Parallel()
	s, d := stored(t, 1)
	require.NoError(t, s.Put(t.Context(), blob.DataName(d[0]), []byte("forged")))
	c := &blob.Cache{Store: s, Dir: t.TempDir()}
	_, _, err := c.Fetch(t.Context(), d[0])
	require.ErrorContains(t, err, "content has digest")
	left, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
