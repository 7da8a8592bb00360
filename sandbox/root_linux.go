package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// rootSpec describes the file system that a session sees. Everything but scratch is read-only.
type rootSpec struct {
	// Binds are host paths that appear at the same place, directories or files; a path that is
	// a symbolic link appears as that link.
	Binds []string `json:"binds"`
	// Files are data files, by the name under which the session opens them.
	Files        []bindFile `json:"files"`
	ScratchBytes int64      `json:"scratch_bytes"`
	// Owner is the uid and gid of the scratch directories.
	Owner int `json:"owner"`
	// Off names parts that tests leave out: "read-only", "scratch" (its size) and "pid" (the host's /proc comes along).
	Off map[string]bool `json:"off,omitempty"`
	// Sentry: the kernel is gVisor's, see openLate.
	Sentry bool `json:"sentry"`
	// Template: what sessions get of their own (scratch, data, /proc) they mount themselves.
	Template bool `json:"template"`
}

// bindFile is one data file.
type bindFile struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Paths inside a session.
const (
	scratchDir = "/scratch"
	dataDir    = "/data"
	tmpDir     = "/tmp"
	// canaryFile is readable by its mode and granted by no Landlock rule: if a session can read
	// it, Landlock does not hold.
	canaryFile = "/.canary"
)

var devices = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"}

// buildRoot makes the new root and moves into it. Every source is opened before the new tree hides
// the old one, so that a source may lie anywhere.
func buildRoot(spec rootSpec) error {
	// Nothing mounted here may reach the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private: %w", err)
	}
	tree, err := openSources(spec)
	if err != nil {
		return err
	}
	defer tree.close()
	base, err := mountBase()
	if err != nil {
		return err
	}
	steps := []func(string, rootSpec) error{makeScratch, tree.attach, makeFiles, mountProc}
	if spec.Template {
		steps = []func(string, rootSpec) error{makeTemplate, tree.attach, makeFiles}
	}
	for _, step := range steps {
		if err := step(base, spec); err != nil {
			return err
		}
	}
	if err := enter(base, spec.Sentry); err != nil {
		return err
	}
	return unix.Sethostname([]byte("session"))
}

// source is a detached copy of a mount, or a symbolic link, and where it goes.
type source struct {
	fd  int
	dir bool
	// late: no copy but the path itself, opened; it is bound, and then gets these flags.
	late   uint64
	link   string
	target string
}

type sources []source

func openSources(spec rootSpec) (sources, error) {
	var out sources
	binds := outermost(spec.Binds)
	add := func(path, target string, attr uint64, keepLink bool) error {
		from := openSource
		if spec.Sentry {
			from = openLate
		}
		s, err := from(path, target, attr, keepLink)
		if errors.Is(err, os.ErrNotExist) && keepLink {
			return nil
		}
		if err == nil {
			out = append(out, s)
		}
		return err
	}
	ro := uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if spec.Off["read-only"] {
		ro = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	}
	for _, b := range binds {
		if err := add(b, b, ro, true); err != nil {
			out.close()
			return nil, err
		}
	}
	for _, d := range devices {
		if err := add(d, d, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false); err != nil {
			out.close()
			return nil, err
		}
	}
	if spec.Template || spec.Off["pid"] {
		// The zygote maps the ids of its sessions through this one; each covers it with its own.
		if err := add("/proc", "/proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false); err != nil {
			out.close()
			return nil, err
		}
	}
	for _, f := range spec.Files {
		for _, dir := range []string{dataDir, scratchDir} {
			if err := add(f.Path, filepath.Join(dir, f.Name), ro|unix.MOUNT_ATTR_NOEXEC, false); err != nil {
				out.close()
				return nil, err
			}
		}
	}
	return out, nil
}

func openSource(path, target string, attr uint64, keepLink bool) (source, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return source{}, err
	}
	if keepLink && info.Mode()&os.ModeSymlink != 0 {
		link, err := os.Readlink(path)
		return source{fd: -1, link: link, target: target}, err
	}
	// Recursive: a mount below ours that hides something must come along, hidden part and all.
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return source{}, fmt.Errorf("copy mount of %s: %w", path, err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		unix.Close(fd)
		return source{}, fmt.Errorf("restrict mount of %s: %w", path, err)
	}
	if info, err = os.Stat(path); err != nil {
		unix.Close(fd)
		return source{}, err
	}
	return source{fd: fd, dir: info.IsDir(), target: target}, nil
}

