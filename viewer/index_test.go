package viewer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/viewer/viewertest"
)

func TestMain(m *testing.M) { patience.Main(m) }

// realRun is two groups of make demo.
const realRun = "testdata/run"

func open(t *testing.T, dir string) *Run {
	t.Helper()
	r, err := Open(dir, "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func grown(t *testing.T, n int) (string, *Run) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, viewertest.Grow(realRun, dir, n))
	return dir, open(t, dir)
}

func TestIndexFollowsARunThatGrows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, err := viewertest.NewGrower(realRun, dir)
	require.NoError(t, err)
	r := open(t, dir)
	var revs []string
	for want := range 4 {
		s, err := r.index.refresh()
		require.NoError(t, err)
		require.Len(t, s.rows, want)
		require.NotContains(t, revs, s.rev, "every growth is a new revision")
		revs = append(revs, s.rev)
		again, err := r.index.refresh()
		require.NoError(t, err)
		require.Equal(t, s.rev, again.rev, "and nothing else is")
		require.NoError(t, g.Next())
		require.NoError(t, g.Flush())
	}
	require.NoError(t, g.Close())
}

func TestIndexReadsOnlyWhatWasAppended(t *testing.T) {
	t.Parallel()
	dir, r := grown(t, 8)
	_, err := r.index.refresh()
	require.NoError(t, err)
	// What was read is overwritten in place: an index that reads it again would meet a corrupt line.
	path := filepath.Join(dir, indexPath)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("#", 100)), 0)
	require.NoError(t, err)
	_, err = f.WriteAt(data[:strings.IndexByte(string(data), '\n')+1], int64(len(data)))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	s, err := r.index.refresh()
	require.NoError(t, err)
	require.Len(t, s.rows, 9)
	require.Empty(t, s.problems)
}

func TestALineWithoutItsEndWaitsForTheRest(t *testing.T) {
	t.Parallel()
	dir, _ := grown(t, 3)
	path := filepath.Join(dir, indexPath)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-20], 0o644))
	r := open(t, dir)
	s, err := r.index.refresh()
	require.NoError(t, err)
	require.Len(t, s.rows, 2)
	require.Empty(t, s.problems)

	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(whole[len(whole)-20:])
	require.NoError(t, err)
	require.NoError(t, f.Close())
	s, err = r.index.refresh()
	require.NoError(t, err)
	require.Len(t, s.rows, 3)
}

func TestARunThatWasReplacedOrCutIsReadAnew(t *testing.T) {
	t.Parallel()
	dir, r := grown(t, 8)
	s, err := r.index.refresh()
	require.NoError(t, err)
	require.Len(t, s.rows, 8)
	require.NoError(t, os.Truncate(filepath.Join(dir, indexPath), s.rows[2].offset))
	cut, err := r.index.refresh()
	require.NoError(t, err)
	require.Len(t, cut.rows, 2)
	require.NotEqual(t, s.rev, cut.rev)
	require.NoError(t, os.Remove(filepath.Join(dir, indexPath)))
	gone, err := r.index.refresh()
	require.NoError(t, err)
	require.Empty(t, gone.rows)
	require.Len(t, s.rows, 8, "what was handed out stays")
}

func TestACorruptLineIsNamedAndCostsItselfOnly(t *testing.T) {
	t.Parallel()
	dir, _ := grown(t, 8)
	require.NoError(t, viewertest.Break(dir))
	r := open(t, dir)
	o, err := r.overview(time.Now())
	require.NoError(t, err)
	require.Equal(t, 6, o.Stats.Rollouts, "8 less the corrupt one and the torn one")
	require.Equal(t, 1, o.Bad)
	require.Equal(t, Problem{indexPath, 2, "invalid character '\\x00' looking for beginning of value"}, o.Problems[0])
	require.Contains(t, o.Problems[1].File, "summary.json")
	require.Nil(t, o.Summary)

	page, err := r.list(query{sort: ended, limit: 10})
	require.NoError(t, err)
	_, err = r.rollout(page.Rows[1].ID)
	require.ErrorContains(t, err, "trajectories/")
	require.ErrorContains(t, err, "unexpected EOF")
	_, err = r.rollout(page.Rows[2].ID)
	require.ErrorContains(t, err, "no such file")
	_, err = r.rollout(page.Rows[3].ID)
	require.NoError(t, err)
	members, err := r.group(page.Rows[1].Group)
	require.NoError(t, err)
	require.NotEmpty(t, members[1].Unread+members[2].Unread)
}

