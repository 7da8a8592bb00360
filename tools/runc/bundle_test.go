package runc_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
)

// The numbers that a kubelet gives a pod with hostUsers: false.
const firstID, numberOfIDs = 655360, 65536

func userns(p core.PodSpec) bool { return p.HostUsers != nil && !*p.HostUsers }

func profile(t *testing.T, p core.PodSpec, caps []string) *specs.LinuxSeccomp {
	t.Helper()
	switch p.SecurityContext.SeccompProfile.Type {
	case core.SeccompProfileTypeUnconfined:
		return nil
	case core.SeccompProfileTypeLocalhost:
		var s specs.LinuxSeccomp
		data, err := os.ReadFile(root + "deploy/seccomp/" + *p.SecurityContext.SeccompProfile.LocalhostProfile)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &s))
		return &s
	}
	return seccomp.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: caps}}, Linux: &specs.Linux{}})
}

// bundle writes what containerd would make of a pod of one container: its default seccomp profile, its masked and
// read-only paths, read-only control groups, and what the pod's security context says.
func bundle(t *testing.T, dir string, p core.PodSpec, sys system, args, env []string, mounts []specs.Mount, hooks *specs.Hooks) {
	t.Helper()
	c := p.Containers[0].SecurityContext
	var caps []string
	for _, name := range c.Capabilities.Add {
		caps = append(caps, "CAP_"+string(name))
	}
	linux := &specs.Linux{
		Seccomp:   profile(t, p, caps),
		Resources: &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
	}
	if limit, ok := p.Containers[0].Resources.Limits[core.ResourceMemory]; ok {
		bytes := limit.Value()
		linux.Resources.Memory = &specs.LinuxMemory{Limit: &bytes}
	}
	for _, n := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace} {
		linux.Namespaces = append(linux.Namespaces, specs.LinuxNamespace{Type: n})
	}
	if userns(p) {
		ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: firstID, Size: numberOfIDs}}
		linux.Namespaces = append(linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		linux.UIDMappings, linux.GIDMappings = ids, ids
	}
	if c.ProcMount == nil || *c.ProcMount != core.UnmaskedProcMount {
		linux.MaskedPaths = []string{
			"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
			"/proc/sched_debug", "/sys/firmware", "/sys/devices/virtual/powercap", "/proc/scsi",
		}
		linux.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	user := specs.User{UID: uint32(*p.SecurityContext.RunAsUser), GID: uint32(*p.SecurityContext.RunAsGroup)}
	if p.SecurityContext.FSGroup != nil {
		user.AdditionalGids = []uint32{uint32(*p.SecurityContext.FSGroup)}
	}
	spec := specs.Spec{
		Version: "1.0.2", Root: &specs.Root{Path: sys.path, Readonly: *c.ReadOnlyRootFilesystem}, Hostname: "pod", Linux: linux, Hooks: hooks,
		Mounts: slices.Concat(standardMounts(), sys.mounts, mounts),
		Process: &specs.Process{
			User: user, Args: args, Cwd: "/", NoNewPrivileges: !*c.AllowPrivilegeEscalation,
			Env:          append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "KUBERNETES_SERVICE_HOST=10.96.0.1"}, env...),
			Capabilities: &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
	}
	for _, m := range spec.Mounts {
		mountPoint(t, sys.path, m)
	}
	data, err := json.Marshal(spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600))
}

// mountPoint makes what a runtime makes in a container's root; root of a user namespace may not.
func mountPoint(t *testing.T, rootfs string, m specs.Mount) {
	t.Helper()
	at := filepath.Join(rootfs, m.Destination)
	if strings.HasPrefix(m.Destination, "/usr/") {
		return // of the system
	}
	if info, err := os.Stat(m.Source); err == nil && info.Mode().IsRegular() {
		f, err := os.OpenFile(at, os.O_CREATE, 0o644)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		return
	}
	require.NoError(t, os.MkdirAll(at, 0o755))
}

func standardMounts() []specs.Mount {
	mount := func(to, kind string, options ...string) specs.Mount {
		return specs.Mount{Destination: to, Source: kind, Type: kind, Options: options}
	}
	return []specs.Mount{
		mount("/proc", "proc", "nosuid", "noexec", "nodev"),
		mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
		mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
		mount("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
		mount("/dev/mqueue", "mqueue", "nosuid", "noexec", "nodev"),
		mount("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
		mount("/sys/fs/cgroup", "cgroup", "nosuid", "noexec", "nodev", "relatime", "ro"),
	}
}

// containerDir is a directory for one container, which its users may enter.
func containerDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "verigraph-runc-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "rootfs"), 0o755))
	return dir
}
