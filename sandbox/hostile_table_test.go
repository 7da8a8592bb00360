package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// tableNames is their order in docs/hostile.md.
var tableNames = []string{"reports", "escapes", "network", "cross", "protocol", "exhaustion", "persistence", "disguise"}

func tables() map[string][]hostile {
	return map[string][]hostile{
		"reports": reports, "escapes": escapes, "network": network, "cross": cross, "protocol": protocol,
		"exhaustion": exhaustion, "persistence": persistence, "disguise": disguise,
	}
}

func TestHostileCells(t *testing.T) {
	t.Parallel()
	require.Equal(t, TierStrict, box(t).Tier())
	total := 0
	for name, table := range tables() {
		total += len(table)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newField(t, box(t)).play(t, table, nil)
		})
	}
	require.GreaterOrEqual(t, total, 120)
}

// play runs every cell of a table, those that harm nobody in one session. Edit, if set, changes what a cell is held
// against by what it gave.
func (f *field) play(t *testing.T, table []hostile, edit func(*testing.T, *hostile, Result, *graph)) {
	group := t
	var common Session
	for _, h := range table {
		t.Run(h.rule, func(t *testing.T) {
			sess := common
			if sess == nil || !h.shared() {
				sess = f.victim(t, group, h, f.box)
			}
			if h.shared() {
				common = sess
			}
			res, g := h.attack(t, sess)
			if res.NamespaceLost && sess == common {
				common = nil
			}
			if edit != nil {
				edit(t, &h, res, g)
			}
			require.Empty(t, h.holds(res, g), h.code)
			if h.host != nil {
				require.Empty(t, h.host(t, f, sess, g))
			}
			f.unharmed(t)
		})
	}
}
