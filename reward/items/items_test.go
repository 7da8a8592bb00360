package items_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/reward/items"
	"github.com/verigraph/verigraph/task"
)

func TestMain(m *testing.M) { patience.Main(m) }

func item(id string) items.Item {
	return items.Item{Prompt: task.Prompt{ID: id, Question: "q"}, Reference: task.Reference{PromptID: id, Text: "gold"}}
}

func TestEachPromptIsKeptOnceAlsoAfterATornLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, err := items.Open(dir)
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "a"} {
		require.NoError(t, k.Add(item(id)))
	}
	require.NoError(t, k.Close())
	path := filepath.Join(dir, "reward", "items.jsonl")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "reference answers are the owner's")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data[:len(data)-5], 0o600)) // killed while writing "b"

	k, err = items.Open(dir)
	require.NoError(t, err)
	require.NoError(t, k.Add(item("b")))
	require.NoError(t, k.Add(item("a")))
	require.NoError(t, k.Close())
	got, err := items.Read(dir)
	require.NoError(t, err)
	require.Equal(t, []items.Item{item("a"), item("b")}, got)
	_, err = items.Read(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTwoServersThatShareADirectoryKeepEachPromptOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var keepers [2]*items.Keeper
	for i := range keepers {
		var err error
		keepers[i], err = items.Open(dir)
		require.NoError(t, err)
	}
	var wg sync.WaitGroup
	for i := range 60 {
		for _, k := range keepers {
			wg.Go(func() { require.NoError(t, k.Add(item(fmt.Sprint(i/2)))) })
		}
	}
	wg.Wait()
	got, err := items.Read(dir)
	require.NoError(t, err)
	var ids []string
	for _, it := range got {
		require.NotContains(t, ids, it.Prompt.ID)
		ids = append(ids, it.Prompt.ID)
	}
	require.Len(t, ids, 30)
	for _, k := range keepers {
		require.NoError(t, k.Close())
	}
}