func TestALineThatIsTooLongIsSkippedWithoutBeingHeld(t *testing.T) {
	t.Parallel()
	dir, _ := grown(t, 2)
	f, err := os.OpenFile(filepath.Join(dir, indexPath), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(strings.Repeat("x", maxLine+1) + "\n{}\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	s, err := open(t, dir).index.refresh()
	require.NoError(t, err)
	require.Len(t, s.rows, 2)
	require.Equal(t, []int{3, 4}, []int{s.problems[0].Line, s.problems[1].Line})
	require.Contains(t, s.problems[0].Error, "longer than")
}

func TestAnEmptyDirectoryIsAnEmptyRun(t *testing.T) {
	t.Parallel()
	r := open(t, t.TempDir())
	o, err := r.overview(time.Now())
	require.NoError(t, err)
	require.Zero(t, o.Stats.Rollouts)
	require.Empty(t, o.Problems)
	require.Empty(t, o.Stats.Buckets)
}

func TestARolloutsFileOutsideOfTheRunIsNotRead(t *testing.T) {
	t.Parallel()
	dir, _ := grown(t, 1)
	secret := filepath.Join(t.TempDir(), "secret.json")
	require.NoError(t, os.WriteFile(secret, []byte("{}"), 0o600))
	path := filepath.Join(dir, indexPath)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	file := strings.Split(strings.Split(string(data), `"file":"`)[1], `"`)[0]
	for _, evil := range []string{secret, "../" + filepath.Base(filepath.Dir(secret)) + "/secret.json", "trajectories/link.json"} {
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(data), file, evil, 1)), 0o644))
		_ = os.Remove(filepath.Join(dir, "trajectories/link.json"))
		require.NoError(t, os.Symlink(secret, filepath.Join(dir, "trajectories/link.json")))
		r := open(t, dir)
		s, err := r.index.refresh()
		require.NoError(t, err)
		_, err = r.rollout(s.rows[0].id)
		require.ErrorContains(t, err, "escapes", evil)
	}
}

func TestARunIsLiveWhileItsStatusIsRenewed(t *testing.T) {
	t.Parallel()
	dir, r := grown(t, 4)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "summary.json"), []byte(`{"complete": false}`), 0o644))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		st   Status
		live bool
	}{
		{Status{Running: true, Time: now.Add(-time.Second)}, true}, // a resumed run has the summary of before
		{Status{Running: true, Time: now.Add(-time.Minute)}, false},
		{Status{Time: now}, false},
	} {
		require.NoError(t, WriteStatus(dir, c.st))
		o, err := r.overview(now)
		require.NoError(t, err)
		require.Equal(t, c.live, o.Live, "%+v", c.st)
		require.Equal(t, c.st.Time, o.Status.Time)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, StatusName), []byte(`{"run`), 0o644))
	o, err := r.overview(now)
	require.NoError(t, err)
	require.Equal(t, StatusName, o.Problems[0].File)
	r.Follow(func() (*Status, error) { return &Status{Complete: false}, nil })
	o, err = r.overview(now)
	require.NoError(t, err)
	require.True(t, o.Live, "a process that answers is live until the run is complete")
}

func TestFewRolloutsAreKeptAndTheLargestAlone(t *testing.T) {
	t.Parallel()
	_, r := grown(t, 8)
	s, err := r.index.refresh()
	require.NoError(t, err)
	for i := range s.rows {
		_, err := r.rollout(s.rows[i].id)
		require.NoError(t, err)
	}
	require.Len(t, r.cache, cachedRollouts)
	require.Equal(t, s.rows[7].id, r.cache[0].id)
	again, err := r.rollout(s.rows[7].id)
	require.NoError(t, err)
	require.Same(t, r.cache[0].scored, again)
	r.remember(cached{id: "large", size: cachedBytes})
	require.Len(t, r.cache, 1)
}
