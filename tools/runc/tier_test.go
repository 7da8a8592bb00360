// Package runc_test starts the programs in the containers that the chart's pods become, under a real runc: the tier
// that the self-test measures is the documented one, and a run goes from prompts to batches over all processes. It needs
// root, runc, iproute2, iptables and `make build python`.
package runc_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
)

func with(p core.PodSpec, change func(*core.PodSpec)) core.PodSpec {
	p = *p.DeepCopy()
	change(&p)
	return p
}

func context(p *core.PodSpec) *core.SecurityContext { return p.Containers[0].SecurityContext }

// start runs a command in the pod's container, with its emptyDirs as tmpfs.
func start(t *testing.T, p core.PodSpec, args ...string) (string, error) {
	t.Helper()
	dir := containerDir(t)
	mounts := []specs.Mount{
		{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
		{Destination: "/var/cache", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
	}
	bundle(t, dir, p, imageOf(t, filepath.Join(dir, "rootfs")), args, []string{"TMPDIR=/tmp"}, mounts, nil)
	name := filepath.Base(dir)
	t.Cleanup(func() { _ = exec.Command("runc", "delete", "--force", name).Run() })
	out, err := exec.CommandContext(t.Context(), "runc", "run", "--bundle", dir, name).CombinedOutput()
	return string(out), err
}

func TestTheSelfTestMeasuresTheTierThatTheDocumentStates(t *testing.T) {
	strict, confined := rendered(t, "default").pods["worker"].Spec, rendered(t, "confined").pods["worker"].Spec
	caps := func(names ...core.Capability) func(*core.PodSpec) {
		return func(p *core.PodSpec) { context(p).Capabilities.Add = names }
	}
	seccompOf := func(s core.SeccompProfile) func(*core.PodSpec) {
		return func(p *core.PodSpec) { p.SecurityContext.SeccompProfile = &s }
	}
	shipped := rendered(t, "bare").pods["worker"].Spec.SecurityContext.SeccompProfile
	for name, c := range map[string]struct {
		pod  core.PodSpec
		tier string // asked for
		want []string
		fail bool
	}{
		"strict":                          {strict, "strict", []string{"tier         strict", "engine       zygote", "no_host_processes      holds"}, false},
		"strict with the shipped profile": {with(strict, seccompOf(*shipped)), "strict", []string{"tier         strict", "engine       zygote"}, false},
		"strict with a masked proc":       {with(strict, func(p *core.PodSpec) { context(p).ProcMount = nil }), "strict", []string{"tier         strict", "engine       zygote"}, false},
		"strict under RuntimeDefault":     {with(strict, seccompOf(core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault})), "strict", []string{"pivot: operation not permitted"}, true},
		"strict without SETFCAP":          {with(strict, caps("SYS_ADMIN")), "strict", []string{"operation not permitted"}, true},
		"strict without SYS_ADMIN":        {with(strict, caps("SETFCAP")), "strict", []string{"tier         strict", "engine       zygote"}, false},
		"strict without a user namespace": {with(strict, func(p *core.PodSpec) { p.HostUsers = nil }), "strict", []string{"holds SYS_ADMIN without a user namespace"}, true},
		"confined":                        {confined, "confined", []string{"tier         confined", "engine       zygote"}, false},
		"confined, asked for strict":      {confined, "strict", []string{"does not reach isolation tier strict"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := start(t, c.pod, "/usr/local/bin/verigraph", "sandbox", "check", "--python", "/opt/verigraph/python/bin/python", "--min-tier", c.tier)
			require.Equal(t, c.fail, err != nil, out)
			for _, text := range c.want {
				require.Contains(t, out, text)
			}
			t.Log(name + ":\n" + out)
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
