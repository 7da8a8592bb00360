package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// gVisor copies directories by open_tree but no file, and has no mount_setattr. There a source is bound from its descriptor,
// which also reaches what the new root hides, and gets its flags afterwards; nobody is in the tree yet.

const remount = unix.MS_REMOUNT | unix.MS_BIND

// openLate is openSource for such a kernel.
func openLate(path, target string, attr uint64, keepLink bool) (source, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return source{}, err
	}
	if keepLink && info.Mode()&os.ModeSymlink != 0 {
		link, err := os.Readlink(path)
		return source{fd: -1, link: link, target: target}, err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return source{}, fmt.Errorf("open %s: %w", path, err)
	}
	if info, err = os.Stat(path); err != nil {
		unix.Close(fd)
		return source{}, err
	}
	return source{fd: fd, dir: info.IsDir(), target: target, late: attr}, nil
}

// mount puts the source at a path.
func (s source) mount(at string) error {
	if s.late == 0 {
		return unix.MoveMount(s.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	// Recursive: a mount below ours that hides something must come along, hidden part and all.
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", s.fd), at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return restrictBelow(at, s.late)
}

// restrictBelow sets the flags of the mount at a path and of all below it.
func restrictBelow(at string, attr uint64) error {
	table, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	found := false
	for _, point := range mountPoints(string(table)) {
		if point != at && !strings.HasPrefix(point, at+"/") {
			continue
		}
		found = true
		if err := unix.Mount("", point, "", remount|mountFlags(attr), ""); err != nil {
			return fmt.Errorf("restrict %s: %w", point, err)
		}
	}
	if !found {
		return errors.New("it is no mount")
	}
	return nil
}

// mountPoints reads a mountinfo (proc(5)): number, parent, device, root, mount point, in which some characters are octal.
func mountPoints(table string) []string {
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []string
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 4 {
			out = append(out, plain.Replace(fields[4]))
		}
	}
	return out
}

// mountFlags are the attributes of mount_setattr as flags of mount.
func mountFlags(attr uint64) (flags uintptr) {
	for has, flag := range map[uint64]uintptr{
		unix.MOUNT_ATTR_RDONLY: unix.MS_RDONLY, unix.MOUNT_ATTR_NOSUID: unix.MS_NOSUID,
		unix.MOUNT_ATTR_NODEV: unix.MS_NODEV, unix.MOUNT_ATTR_NOEXEC: unix.MS_NOEXEC,
	} {
		if attr&has != 0 {
			flags |= flag
		}
	}
	return flags
}
