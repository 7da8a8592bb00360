package sandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/trajectory"
)

// weak runs cells without some layers, one at a time, in fresh interpreters.
type weak struct {
	f *field
	// boxes are by tier; their limits, runner and layers are those of the cell that runs.
	boxes   map[Tier]*Sandbox
	runners map[string][]byte
}

func newWeak(t *testing.T) *weak {
	t.Helper()
	cfg := testConfig()
	cfg.Engine = EngineFresh
	w := &weak{f: newField(t, box(t)), boxes: map[Tier]*Sandbox{}, runners: map[string][]byte{}}
	// What sessions may read and everybody may write: the mount and Landlock stand before it, and no mode.
	decoy, err := os.MkdirTemp("/var/tmp", "decoy-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(decoy)) })
	require.NoError(t, errors.Join(os.Chmod(decoy, 0o777), os.WriteFile(filepath.Join(decoy, "file"), nil, 0o666), os.Chmod(filepath.Join(decoy, "file"), 0o666)))
	w.f.prelude += fmt.Sprintf("DECOY = %q\n", decoy)
	for _, tier := range []Tier{TierStrict, TierConfined} {
		s, err := newSandbox(t.Context(), cfg, inspected(t), []Tier{tier})
		require.NoError(t, err)
		s.python.Prefixes = append(slices.Clone(s.python.Prefixes), decoy)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		w.boxes[tier] = s
	}
	return w
}

// without is a sandbox of sessions without the layers, until the next call.
func (w *weak) without(t *testing.T, h hostile, off []string) *Sandbox {
	t.Helper()
	s := w.boxes[TierStrict]
	if slices.Contains(off, "namespaces") {
		s = w.boxes[TierConfined]
	}
	key := strings.Join(off, " ")
	if w.runners[key] == nil {
		w.runners[key] = mutate(t, off)
		if w.runners[key] == nil {
			w.runners[key] = w.f.box.python.Runner
		}
	}
	s.python.Runner = w.runners[key]
	s.off = map[string]bool{}
	for _, name := range off {
		s.off[name] = true
	}
	l := testConfig().Limits
	l.CellWall, l.CellCPU, l.Grace = patience.Limit, patience.Limit, 0
	if h.small {
		small(&l)
	}
	if s.off["sizes"] { // the guard of the host
		l.MemoryBytes, l.ScratchBytes, l.FileBytes, l.Processes, l.OpenFiles = 4*l.MemoryBytes, 4*l.ScratchBytes, 4*l.FileBytes, 4*l.Processes, 4*l.OpenFiles
	}
	if s.off["stdin"] || s.off["joins"] || s.off["recursion"] { // the cell hangs without it
		l.CellWall = 2 * time.Second
	}
	if s.off["output"] {
		l.OutputBytes = 64 << 20
	}
	s.cfg.Limits = l
	return s
}

// try runs the cell without the layers, and says how its rule fails or, of a rule with a check on the host that
// several layers hold, how that check does; else nothing.
func (w *weak) try(t *testing.T, h hostile, off []string) string {
	t.Helper()
	s := w.without(t, h, off)
	f := *w.f
	f.box, f.before.Reached = s, f.reached.Load()
	sess, err := s.Start(t.Context(), Spec{Files: map[string]string{"a.csv": f.data}})
	require.NoError(t, err)
	defer func() {
		require.NoError(t, sess.Close())
		sweepHost(t)
	}()
	cells := strings.Split(h.code, "\n# then\n")
	if h.probe != nil {
		cells, h.says = append(cells[:len(cells)-1], h.probe.code), h.probe.says
		if h.probe.ok {
			h.status = trajectory.CellOK
		}
	}
	if !(h.own && h.taint != "") {
		cells = append([]string{f.prelude}, cells...)
	}
	g := &graph{}
	for i, code := range cells {
		ctx := t.Context()
		last := i == len(cells)-1
		if last && h.times != nil {
			h.times(&sess.(*session).limits)
		}
		if last && s.off["time"] { // what is five times as long as its limit is not held by it
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 1500*time.Millisecond)
			defer cancel()
			sess.(*session).limits.CellWall = time.Minute
		}
		if s.off["frames"] { // the session lives on
			code = strings.ReplaceAll(code, "time.sleep(30)", "None")
			sess.(*session).limits.CellWall = 3 * time.Second
		}
		res, err := sess.Run(ctx, code, g)
		switch {
		case last && s.off["time"] && errors.Is(err, context.DeadlineExceeded):
			return "it still runs"
		case !last && res.NamespaceLost:
			return fmt.Sprintf("the session ends early: %.200s", res.Traceback)
		}
		require.NoError(t, err)
		if last {
			return failure(t, h, &f, sess, res, g, off)
		}
	}
	return ""
}

