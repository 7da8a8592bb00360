// Package runc_test starts the programs in the containers that the pods of docs/kubernetes.md become, under a real
// runc, and compares the tier that the self-test measures with the documented one. It needs root, runc, `make build python`.
package runc_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
)

var (
	strict   = pod{capabilities: []string{"SYS_ADMIN", "SETFCAP"}, userns: true, unmasked: true, seccomp: unconfined}
	confined = pod{user: 10001, seccomp: runtimeDefault}
)

func with(p pod, change func(*pod)) pod {
	change(&p)
	return p
}

func TestTheSelfTestMeasuresTheTierThatTheDocumentStates(t *testing.T) {
	for name, c := range map[string]struct {
		pod  pod
		tier string // asked for
		want []string
		fail bool
	}{
		"strict":                          {strict, "strict", []string{"tier         strict", "engine       zygote", "no_host_processes      holds"}, false},
		"strict with the shipped profile": {with(strict, func(p *pod) { p.seccomp = localhost }), "strict", []string{"tier         strict", "engine       zygote"}, false},
		"strict with a masked proc":       {with(strict, func(p *pod) { p.unmasked = false }), "strict", []string{"tier         strict", "engine       zygote"}, false},
		"strict under RuntimeDefault":     {with(strict, func(p *pod) { p.seccomp = runtimeDefault }), "strict", []string{"pivot: operation not permitted"}, true},
		"strict without SETFCAP":          {with(strict, func(p *pod) { p.capabilities = []string{"SYS_ADMIN"} }), "strict", []string{"operation not permitted"}, true},
		"strict without SYS_ADMIN":        {with(strict, func(p *pod) { p.capabilities = []string{"SETFCAP"} }), "strict", []string{"tier         strict", "engine       zygote"}, false},
		"strict without a user namespace": {with(strict, func(p *pod) { p.userns = false }), "strict", []string{"holds SYS_ADMIN without a user namespace"}, true},
		"confined":                        {confined, "confined", []string{"tier         confined", "engine       zygote"}, false},
		"confined, asked for strict":      {confined, "strict", []string{"does not reach isolation tier strict"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := start(t, c.pod, "/opt/verigraph/bin/verigraph", "sandbox", "check", "--python", "/opt/verigraph/python/bin/python", "--min-tier", c.tier)
			require.Equal(t, c.fail, err != nil, out)
			for _, text := range c.want {
				require.Contains(t, out, text)
			}
			t.Log(name + ":\n" + out)
		})
	}
}

// The whole line in one pod: prompts, sessions, rewards and a batch.
func TestARunInThePodOfEachTierWritesABatch(t *testing.T) {
	for name, c := range map[string]struct {
		pod  pod
		tier string
	}{"strict": {strict, "strict"}, "confined": {confined, "confined"}} {
		t.Run(name, func(t *testing.T) {
			data := "/opt/examples/dabench/"
			out, err := start(t, c.pod, "/opt/verigraph/bin/verigraph", "run", "--prompts", data+"questions.jsonl", "--labels", data+"labels.jsonl",
				"--format", "dabench", "--data-dir", data+"tables", "--policy", "script:"+data+"script.jsonl", "--judge", "rules", "--limit", "1",
				"--python", "/opt/verigraph/python/bin/python", "--config", "/etc/"+c.tier+".yaml", "--out", "/var/cache/verigraph/run")
			require.NoError(t, err, out)
			t.Log(out)
		})
	}
}

func TestTheShippedProfileIsContainerdsAndPivotRoot(t *testing.T) {
	want := seccomp.DefaultProfile(&specs.Spec{
		Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: []string{"CAP_SYS_ADMIN", "CAP_SETFCAP"}}}, Linux: &specs.Linux{},
	})
	want.Syscalls = append(want.Syscalls, specs.LinuxSyscall{Names: []string{"pivot_root"}, Action: specs.ActAllow})
	text, err := json.Marshal(want)
	require.NoError(t, err)
	data, err := os.ReadFile(root + "deploy/seccomp/verigraph-strict.json")
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(data))
}
