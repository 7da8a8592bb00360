package jetstream

import (
	"fmt"
	"strings"
)

// Role is what a process does, as its NATS user is allowed to.
type Role string

// Roles.
const (
	RoleWorker Role = "worker"
	RoleServer Role = "server" // a reward server, which leads the run too
	RoleSubmit Role = "submit"
)

// Roles lists them.
func Roles() []Role { return []Role{RoleWorker, RoleServer, RoleSubmit} }

// Permissions are the subjects that a user of a role in one run needs, and no more. Worker and submit need
// nats.manage: false. A worker's reach no other run and no reference answer; a server's reach the streams of
// all runs of its account, so that runs which may not see each other's answers need accounts of their own.
func Permissions(run string, role Role) (publish, subscribe []string) {
	subscribe = []string{"_INBOX.verigraph." + run + ".>"}
	state := "KV_verigraph_state"
	switch role {
	case RoleWorker:
		takers := "takers-" + run
		publish = []string{
			"$JS.API.CONSUMER.INFO.PROMPTS." + takers,
			"$JS.API.CONSUMER.MSG.NEXT.PROMPTS." + takers,
			"$JS.ACK.PROMPTS." + takers + ".>",
			"$JS.API.DIRECT.GET.PROMPTS." + subject(run, Prompts, ">"),
			"$JS.API.DIRECT.GET.JOURNAL." + subject(run, JournalStream, ">"),
			"$JS.API.CONSUMER.CREATE.JOURNAL.*." + subject(run, JournalStream, ">"),
			"$JS.API.CONSUMER.MSG.NEXT.JOURNAL.*", // of consumers whose names nobody can guess
			"$JS.API.STREAM.INFO." + state,
			"$JS.API.DIRECT.GET." + state + ".$KV.verigraph_state.policy." + run,
			subject(run, JournalStream, ">"),
			subject(run, Trajectories, ">"),
			subject(run, SetAside, ">"),
		}
	case RoleServer:
		publish = []string{
			"$JS.API.>", "$JS.ACK.*.takers-" + run + ".>", "verigraph." + run + ".>",
			"$KV.verigraph_state.*." + run, "$KV.verigraph_state.cursor." + run + ".*", "$KV.verigraph_verdicts.>",
		}
	case RoleSubmit:
		publish = []string{"$JS.API.STREAM.INFO." + state, subject(run, Backlog, ">"), subject(run, References, ">")}
	}
	return publish, subscribe
}

// PermissionsConfig writes them as a part of a NATS server's configuration.
func PermissionsConfig(run string, role Role) string {
	publish, subscribe := Permissions(run, role)
	list := func(subjects []string) string { return "\"" + strings.Join(subjects, "\",\n    \"") + "\"" }
	return fmt.Sprintf("permissions {\n  publish: [\n    %s\n  ]\n  subscribe: [\n    %s\n  ]\n}\n", list(publish), list(subscribe))
}
