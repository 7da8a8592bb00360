package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// sessionID is the uid and gid that a session sees itself as.
	sessionID = 1000
	// firstOuterID starts the host ids that sessions run as when we are root, a range for each
	// supervisor and an id for each live session. They own nothing, and none is shared: limits that the kernel counts by user
	// (RLIMIT_NPROC is not even enforced for root) stay one session's own.
	firstOuterID = 1_610_612_736
	maxSlots     = 10_000
	// zygoteIDs is the size of a range: sessions that live and those that wait ready, of all sandboxes of
	// this process.
	zygoteIDs = 1 << 14
)

// idMapping says which ids a session has on the host.
type idMapping struct {
	uids, gids []syscall.SysProcIDMap
	// switches: the session's init leaves its first id for sessionID.
	switches bool
}

// mapIDs maps the ids of a session: id is its index in this process's range. As root the init keeps our id to build the mounts
// and then becomes an id that owns nothing. Otherwise only our own id can be mapped.
func mapIDs(id uint32, ranged bool) idMapping {
	if !ranged {
		one := func(host int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: 1}}
		}
		return idMapping{uids: one(os.Geteuid()), gids: one(os.Getegid())}
	}
	two := []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: 0, Size: 1},
		{ContainerID: sessionID, HostID: firstHostID() + int(id), Size: 1},
	}
	return idMapping{uids: two, gids: two, switches: true}
}

// mapZygote maps the ids of a zygote: 0 to build mounts as, and from 1 on one for each session.
func mapZygote(ranged bool) idMapping {
	if !ranged {
		return mapIDs(0, false)
	}
	two := []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: 0, Size: 1},
		{ContainerID: 1, HostID: firstHostID(), Size: zygoteIDs},
	}
	return idMapping{uids: two, gids: two, switches: true}
}

// canMapRange reports whether we are root over every range that mapIDs may want.
func canMapRange() bool {
	return os.Geteuid() == 0 && os.Getegid() == 0 &&
		covers("/proc/self/uid_map", firstOuterID, idRanges*zygoteIDs) && covers("/proc/self/gid_map", firstOuterID, idRanges*zygoteIDs)
}

// refusePrivilegedPod refuses a pod that holds SYS_ADMIN over its node: a session that broke out there
// would own the node, and the namespaces work without it.
func refusePrivilegedPod() error {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" && hasCapability(unix.CAP_SYS_ADMIN) && covers("/proc/self/uid_map", 0, 1<<32-1) {
		return errors.New("sandbox: this pod holds SYS_ADMIN without a user namespace of its own: drop the capability or set hostUsers: false")
	}
	return nil
}

func covers(path string, first, count int64) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var inside, outside, size int64
		if _, err := fmt.Sscan(s.Text(), &inside, &outside, &size); err == nil &&
			inside <= first && first+count <= inside+size {
			return true
		}
	}
	return false
}
