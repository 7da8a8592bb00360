#!/bin/bash
# The first process of the machine that cgroup2.sh starts. Arguments: the directory of this repository, and what to run.
export PATH=/usr/bin:/usr/sbin HOME=/root LANG=C.UTF-8
cd "$1" && what=$2
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs -o size=3g tmpfs /tmp && chmod 1777 /tmp /dev/shm && mount -t tmpfs tmpfs /run
.venv/sandbox/bin/python - <<'P'
import fcntl, socket, struct
s = socket.socket()
fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x41))  # the loopback interface is up
P
echo "$(uname -sr); control groups: $(cat /sys/fs/cgroup/cgroup.controllers); security modules: $(cat /sys/kernel/security/lsm 2>/dev/null || (mount -t securityfs securityfs /sys/kernel/security && cat /sys/kernel/security/lsm))"

# A group for the supervisor, as systemd makes one with Delegate=yes; whatever runs there replaces the shell, so that it is alone in it.
echo '+memory +pids' >/sys/fs/cgroup/cgroup.subtree_control
delegated() { # delegated NAME COMMAND...
  mkdir "/sys/fs/cgroup/$1"
  (echo "$BASHPID" >"/sys/fs/cgroup/$1/cgroup.procs" && shift && exec "$@")
}

failed=0
export SANDBOX_TEST_OWN_MOUNTS=1
delegated check bin/verigraph sandbox check || failed=1
cd sandbox || failed=1
case $what in
groups)
  delegated tests ./sandbox.test -test.v -test.run 'Group|Version2|MemoryBomb|EveryLimit|WhenMemoryIsShort|AKillThatIsNotOurs' || failed=1
  SANDBOX_TEST_ENGINE=zygote delegated cells ./sandbox.test -test.v -test.run 'TestHostileCells$/exhaustion' || failed=1
  ;;
cells) # the hostile cells of tier strict in forked sessions, as root and as an unprivileged user
  SANDBOX_TEST_ENGINE=zygote delegated tests ./sandbox.test -test.v -test.timeout 60m -test.run 'TestHostileCells$|TestHostileCellsOfAnUnprivilegedUser' || failed=1
  ;;
hostile-*) # hostile-zygote and hostile-fresh: what make hostile runs, on one engine
  export SANDBOX_TEST_ALL=1 SANDBOX_TEST_ENGINE=${what#hostile-}
  delegated tests ./sandbox.test -test.v -test.timeout 60m -test.run 'Hostile|Limit|Message|Ended|Interrupt|Group|Version2' || failed=1
  ;;
esac
[ "$failed" = 0 ] && echo 'all of it passed'
sleep 1
echo o >/proc/sysrq-trigger
sleep 60
