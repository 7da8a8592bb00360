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
	f := newField(t, box(t))
	for _, name := range tableNames {
		f.play(t, tables()[name], func(t *testing.T, h *hostile, res Result, g *graph) {
			if d, differs := differsInGVisor[h.rule]; differs {
				require.NotEmpty(t, h.holds(res, g), "it no longer differs: %s", d.why)
				h.status, h.says = d.status, d.says
			}
		})
	}
}
