/* Where the zygote's memory lies. A fork copies every mapping and every small page of the heap, and an
 * exit takes them back: with one mapping for a MiB of Python objects and five for each of 400 libraries
 * that was most of a session's kernel time and slab. So the heaps are two regions that are faulted in
 * as huge pages, and the mappings of a library become two. */
#define _GNU_SOURCE
#include "zygote.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the interpreter asks for arenas (Include/cpython/objimpl.h). */
struct arenas {
	void *ctx;
	void *(*alloc)(void *ctx, size_t size);
	void (*free)(void *ctx, void *at, size_t size);
};
extern void PyObject_SetArenaAllocator(struct arenas *a);

enum { MIB = 1 << 20 };
static const size_t huge = 2 * MIB, reserved = 768u * MIB, heap_step = 192 * MIB;

/* [region, top) holds arenas; up to end more are given out, until the region is sealed. */
static char *region, *top, *end;

static void *take_arena(void *ctx, size_t size)
{
	(void)ctx;
	if (size <= (size_t)(end - top)) {
		top += size;
		return top - size;
	}
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}

static void give_arena(void *ctx, void *at, size_t size)
{
	(void)ctx;
	/* The pages of one in the region serve no other: most are shared with the zygote anyway. */
	if ((char *)at < region || (char *)at >= top)
		munmap(at, size);
}

/* take_and_give makes the allocator look at its heap; a plain free(malloc(n)) is optimised away. */
static void take_and_give(size_t n)
{
	void *volatile p = malloc(n);
	free(p);
}

/* vg_regions is called before the imports. Where it can't have a region, arenas are as they always were. */
void vg_regions(void)
{
	char *at = mmap(NULL, reserved + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return;
	region = top = (char *)(((uintptr_t)at + huge - 1) & ~(huge - 1));
	end = region + reserved;
	munmap(at, (size_t)(region - at));
	munmap(end, (size_t)(at + huge - region));
	madvise(region, reserved, MADV_HUGEPAGE);
	PyObject_SetArenaAllocator(&(struct arenas){NULL, take_arena, give_arena});

	/* The C heap: everything from one piece, which is not given back. */
	mallopt(M_MMAP_THRESHOLD, 32 * MIB);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_TOP_PAD, (int)heap_step);
	take_and_give(4 * MIB); /* grows */
	uintptr_t heap_end = (uintptr_t)sbrk(0), heap = heap_end - heap_step;
	madvise((void *)((heap + huge - 1) & ~(huge - 1)), (heap_end - heap) & ~(huge - 1), MADV_HUGEPAGE);
}

/* vg_seal is called after the imports: what sessions allocate comes from small pages of their own. */
void vg_seal(void)
{
	if (!region)
		return;
	char *cut = (char *)(((uintptr_t)top + huge - 1) & ~(huge - 1));
	munmap(cut, (size_t)(end - cut));
	end = cut;
	madvise(region, (size_t)(end - region), MADV_NOHUGEPAGE);
	mallopt(M_TOP_PAD, 128 << 10);
	mallopt(M_TRIM_THRESHOLD, MIB);
	mallopt(M_MMAP_THRESHOLD, 4 * MIB);
	take_and_give(128 << 10); /* trims */
	mallopt(M_TRIM_THRESHOLD, 32 * MIB);
}

struct mapping {
	uintptr_t start, end;
	unsigned long offset, inode;
	char perms[8];
};

static int follows(const struct mapping *a, const struct mapping *b)
{
	return a->inode && a->inode == b->inode && a->end == b->start && a->offset + (a->end - a->start) == b->offset;
}

/* vg_merge gives the neighbours of a library the same permission, so that the kernel keeps them as one
 * mapping: its read-only parts become executable, and what the loader made read-only after relocation
 * writable again. Neither was a wall: a session may run native code. It returns how many it changed. */
size_t vg_merge(void)
{
	enum { MAX = 1 << 14 };
	FILE *maps = fopen("/proc/self/maps", "re");
	struct mapping *list = mmap(NULL, MAX * sizeof *list, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t n = 0, changed = 0;
	char line[512];
	if (!maps || list == MAP_FAILED)
		return 0;
	while (n < MAX && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %7s %lx %*s %lu", &list[n].start, &list[n].end, list[n].perms, &list[n].offset, &list[n].inode) == 5)
			n++;
	fclose(maps);
	for (size_t i = 0; i < n; i++) {
		const struct mapping *m = &list[i], *before = i ? m - 1 : NULL, *after = i + 1 < n ? m + 1 : NULL;
		int to = 0;
		if (strcmp(m->perms, "r--p") != 0)
			continue;
		if (after && follows(m, after) && strcmp(after->perms, "rw-p") == 0)
			to = PROT_READ | PROT_WRITE;
		else if ((after && follows(m, after) && strcmp(after->perms, "r-xp") == 0) || (before && follows(before, m) && strcmp(before->perms, "r-xp") == 0))
			to = PROT_READ | PROT_EXEC;
		if (to && mprotect((void *)m->start, m->end - m->start, to) == 0)
			changed++;
	}
	munmap(list, MAX * sizeof *list);
	return changed;
}
