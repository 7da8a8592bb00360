package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
			f := newField(t, box(t))
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
					require.Empty(t, h.holds(res, g), h.code)
					if h.host != nil {
						h.host(t, f, sess, g)
					}
					f.unharmed(t)
				})
			}
		})
	}
	require.GreaterOrEqual(t, total, 120)
}

// TestEveryDefenceIsNeeded runs the cells that name a defence without it: each must then succeed, else
// the cell shows nothing.
func TestEveryDefenceIsNeeded(t *testing.T) {
	t.Parallel()
	if engine != EngineFresh {
		t.Skip("runs once, with fresh interpreters")
	}
	byDefence := map[string][]hostile{}
	for _, table := range tables() {
		for _, h := range table {
			if h.off != "" {
				byDefence[h.off] = append(byDefence[h.off], h)
			}
		}
	}
	require.GreaterOrEqual(t, len(byDefence), 6)
	for defence, list := range byDefence {
		t.Run(defence, func(t *testing.T) {
			t.Parallel()
			weak := without(t, defence)
			f := newField(t, box(t))
			group := t
			var common Session
			for _, h := range list {
				t.Run(h.rule, func(t *testing.T) {
					sess := common
					if sess == nil || !h.shared() {
						sess = f.victim(t, group, h, weak)
					}
					res, g := h.attack(t, sess)
					if h.shared() && !res.NamespaceLost {
						common = sess
					} else if h.shared() {
						common = nil
					}
					require.NotEmpty(t, h.holds(res, g), "%s\n%s", h.code, res.Output)
				})
			}
		})
	}
}