func (s sources) close() {
	for _, src := range s {
		if src.fd >= 0 {
			unix.Close(src.fd)
		}
	}
}

// attach puts every source into the tree at base.
func (s sources) attach(base string, spec rootSpec) error {
	for _, src := range s {
		at := filepath.Join(base, src.target)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if src.fd < 0 {
			if err := os.Symlink(src.link, at); err != nil {
				return err
			}
			continue
		}
		if src.dir {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
		} else if f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o444); err != nil {
			return err
		} else {
			f.Close()
		}
		if err := src.mount(at); err != nil {
			return fmt.Errorf("attach %s: %w", src.target, err)
		}
	}
	return nil
}

// mountBase mounts the new root over some directory that exists everywhere.
func mountBase() (string, error) {
	for _, dir := range []string{"/tmp", "/mnt", "/run", "/var", "/etc"} {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID, "mode=0755,size=4m,nr_inodes=16k")
		if err != nil {
			return "", fmt.Errorf("mount root: %w", err)
		}
		return dir, nil
	}
	return "", errors.New("mount root: no directory to mount on")
}

// makeScratch mounts the one size-limited file system that holds the working directory and /tmp.
func makeScratch(base string, spec rootSpec) error {
	hold := filepath.Join(base, ".hold")
	if err := os.Mkdir(hold, 0o700); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", hold, "tmpfs", flags, scratchOptions(spec)); err != nil {
		return fmt.Errorf("mount scratch: %w", err)
	}
	for name, target := range map[string]string{"scratch": scratchDir, "tmp": tmpDir} {
		from, to := filepath.Join(hold, name), filepath.Join(base, target)
		if err := errors.Join(os.Mkdir(from, 0o700), os.Mkdir(to, 0o755), os.Chown(from, spec.Owner, spec.Owner)); err != nil {
			return err
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", target, err)
		}
	}
	if err := unix.Unmount(hold, unix.MNT_DETACH); err != nil {
		return err
	}
	return os.Remove(hold)
}

func scratchOptions(spec rootSpec) string {
	if spec.Off["scratch"] {
		return "mode=0755,size=64m,nr_inodes=64k"
	}
	return fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", spec.ScratchBytes, 16<<10)
}

// makeTemplate makes the mount points of sessions, and a /tmp for what the zygote's imports write.
func makeTemplate(base string, _ rootSpec) error {
	for _, dir := range []string{scratchDir, tmpDir} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("tmpfs", filepath.Join(base, tmpDir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=64m")
}

// makeFiles writes the few files of the root itself.
func makeFiles(base string, spec rootSpec) error {
	if err := errors.Join(os.MkdirAll(filepath.Join(base, dataDir), 0o755), os.MkdirAll(filepath.Join(base, "etc"), 0o755)); err != nil {
		return err
	}
	for name, text := range map[string]string{
		canaryFile:    "canary",
		"/etc/passwd": fmt.Sprintf("session:x:%d:%d::%s:/nonexistent\n", spec.Owner, spec.Owner, scratchDir),
	} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o444); err != nil {
			return err
		}
	}
	return nil
}

// mountProc mounts a /proc of this pid namespace, without what is not about processes where the
// kernel can do that. Hosts that hide parts of their own /proc refuse it; sessions do without.
func mountProc(base string, spec rootSpec) error {
	at := filepath.Join(base, "proc")
	if err := os.MkdirAll(at, 0o555); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, opts := range []string{"subset=pid,hidepid=2", "hidepid=2"} {
		if unix.Mount("proc", at, "proc", flags, opts) == nil {
			return nil
		}
	}
	return nil
}

// enter makes base the root, lets go of the old one and makes the new one read-only.
func enter(base string, sentry bool) error {
	if err := unix.Chdir(base); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr)
	if err == unix.ENOSYS && sentry {
		err = unix.Mount("", "/", "", remount|mountFlags(attr.Attr_set), "")
	}
	if err != nil {
		return fmt.Errorf("read-only root: %w", err)
	}
	return nil
}

// outermost sorts paths and drops those that lie inside another.
func outermost(paths []string) []string {
	sorted := append([]string(nil), paths...)
	sort.Strings(sorted)
	var out []string
	for _, p := range sorted {
		p = filepath.Clean(p)
		inside := false
		for _, o := range out {
			inside = inside || p == o || strings.HasPrefix(p, o+"/")
		}
		if !inside {
			out = append(out, p)
		}
	}
	return out
}
