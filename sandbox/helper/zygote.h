/* The part of the zygote that must not be Python: a loop that forks sessions without touching the
 * interpreter's heap (every page it dirtied would be copied by every session), and the steps that
 * lock a session down between its fork and its first byte of model code.
 *
 * Invariant: the process that serves runs no model code and never returns from vg_serve; the process
 * that does return is a session, and after vg_claim it holds no capability and no descriptor but
 * 0 to 3. */
#ifndef VERIGRAPH_ZYGOTE_H
#define VERIGRAPH_ZYGOTE_H

#include <stddef.h>
#include <stdint.h>

/* Descriptor 3 is the request socket in the zygote and the control socket in a session. */
enum { CONTROL = 3 };

/* The plan of a session is a list of records: u32 kind, u32 length, body padded to 8. It comes as a
 * file with the request, so that sandboxes with different limits share one zygote. */
enum record_kind {
	PLAN_SCRATCH = 1,  /* mount options of the scratch file system */
	PLAN_RLIMIT = 2,   /* u64 resource, u64 value, name */
	PLAN_LANDLOCK = 3, /* struct landlock_ruleset_attr */
	PLAN_PATH = 4,     /* u64 access, path */
	PLAN_FILTER = 5,   /* struct sock_filter[] */
	PLAN_DIRECTORY = 6, /* working directory, where there are no mounts of the session's own */
};

/* Stands in a filter for the session's own number, which is not known before the fork. */
enum { FILTER_PID = 0x70696421 };

enum { PLAN_MAX = 32 << 10 };

struct record {
	uint32_t kind, length;
	unsigned char body[];
};

/* next_record returns the record after *at, or NULL at the end. */
const struct record *next_record(size_t *at);

/* What the zygote knows and its sessions inherit. */
struct zygote {
	unsigned char plan[PLAN_MAX] __attribute__((aligned(8))); /* filled in the session only */
	size_t plan_length;
	uint32_t id_inside, id_first, id_by_session; /* the id in a session, and outside: the first, and whether each session has its own */
	uint32_t namespaces; /* whether sessions have a user, a pid and a mount namespace of their own */
	int tasks; /* /proc/self/task, to count threads; 0 before it is open */
	uint64_t *pages; /* ranges that a first cell dirties: address, length */
	size_t pages_count;
};
extern struct zygote zygote;

/* fail tells the supervisor, in a frame of the session's protocol, why it can't be. */
_Noreturn void fail(const char *step, const char *detail, int error);

/* isolate does what needs no session data; gate delivers one byte when the ids are mapped. */
void isolate(int gate, int control, int output, int plan);

/* Called from Python. */
int vg_version(void);
int vg_serve(uint32_t id_inside, uint32_t id_first, uint32_t id_by_session, uint32_t namespaces);
void vg_claim(void);
int vg_threads(void);
int vg_fork(void);
void vg_regions(void);
void vg_seal(void);
size_t vg_merge(void);
size_t vg_collapse(void);
size_t vg_private_pages(uint64_t *out, size_t max);
void vg_prefault(const uint64_t *ranges, size_t count);
int vg_keep(int which, void *dict);
size_t vg_changes(int which, void *dict, void **out, size_t max);
int vg_rebound(void);

void prefault(void);

#endif
