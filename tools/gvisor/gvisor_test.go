// Package gvisor_test runs the program and the sandbox's own tests under a real gVisor: in the pod of tier gvisor (docs/kubernetes.md)
// and as root. It needs root and `make build python`; runsc is built from this module's go.mod.
package gvisor_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
)

const root = "../../"

// Where things are in a container.
const (
	python   = "/opt/verigraph/.venv/sandbox/bin/python"
	program  = "/opt/verigraph/bin/verigraph"
	examples = "/opt/verigraph/examples/dabench/"
)

// platform is how gVisor takes over system calls: systrap, ptrace or kvm.
func platform() string {
	if p := os.Getenv("RUNSC_PLATFORM"); p != "" {
		return p
	}
	return "systrap"
}

// runsc builds gVisor once.
func runsc(t *testing.T) string {
	t.Helper()
	out, err := filepath.Abs(root + "out/gvisor/runsc")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", out, "gvisor.dev/gvisor/runsc")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	return out
}

// testBinary builds the tests of the sandbox into a directory that the containers see.
func testBinary(t *testing.T) string {
	t.Helper()
	out, err := filepath.Abs(root + "out/gvisor/tests/sandbox.test")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", out, "./sandbox")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	return out
}

// user is who the container's process is.
type user struct {
	id   uint32
	caps []string
}

// users are those of the pod, and root with the capabilities of a container that is asked for nothing.
var users = map[string]user{
	"pod":  {id: 10001},
	"root": {caps: []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_SETFCAP", "CAP_SYS_CHROOT"}},
}

// start runs a command in a container of gVisor, in dir, and returns what it printed.
func start(t *testing.T, u user, env []string, cwd string, args ...string) (string, error) {
	t.Helper()
	bundle, err := os.MkdirTemp("/var/tmp", "verigraph-gvisor-")
	require.NoError(t, err)
	t.Cleanup(func() {
		// runsc leaves an empty network namespace mounted there.
		_ = syscall.Unmount(filepath.Join(bundle, "state", "null-netns"), syscall.MNT_DETACH)
		_ = os.RemoveAll(bundle)
	})
	require.NoError(t, os.Chmod(bundle, 0o755))
	spec := specs.Spec{
		Version: "1.0.2", Root: &specs.Root{Path: "rootfs", Readonly: true}, Hostname: "worker", Mounts: layout(t, filepath.Join(bundle, "rootfs")),
		Process: &specs.Process{
			User: specs.User{UID: u.id, GID: u.id}, Args: args, Cwd: cwd,
			Env:             append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=/tmp", "HOME=/tmp"}, env...),
			Capabilities:    &specs.LinuxCapabilities{Bounding: u.caps, Effective: u.caps, Permitted: u.caps},
			NoNewPrivileges: len(u.caps) == 0,
		},
		Linux: &specs.Linux{},
	}
	for _, n := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace} {
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: n})
	}
	data, err := json.Marshal(spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o600))
	flags := []string{"--root", filepath.Join(bundle, "state"), "--platform", platform(), "--network", "none", "--ignore-cgroups"}
	name, binary := filepath.Base(bundle), runsc(t)
	t.Cleanup(func() {
		_ = exec.Command(binary, append(flags, "delete", "--force", name)...).Run()
	})
	out, err := exec.CommandContext(t.Context(), binary, append(flags, "run", "--bundle", bundle, name)...).CombinedOutput()
	return string(out), err
}