func failure(t *testing.T, h hostile, f *field, sess Session, res Result, g *graph, off []string) string {
	t.Helper()
	said := h.holds(res, g)
	if h.host == nil || said != "" && len(off) == 1 || res.NamespaceLost && h.status != trajectory.CellDied {
		return said
	}
	why := h.host(t, f, sess, g)
	if slices.Contains(off, "net") || slices.Contains(off, "audit") {
		// What reached a listener is counted by another goroutine.
		for end := time.After(500 * time.Millisecond); why == ""; {
			select {
			case <-f.arrived:
				why = h.host(t, f, sess, g)
			case <-end: // nothing did
				return ""
			}
		}
	}
	return why
}

// canFail shows that the rule of h is held by the layers that it names: it fails without all of them, and
// with any one of them it holds.
func (w *weak) canFail(t *testing.T, h hostile) {
	t.Helper()
	off := strings.Fields(h.off)
	if h.twin != "" {
		h.probe = &probe{code: h.twin, says: h.says}
		require.NotEmpty(t, w.try(t, h, nil), "its twin passes, too")
		return
	}
	if h.probe != nil {
		require.Empty(t, w.try(t, h, nil), "with every layer")
	}
	why := w.try(t, h, off)
	require.NotEmpty(t, why, "holds without %s", h.off)
	t.Logf("without %s: %.300s", h.off, why)
	for i, name := range off {
		if len(off) > 1 {
			require.Empty(t, w.try(t, h, slices.Delete(slices.Clone(off), i, i+1)), "%s alone", name)
		}
	}
}

// offEnv runs every cell without its layers, which takes minutes; else one for each layer of sampled.
const offEnv = "SANDBOX_TEST_OFF"

var sampled = []string{"seccomp", "landlock", "privileges", "rlimits", "scratch", "pid", "net", "namespaces", "sizes", "output", "nonce", "frames", "audit", "hooks", "threads", "streams", "handles"}

// TestEveryHostileCellCanFail is what makes the others worth something.
func TestEveryHostileCellCanFail(t *testing.T) {
	t.Parallel()
	if engine != EngineFresh || os.Geteuid() != 0 {
		t.Skip("runs once, with fresh interpreters, as root")
	}
	all := os.Getenv(offEnv) != ""
	w, seen := newWeak(t), map[string]bool{}
	for _, name := range tableNames {
		t.Run(name, func(t *testing.T) {
			for _, h := range tables()[name] {
				if !all && (seen[h.off] || !slices.Contains(sampled, h.off)) {
					continue
				}
				seen[h.off] = true
				t.Run(h.rule, func(t *testing.T) { w.canFail(t, h) })
			}
		})
	}
}

// sweepHost takes away what cells without their layers left on the host.
func sweepHost(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/dev/shm/hostile", "/tmp/left"} {
		if err := os.Remove(path); err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	}
}

var updateTable = flag.Bool("update", false, "write docs/hostile.md")

// TestThePageOfHostileCellsIsThatOfTheTables: run with -args -update to write it.
func TestThePageOfHostileCellsIsThatOfTheTables(t *testing.T) {
	t.Parallel()
	const begin = "<!-- from here on written by make hostile-page -->\n"
	clean := strings.NewReplacer("|", `\|`, "\n", " ").Replace
	var b strings.Builder
	b.WriteString(begin + "\n## Layers\n\n| layer | what is left out |\n| --- | --- |\n")
	for _, l := range layers {
		about := l.about
		if l.part != "" {
			about += " (`python/" + l.part + ".py`)"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", l.name, about)
	}
	used, total := map[string]bool{"twin": true}, 0
	for _, name := range tableNames {
		fmt.Fprintf(&b, "\n## %s\n\n| rule | expected status | fails without |\n| --- | --- | --- |\n", name)
		for _, h := range tables()[name] {
			require.True(t, (h.off == "") != (h.twin == ""), "%s: names its layers or has a twin", h.rule)
			off := strings.Fields(h.off)
			for _, name := range off {
				layerOf(t, name)
				used[name] = true
			}
			if h.twin != "" {
				off = []string{"twin"}
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", clean(h.rule), h.wants(), strings.Join(off, ", "))
			total++
		}
	}
	for _, l := range layers {
		require.True(t, used[l.name], "no cell needs layer %s", l.name)
	}
	fmt.Fprintf(&b, "\n%d cells.\n", total)
	file := filepath.Join("..", "docs", "hostile.md")
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	head, _, found := strings.Cut(string(page), begin)
	require.True(t, found)
	if *updateTable {
		require.NoError(t, os.WriteFile(file, []byte(head+b.String()), 0o644))
		return
	}
	require.Equal(t, head+b.String(), string(page), "run make hostile-page")
}
