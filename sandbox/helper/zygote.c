/* The serve loop. One request is one fork; the reply carries the pid and a pidfd. */
#define _GNU_SOURCE
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif

struct zygote zygote;

struct request {
	uint32_t id;    /* index of the session's own id */
	uint32_t flags; /* handed to Python in the session */
};

struct reply {
	int32_t pid;
	int32_t error; /* errno, or 0 */
	int32_t threads;
};

const struct record *next_record(size_t *at)
{
	if (*at + sizeof(struct record) > zygote.plan_length)
		return NULL;
	const struct record *r = (const void *)(zygote.plan + *at);
	size_t size = sizeof *r + ((r->length + 7u) & ~7u);
	if (*at + size > zygote.plan_length)
		return NULL;
	*at += size;
	return r;
}

/* The link count of the directory is 2 + threads: one system call, where /proc/self/status costs 40. */
int vg_threads(void)
{
	struct stat st;
	if (zygote.tasks == 0)
		zygote.tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (zygote.tasks < 0 || fstat(zygote.tasks, &st) < 0)
		return -1;
	return (int)st.st_nlink - 2;
}

/* fork_raw is fork(2) without the library's handlers: nothing they look after exists in a process
 * with one thread. What glibc itself keeps is the thread id at the address that the kernel knows;
 * recursive mutexes would take a stale one for another thread's. */
static long fork_raw(uint64_t flags, int *pidfd)
{
	void *tid = NULL;
	struct clone_args args = {.flags = flags, .pidfd = (uint64_t)(uintptr_t)pidfd};
	if (prctl(PR_GET_TID_ADDRESS, &tid) == 0 && tid != NULL) {
		args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
		args.child_tid = (uint64_t)(uintptr_t)tid;
	}
	if (!(flags & CLONE_PARENT))
		args.exit_signal = 17; /* SIGCHLD */
	long pid = syscall(SYS_clone3, &args, sizeof args);
	if (pid >= 0 || errno != ENOSYS)
		return pid;
	/* The container runtimes' seccomp profile hides clone3, whose flags a filter can't read. */
	flags = args.flags | args.exit_signal;
#if defined(__x86_64__)
	return syscall(SYS_clone, flags, NULL, pidfd, tid, 0);
#else
	return syscall(SYS_clone, flags, NULL, pidfd, 0, tid);
#endif
}

/* vg_fork makes a child of the zygote itself, for measuring what a first cell touches. */
int vg_fork(void)
{
	return (int)fork_raw(0, NULL);
}

static int write_file(const char *path, const char *text, size_t n)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t done = write(fd, text, n);
	int error = errno;
	close(fd);
	errno = error;
	return done == (ssize_t)n ? 0 : -1;
}

/* map_ids gives a session one id of its own, and no other: not even ours exists inside. */
static int map_ids(long pid, uint32_t index)
{
	char path[64], map[64];
	uint32_t outside = zygote.id_first + (zygote.id_by_session ? index : 0);
	int n = snprintf(map, sizeof map, "%u %u 1\n", zygote.id_inside, outside);
	static const char *const files[] = {"uid_map", "gid_map"};
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "/proc/%ld/%s", pid, files[i]);
		if (write_file(path, map, (size_t)n) < 0)
			return -1;
	}
	return 0;
}

/* What comes with a request: the session's control socket, its output pipe and its plan. */
enum { FD_CONTROL, FD_OUTPUT, FD_PLAN, FDS };

static ssize_t receive(struct request *req, int fds[FDS])
{
	char space[CMSG_SPACE(FDS * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = {req, sizeof *req};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	ssize_t n;
	do
		n = recvmsg(CONTROL, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	for (int i = 0; i < FDS; i++)
		fds[i] = -1;
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (n > 0 && c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(FDS * sizeof(int)))
		memcpy(fds, CMSG_DATA(c), FDS * sizeof(int));
	return n;
}

static int answer(const struct reply *rep, int pidfd)
{
	char space[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
	struct iovec iov = {(void *)rep, sizeof *rep};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (pidfd >= 0) {
		msg.msg_control = space;
		msg.msg_controllen = sizeof space;
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pidfd, sizeof(int));
	}
	ssize_t n;
	do
		n = sendmsg(CONTROL, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

/* spawn returns 0 in the session. The session's parent is our own parent (CLONE_PARENT): the
 * supervisor reaps it, and it outlives the zygote. */
static int spawn(const struct request *req, const int fds[FDS], struct reply *rep, int *pidfd)
{
	int gate[2];
	rep->threads = vg_threads();
	if (rep->threads != 1 || fds[0] < 0) {
		rep->error = EBUSY;
		return 1;
	}
	if (pipe2(gate, O_CLOEXEC) < 0) {
		rep->error = errno;
		return 1;
	}
	long pid = fork_raw((zygote.namespaces ? CLONE_NEWUSER | CLONE_NEWPID : 0) | CLONE_PARENT | CLONE_PIDFD, pidfd);
	if (pid == 0) {
		close(gate[1]);
		isolate(gate[0], fds[FD_CONTROL], fds[FD_OUTPUT], fds[FD_PLAN]);
		return 0;
	}
	rep->error = pid < 0 ? errno : 0;
	close(gate[0]);
	if (pid > 0) {
		rep->pid = (int32_t)pid;
		/* A session whose gate closes without a byte ends itself. */
		if ((zygote.namespaces && map_ids(pid, req->id) < 0) || write(gate[1], "", 1) != 1)
			rep->error = errno;
	} else {
		*pidfd = -1;
	}
	close(gate[1]);
	return 1;
}

/* vg_version tells the Python side that it fits. */
int vg_version(void)
{
	return 2;
}

/* vg_serve returns in sessions only, isolated but not yet claimed, with the request's flags. */
int vg_serve(uint32_t id_inside, uint32_t id_first, uint32_t id_by_session, uint32_t namespaces)
{
	zygote.namespaces = namespaces;
	zygote.id_inside = id_inside;
	zygote.id_first = id_first;
	zygote.id_by_session = id_by_session;
	for (;;) {
		struct request req;
		struct reply rep = {0};
		int fds[FDS], pidfd = -1;
		ssize_t n = receive(&req, fds);
		if (n <= 0)
			_exit(0); /* the supervisor let go */
		if (n != sizeof req)
			rep.error = EPROTO;
		else if (spawn(&req, fds, &rep, &pidfd) == 0)
			return (int)req.flags;
		if (answer(&rep, pidfd) < 0)
			_exit(1);
		for (int i = 0; i < FDS; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		if (pidfd >= 0)
			close(pidfd);
	}
}