// layout makes the root file system: this machine's programs and this repository's, read-only, and places to write.
func layout(t *testing.T, dir string) []specs.Mount {
	t.Helper()
	base, err := exec.Command(root+".venv/sandbox/bin/python", "-I", "-S", "-c", "import sys; print(sys.base_prefix, end='')").CombinedOutput()
	require.NoError(t, err, "make python: %s", base)
	bound := map[string]string{"/usr": "/usr", string(base): string(base)}
	for _, d := range []string{".venv/sandbox", "bin", "examples", "sandbox"} {
		bound["/opt/verigraph/"+d] = root + d
	}
	if _, err := os.Stat(root + "out/gvisor/tests"); err == nil {
		bound["/opt/tests"] = root + "out/gvisor/tests"
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=1777"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
		{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=1777"}},
		{Destination: "/var/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=1777"}},
	}
	for to, from := range bound {
		abs, err := filepath.Abs(from)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, to), 0o755))
		mounts = append(mounts, specs.Mount{Destination: to, Source: abs, Type: "bind", Options: []string{"rbind", "ro", "nosuid"}})
	}
	for _, d := range []string{"proc", "dev", "sys", "tmp", "etc", "var/tmp"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o777|fs.ModeSticky))
	}
	for _, d := range []string{"bin", "lib", "lib64", "sbin"} {
		require.NoError(t, os.Symlink("usr/"+d, filepath.Join(dir, d)))
	}
	for name, text := range map[string]string{
		"passwd":      "root:x:0:0::/root:/usr/sbin/nologin\nverigraph:x:10001:10001::/nonexistent:/usr/sbin/nologin\n",
		"gvisor.yaml": "sandbox: {min_tier: gvisor}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "etc", name), []byte(text), 0o644))
	}
	return mounts
}

func TestTheSelfTestMeasuresTheGVisorTier(t *testing.T) {
	for name, u := range users {
		t.Run(name, func(t *testing.T) {
			out, err := start(t, u, nil, "/", program, "sandbox", "check", "--python", python, "--min-tier", "gvisor")
			require.NoError(t, err, out)
			require.Contains(t, out, "tier         gvisor\n")
			require.Contains(t, out, "engine       fresh")
			require.Contains(t, out, "no_host_processes      holds")
			require.NotContains(t, out, "FAILS")
			t.Log(out)
			out, err = start(t, u, nil, "/", program, "sandbox", "check", "--python", python, "--min-tier", "strict")
			require.Error(t, err)
			require.Contains(t, out, "inside gVisor the best tier is gvisor")
		})
	}
}

func TestARunInThePodOfTheTierWritesABatch(t *testing.T) {
	out, err := start(t, users["pod"], nil, "/", program, "run", "--prompts", examples+"questions.jsonl", "--labels", examples+"labels.jsonl",
		"--format", "dabench", "--data-dir", examples+"tables", "--policy", "script:"+examples+"script.jsonl", "--judge", "rules", "--limit", "1",
		"--python", python, "--config", "/etc/gvisor.yaml", "--out", "/tmp/run")
	require.NoError(t, err, out)
	t.Log(out)
}

// held are the tests of package sandbox that say what a session may count on and what it must not do, beside the hostile cells.
var held = []string{
	"TestHostileCellsOfTheGVisorTier", "TestCallsOfAForeignArchitectureKill", "TestEveryLimitHasItsOwnMessage", "TestWhatEndedASessionIsSaid",
	"TestACellPastItsTimeIsInterruptedAndItsVariablesLive", "TestACellThatCatchesItsInterruptionIsStillATimeout", "TestTheCPULimitCountsCPUTimeOnly",
	"TestABroadExceptDoesNotStopTheTimeout", "TestAMemoryBombIsAMemoryErrorAndTheNamespaceLives", "TestScratchIsLimitedInSize",
	"TestDataFilesAreReadOnlyUnderTheirBareNames", "TestSessionsThatShareADataFileShareNothingElse", "TestNothingOfOursIsInherited",
	"TestADeadInterpreterIsReportedAndNeverAForgedReply", "TestTheNetworkIsRefusedWithAClearMessage",
	"TestWhenMemoryIsShortTheLargestSessionAloneIsEnded", "TestLateOutputOfAnEarlierCellsThreadIsDropped", "TestSessionsDieWithTheirSupervisor",
}

func TestTheTestsOfTheSandboxHoldInGVisor(t *testing.T) {
	testBinary(t)
	for name, u := range users {
		t.Run(name, func(t *testing.T) {
			// The shell is process 1: it reaps what a test leaves without a parent.
			out, err := start(t, u, []string{"SANDBOX_TEST_ENGINE=fresh"}, "/opt/verigraph/sandbox", "/bin/bash", "-c",
				"/opt/tests/sandbox.test -test.v -test.timeout 15m -test.parallel 2 -test.run '^("+strings.Join(held, "|")+")$'; exit $?")
			require.NoError(t, err, out)
			for _, test := range held {
				require.Contains(t, out, "--- PASS: "+test+" ")
			}
			t.Logf("%d tests passed", strings.Count(out, "--- PASS: "))
		})
	}
}
