/* What a session does to itself, in this order: the ids, the mounts, the limits, the bounding set;
 * then, once it is claimed, the data; then everything that can't be undone. */
#define _GNU_SOURCE
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 4
#endif

void fail(const char *step, const char *detail, int error)
{
	char body[512];
	unsigned char frame[4 + sizeof body];
	int n = snprintf(body, sizeof body, "{\"failed\":{\"error\":\"zygote: %s%s%s: %s\"}}", step, *detail ? ": " : "", detail, strerror(error));
	if (n >= (int)sizeof body)
		n = snprintf(body, sizeof body, "{\"failed\":{\"error\":\"zygote: %s: %s\"}}", step, strerror(error));
	frame[0] = frame[1] = 0;
	frame[2] = (unsigned char)(n >> 8);
	frame[3] = (unsigned char)n;
	memcpy(frame + 4, body, (size_t)n);
	(void)!write(CONTROL, frame, 4 + (size_t)n);
	_exit(1);
}

static void must(int result, const char *step)
{
	if (result < 0)
		fail(step, "", errno);
}

/* take_descriptors reads the plan and leaves 0 (null), 1 and 2 (output) and 3 (control). */
static void take_descriptors(int control, int output, int plan)
{
	ssize_t n = pread(plan, zygote.plan, sizeof zygote.plan, 0);
	/* Ours are above 3: the zygote holds 0 to 3 itself. */
	if (dup3(control, CONTROL, O_CLOEXEC) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0)
		_exit(1);
	must((int)n, "plan");
	zygote.plan_length = (size_t)n;
	must(close_range(CONTROL + 1, ~0u, 0), "descriptors");
}

/* take_id becomes the one id there is, and keeps capabilities for the mounts. */
static void take_id(void)
{
	uint32_t id = zygote.id_inside;
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_CAP_AMBIENT_RAISE;
	must(prctl(PR_SET_SECUREBITS, bits, 0, 0, 0), "secure bits");
	if (zygote.id_by_session) {
		must((int)syscall(SYS_setgroups, 0, NULL), "groups");
		must((int)syscall(SYS_setresgid, id, id, id), "gid");
		must((int)syscall(SYS_setresuid, id, id, id), "uid");
	}
	/* A change of uid clears both: /proc/self must stay readable, and the session must die with its
	 * supervisor. */
	must(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable");
	must(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "parent death signal");
	must((int)setsid(), "session");
}

static void directory(const char *path, mode_t mode)
{
	if (mkdir(path, mode) < 0)
		fail("directory", path, errno);
}

static void mount_at(const char *source, const char *target, const char *type, unsigned long flags, const char *options)
{
	if (mount(source, target, type, flags, options) < 0)
		fail("mount", target, errno);
}

/* build_mounts: one size-limited file system holds the working directory, /tmp and the mount points
 * of the data; its own root ends up below /tmp, where nothing reaches it. */
static void build_mounts(void)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	char options[128] = "";
	size_t at = 0;
	for (const struct record *r; (r = next_record(&at)) != NULL;)
		if (r->kind == PLAN_SCRATCH && r->length < sizeof options)
			memcpy(options, r->body, r->length);
	must(unshare(CLONE_NEWNS), "mount namespace");
	mount_at("tmpfs", "/tmp", "tmpfs", flags, options);
	directory("/tmp/scratch", 0700);
	directory("/tmp/tmp", 0700);
	directory("/tmp/data", 0755);
	mount_at("/tmp/scratch", "/scratch", NULL, MS_BIND, NULL);
	mount_at("/tmp/data", "/data", NULL, MS_BIND, NULL);
	mount_at("/tmp/tmp", "/tmp", NULL, MS_BIND, NULL);
	/* The zygote's own /proc must never show: where a new one can't be mounted, nothing covers it. */
	if (mount("proc", "/proc", "proc", flags, "subset=pid,hidepid=2") < 0 && mount("proc", "/proc", "proc", flags, "hidepid=2") < 0)
		mount_at("tmpfs", "/proc", "tmpfs", flags | MS_RDONLY, "size=4k,nr_inodes=2,mode=0555");
	must(chdir("/scratch"), "working directory");
}

/* take_place is what a session without mounts and ids of its own does in their stead. */
static void take_place(void)
{
	size_t at = 0;
	must(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable");
	must(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "parent death signal");
	must((int)setsid(), "session");
	for (const struct record *r; (r = next_record(&at)) != NULL;)
		if (r->kind == PLAN_DIRECTORY)
			must(chdir((const char *)r->body), "working directory");
}

static void set_limits(void)
{
	size_t at = 0;
	for (const struct record *r; (r = next_record(&at)) != NULL;) {
		if (r->kind != PLAN_RLIMIT)
			continue;
		uint64_t v[2];
		memcpy(v, r->body, sizeof v);
		struct rlimit lim = {v[1], v[1]};
		if (setrlimit((int)v[0], &lim) < 0)
			fail("rlimits", (const char *)r->body + sizeof v, errno);
	}
}

static void drop_bounding_set(void)
{
	for (int c = 0; c < 64; c++)
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0) {
			if (errno == EINVAL || (errno == EPERM && !zygote.namespaces))
				return;
			fail("bounding set", "", errno);
		}
}

