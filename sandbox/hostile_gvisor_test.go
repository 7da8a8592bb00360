package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

// differsInGVisor are rules whose cell sees something else under gVisor than under Linux, with what it then says, as a regular
// expression, and why that is right there; docs/sandbox.md says so in its words.
var differsInGVisor = map[string]struct {
	status    trajectory.CellStatus
	says, why string
}{
	"files without a grant cannot be read":                   {says: `^\('OK', 'OK'\)`, why: noLandlock},
	"a symbolic link opens nothing that its target forbids":  {says: `^\['ENOENT', 'ENOENT', 'OK'\]`, why: noLandlock},
	"a race of links opens nothing":                          {says: `^False`, why: noLandlock},
	"no program is run from anywhere":                        {trajectory.CellDied, `the interpreter ended`, "a program that lies in the session's root takes the interpreter's place, with its filter and without its control channel: the session is over"},
	"a session's own death is not in its hands":              {trajectory.CellMemory, `.`, "process 1 is not immune to its own SIGKILL there"},
	"sessions see themselves alone in the network namespace": {says: `^\('OK', True\)`, why: "the list of Unix sockets is that of the whole kernel: their names are told, and none can be reached"},
	"queued signals end":                                     {says: `^False`, why: "no limit of pending signals"},
}

const noLandlock = "no Landlock: the rest of the session's own root, which holds nothing of the host, can be read"

// TestHostileCellsOfTheGVisorTier runs the tables inside gVisor; make test-gvisor starts it there.
func TestHostileCellsOfTheGVisorTier(t *testing.T) {
	if !insideGVisor() {
		t.Skip("make test-gvisor runs it inside gVisor")
	}
	require.Equal(t, TierGVisor, box(t).Tier())
	f, group := newField(t, box(t)), t
	for _, name := range tableNames {
		var common Session
		for _, h := range tables()[name] {
			t.Run(h.rule, func(t *testing.T) {
				d, differs := differsInGVisor[h.rule]
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
				if differs {
					require.NotEmpty(t, h.holds(res, g), "it no longer differs: %s", d.why)
					h.status, h.says = d.status, d.says
				}
				require.Empty(t, h.holds(res, g), h.code)
				if h.host != nil {
					require.Empty(t, h.host(t, f, sess, g))
				}
				f.unharmed(t)
			})
		}
	}
}
