package runc_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
)

const root = "../../"

// pod is the part of a pod's specification that decides about isolation.
type pod struct {
	user         uint32
	capabilities []string
	userns       bool // hostUsers: false
	unmasked     bool // procMount: Unmasked
	seccomp      string
}

// Seccomp profiles of a pod.
const (
	runtimeDefault = "RuntimeDefault"
	unconfined     = "Unconfined"
	localhost      = "Localhost" // deploy/seccomp/verigraph-strict.json
)

func profile(t *testing.T, p pod, caps []string) *specs.LinuxSeccomp {
	t.Helper()
	switch p.seccomp {
	case unconfined:
		return nil
	case localhost:
		var s specs.LinuxSeccomp
		data, err := os.ReadFile(root + "deploy/seccomp/verigraph-strict.json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &s))
		return &s
	}
	return seccomp.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: caps}}, Linux: &specs.Linux{}})
}

// rootfs lays out what the image holds: a system, the programs, the Python environment. Directories of this machine
// are bound read-only into it.
func rootfs(t *testing.T, dir string) []specs.Mount {
	t.Helper()
	for _, d := range []string{"usr", "proc", "dev", "sys", "tmp", "etc", "opt/verigraph/python", "opt/verigraph/bin", "opt/examples", "var/cache/verigraph"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for _, d := range []string{"tmp", "var/cache/verigraph"} {
		require.NoError(t, os.Chmod(filepath.Join(dir, d), 0o777|fs.ModeSticky))
	}
	for _, d := range []string{"bin", "lib", "lib64", "sbin"} {
		require.NoError(t, os.Symlink("usr/"+d, filepath.Join(dir, d)))
	}
	passwd := "root:x:0:0::/root:/usr/sbin/nologin\nverigraph:x:10001:10001::/nonexistent:/usr/sbin/nologin\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte(passwd), 0o644))
	for _, tier := range []string{"strict", "confined"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "etc", tier+".yaml"), []byte("sandbox: {min_tier: "+tier+"}\n"), 0o644))
	}
	base, err := exec.Command(root+".venv/sandbox/bin/python", "-I", "-S", "-c", "import sys; print(sys.base_prefix, end='')").CombinedOutput()
	require.NoError(t, err, "make python: %s", base)
	bound := map[string]string{
		"/usr": "/usr", "/opt/verigraph/python": root + ".venv/sandbox", "/opt/verigraph/bin": root + "bin", "/opt/examples": root + "examples",
	}
	if string(base) != "/usr" {
		bound[string(base)] = string(base)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, string(base)), 0o755))
	}
	var out []specs.Mount
	for to, from := range bound {
		abs, err := filepath.Abs(from)
		require.NoError(t, err)
		out = append(out, specs.Mount{Destination: to, Source: abs, Type: "bind", Options: []string{"rbind", "ro", "nosuid"}})
	}
	return out
}

// start runs a command in a container that containerd would make of the pod: its default seccomp profile, its masked
// and read-only paths, read-only control groups, a read-only root.
func start(t *testing.T, p pod, args ...string) (string, error) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "verigraph-runc-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "rootfs"), 0o755))
	var caps []string
	for _, c := range p.capabilities {
		caps = append(caps, "CAP_"+c)
	}
	mount := func(to, kind string, options ...string) specs.Mount {
		return specs.Mount{Destination: to, Source: kind, Type: kind, Options: options}
	}
	mounts := slices.Concat([]specs.Mount{
		mount("/proc", "proc", "nosuid", "noexec", "nodev"),
		mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
		mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
		mount("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
		mount("/dev/mqueue", "mqueue", "nosuid", "noexec", "nodev"),
		mount("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
		mount("/sys/fs/cgroup", "cgroup", "nosuid", "noexec", "nodev", "relatime", "ro"),
		mount("/tmp", "tmpfs", "nosuid", "nodev", "mode=1777"), mount("/var/cache/verigraph", "tmpfs", "nosuid", "nodev", "mode=1777"),
	}, rootfs(t, filepath.Join(dir, "rootfs")))
	memory := int64(4 << 30)
	linux := &specs.Linux{
		Seccomp: profile(t, p, caps),
		Resources: &specs.LinuxResources{
			Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
			Memory:  &specs.LinuxMemory{Limit: &memory},
		},
	}
	for _, n := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace} {
		linux.Namespaces = append(linux.Namespaces, specs.LinuxNamespace{Type: n})
	}
	if p.userns { // the kubelet gives a pod 65,536 numbers
		ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 655360, Size: 65536}}
		linux.Namespaces = append(linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		linux.UIDMappings, linux.GIDMappings = ids, ids
	}
	if !p.unmasked {
		linux.MaskedPaths = []string{
			"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
			"/proc/sched_debug", "/sys/firmware", "/sys/devices/virtual/powercap", "/proc/scsi",
		}
		linux.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	spec := specs.Spec{
		Version: "1.0.2", Root: &specs.Root{Path: "rootfs", Readonly: true}, Hostname: "worker", Mounts: mounts, Linux: linux,
		Process: &specs.Process{
			User: specs.User{UID: p.user, GID: p.user}, Args: args, Cwd: "/",
			Env:             []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=/tmp", "KUBERNETES_SERVICE_HOST=10.0.0.1"},
			Capabilities:    &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
			NoNewPrivileges: len(caps) == 0,
		},
	}
	data, err := json.Marshal(spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600))
	name := filepath.Base(dir)
	t.Cleanup(func() { _ = exec.Command("runc", "delete", "--force", name).Run() })
	out, err := exec.CommandContext(t.Context(), "runc", "run", "--bundle", dir, name).CombinedOutput()
	return string(out), err
}