void isolate(int gate, int control, int output, int plan)
{
	char byte;
	ssize_t n;
	do
		n = read(gate, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(1);
	take_descriptors(control, output, plan);
	if (zygote.namespaces) {
		take_id();
		build_mounts();
	} else {
		take_place();
	}
	set_limits();
	drop_bounding_set();
	prefault();
}

/* A claim is a list of messages on the control socket: u32 kind, u32 length, a name. */
enum { CLAIM_FILE = 1, CLAIM_GO = 2 };

static void read_all(void *to, size_t n)
{
	for (char *p = to; n > 0;) {
		ssize_t got = read(CONTROL, p, n);
		if (got == 0)
			_exit(0);
		if (got < 0 && errno == EINTR)
			continue;
		must((int)got, "claim");
		p += got;
		n -= (size_t)got;
	}
}

/* read_message returns the kind; a mount comes with its message's first byte. */
static uint32_t read_message(char *name, size_t size, int *mount)
{
	uint32_t head[2];
	char space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = {head, sizeof head};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	ssize_t n;
	do
		n = recvmsg(CONTROL, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		_exit(0); /* never claimed */
	must((int)n, "claim");
	*mount = -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(mount, CMSG_DATA(c), sizeof(int));
	read_all((char *)head + n, sizeof head - (size_t)n);
	if (head[1] >= size)
		fail("claim", "a long name", EPROTO);
	read_all(name, head[1]);
	name[head[1]] = 0;
	return head[0];
}

/* mount_point makes an empty file at path, and the directories above it. */
static void mount_point(char *path, size_t skip)
{
	for (char *s = path + skip; (s = strchr(s, '/')) != NULL; s++) {
		*s = 0;
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			fail("data directory", path, errno);
		*s = '/';
	}
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
	if (fd < 0)
		fail("data file", path, errno);
	close(fd);
}

/* attach_file puts a read-only mount of one host file at /data/NAME and /scratch/NAME. */
static void attach_file(int mount_fd, const char *name)
{
	char data[300], scratch[300];
	snprintf(data, sizeof data, "/data/%s", name);
	snprintf(scratch, sizeof scratch, "/scratch/%s", name);
	mount_point(data, sizeof "/data/" - 1);
	mount_point(scratch, sizeof "/scratch/" - 1);
	if (syscall(SYS_move_mount, mount_fd, "", AT_FDCWD, data, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		fail("attach", data, errno);
	close(mount_fd);
	mount_at(data, scratch, NULL, MS_BIND, NULL);
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		fail("ambient set", "", errno);
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	/* Without namespaces we may have been unprivileged all along: then there is nothing to lose at an exec. */
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 && (errno != EPERM || zygote.namespaces))
		fail("secure bits", "", errno);
	must((int)syscall(SYS_capset, &head, none), "capabilities");
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
}

static const uint64_t file_rights = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE | (1ULL << 14) /* truncate */;

static void allow_path(int ruleset, const struct record *r)
{
	uint64_t access;
	const char *path = (const char *)r->body + sizeof access;
	memcpy(&access, r->body, sizeof access);
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return; /* a path that is not there grants nothing */
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		fail("landlock: rule", path, errno);
	struct landlock_path_beneath_attr rule = {S_ISDIR(st.st_mode) ? access : access & file_rights, fd};
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		fail("landlock: rule", path, errno);
	close(fd);
}

static void restrict_paths(void)
{
	size_t at = 0;
	int ruleset = -1;
	for (const struct record *r; (r = next_record(&at)) != NULL;) {
		if (r->kind == PLAN_LANDLOCK)
			must(ruleset = (int)syscall(SYS_landlock_create_ruleset, r->body, (size_t)r->length, 0), "landlock");
		else if (r->kind == PLAN_PATH && ruleset >= 0)
			allow_path(ruleset, r);
	}
	if (ruleset < 0)
		return;
	must((int)syscall(SYS_landlock_restrict_self, ruleset, 0), "landlock");
	close(ruleset);
}

static void load_filter(void)
{
	size_t at = 0;
	for (const struct record *r; (r = next_record(&at)) != NULL;) {
		if (r->kind != PLAN_FILTER)
			continue;
		struct sock_filter *code = (void *)r->body;
		for (size_t i = 0; i < r->length / sizeof *code; i++)
			if (code[i].k == FILTER_PID)
				code[i].k = (uint32_t)getpid();
		struct sock_fprog prog = {(unsigned short)(r->length / sizeof(struct sock_filter)), code};
		must((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog), "seccomp");
	}
}

/* vg_claim waits for the claim, attaches its data and closes every door. The order matters: mounts
 * need capabilities, Landlock forbids mounts and needs the final paths, seccomp forbids most of the
 * steps before it. */
void vg_claim(void)
{
	char name[256];
	int mount_fd;
	for (uint32_t kind; (kind = read_message(name, sizeof name, &mount_fd)) != CLAIM_GO;) {
		if (kind != CLAIM_FILE || mount_fd < 0)
			fail("claim", "unknown message", EPROTO);
		attach_file(mount_fd, name);
	}
	const unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
	if (zygote.namespaces)
		mount_at(NULL, "/data", NULL, flags, NULL);
	drop_capabilities();
	restrict_paths();
	load_filter();
}
