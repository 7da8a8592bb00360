package runc_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
)

const root = "../../"

// image is the directory of an image that tools/image/build.sh built out of the Dockerfile. Without one the same
// layout is bound together from directories of this machine.
var image = os.Getenv("VERIGRAPH_IMAGE")

// system is the root of containers, and what is bound into it.
type system struct {
	path   string
	mounts []specs.Mount
}

func bound(to, from string, options ...string) specs.Mount {
	return specs.Mount{Destination: to, Source: from, Type: "bind", Options: append([]string{"rbind", "nosuid"}, options...)}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	require.NoError(t, err)
	return p
}

// imageOf is the system of the pods: the built image, or the same layout. dir is a fresh directory that others may enter.
func imageOf(t *testing.T, dir string) system {
	t.Helper()
	examples := bound("/opt/examples", abs(t, root+"examples"), "ro")
	if image != "" {
		// The directory of the examples is no part of the image: it is laid over an empty one of the system's.
		examples.Destination = "/mnt"
		return system{filepath.Join(abs(t, image), "rootfs"), []specs.Mount{examples}}
	}
	for _, d := range []string{
		"usr", "proc", "dev", "sys", "tmp", "etc/verigraph/config", "etc/verigraph/tls", "opt/verigraph/python", "mnt", "models",
		"var/cache/verigraph", "var/lib/verigraph",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "tmp"), 0o777|fs.ModeSticky))
	for _, d := range []string{"bin", "lib", "lib64", "sbin"} {
		require.NoError(t, os.Symlink("usr/"+d, filepath.Join(dir, d)))
	}
	passwd := "root:x:0:0::/root:/usr/sbin/nologin\nverigraph:x:10001:10001::/nonexistent:/usr/sbin/nologin\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte(passwd), 0o644))
	base, err := exec.Command(root+".venv/sandbox/bin/python", "-I", "-S", "-c", "import sys; print(sys.base_prefix, end='')").CombinedOutput()
	require.NoError(t, err, "make python: %s", base)
	s := system{dir, []specs.Mount{
		bound("/usr", "/usr", "ro"), bound("/usr/local/bin", abs(t, root+"bin"), "ro"),
		bound("/opt/verigraph/python", abs(t, root+".venv/sandbox"), "ro"), bound("/mnt", abs(t, root+"examples"), "ro"),
	}}
	if string(base) != "/usr" {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, string(base)), 0o755))
		s.mounts = append(s.mounts, bound(string(base), string(base), "ro"))
	}
	return s
}

// natsImage is the NATS server of the module graph alone, in place of the image that the chart names.
func natsImage(t *testing.T, dir string) system {
	t.Helper()
	for _, d := range []string{"proc", "dev", "sys", "tmp", "etc/nats", "data"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	build(t, filepath.Join(dir, "nats-server"), "github.com/nats-io/nats-server/v2")
	return system{path: dir}
}

func build(t *testing.T, to, pkg string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-o", abs(t, to), pkg)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// The user is a number, so that the kubelet can check runAsNonRoot; nothing but /tmp and the like may be written by others.
func TestTheImageRunsAsANumberAndLeavesNothingForOthersToWrite(t *testing.T) {
	if image == "" {
		t.Skip("VERIGRAPH_IMAGE names no built image: make test-image")
	}
	data, err := os.ReadFile(filepath.Join(image, "config.json"))
	require.NoError(t, err)
	var built struct {
		OCIv1 struct {
			Config struct {
				User       string
				Entrypoint []string
			} `json:"config"`
		}
	}
	require.NoError(t, json.Unmarshal(data, &built))
	require.Equal(t, "10001", built.OCIv1.Config.User)
	require.Equal(t, []string{"/usr/local/bin/verigraph"}, built.OCIv1.Config.Entrypoint)
	var writable []string
	require.NoError(t, filepath.WalkDir(filepath.Join(image, "rootfs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&(fs.ModeSymlink|fs.ModeSticky|fs.ModeDevice) == 0 {
			writable = append(writable, path)
		}
		return err
	}))
	require.Empty(t, writable)
	for _, name := range []string{"rollout-worker", "reward-server", "sft-builder", "verigraph"} {
		require.FileExists(t, filepath.Join(image, "rootfs/usr/local/bin", name))
	}
}
