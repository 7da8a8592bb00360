/* Pages. A copy-on-write fault costs a session several times what populating the page costs, and a
 * forked page table of huge pages saves the first touch of each small one; so the zygote's heap is
 * collapsed once, and a session populates what a measured first cell dirtied, before it runs. */
#define _GNU_SOURCE
#include "zygote.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { PAGE = 4096 };
static const uint64_t huge = 2u << 20;

/* walk calls visit for every private writable mapping. */
static void walk(void (*visit)(uint64_t start, uint64_t end, int anonymous, void *arg), void *arg)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	if (!maps)
		return;
	while (fgets(line, sizeof line, maps)) {
		unsigned long start, end, inode;
		char perms[8];
		if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &start, &end, perms, &inode) == 4 && perms[1] == 'w' && perms[3] == 'p')
			visit(start, end, inode == 0, arg);
	}
	fclose(maps);
}

static void collapse_one(uint64_t start, uint64_t end, int anonymous, void *arg)
{
	size_t *count = arg;
	if (!anonymous)
		return;
	for (uint64_t at = (start + huge - 1) & ~(huge - 1); at + huge <= end; at += huge)
		if (madvise((void *)(uintptr_t)at, huge, MADV_COLLAPSE) == 0)
			++*count;
}

/* vg_collapse returns how many huge pages the heap is on now. A kernel without the call gives none. */
size_t vg_collapse(void)
{
	size_t count = 0;
	walk(collapse_one, &count);
	return count;
}

struct list {
	uint64_t *out;
	size_t max, count;
	int pagemap;
};

static void private_one(uint64_t start, uint64_t end, int anonymous, void *arg)
{
	struct list *l = arg;
	uint64_t entries[512];
	(void)anonymous; /* a written page of a private file mapping is ours too */
	for (uint64_t at = start; at < end; at += sizeof entries / sizeof *entries * PAGE) {
		size_t want = (end - at) / PAGE;
		if (want > sizeof entries / sizeof *entries)
			want = sizeof entries / sizeof *entries;
		ssize_t n = pread(l->pagemap, entries, want * 8, (off_t)(at / PAGE * 8));
		for (ssize_t i = 0; i < n / 8; i++) {
			/* present, exclusively ours, and not a page of a file */
			if (!(entries[i] >> 63 & 1) || !(entries[i] >> 56 & 1) || (entries[i] >> 61 & 1))
				continue;
			uint64_t page = at + (uint64_t)i * PAGE;
			if (l->count && l->out[2 * l->count - 2] + l->out[2 * l->count - 1] == page)
				l->out[2 * l->count - 1] += PAGE;
			else if (l->count < l->max) {
				l->out[2 * l->count] = page;
				l->out[2 * l->count + 1] = PAGE;
				l->count++;
			}
		}
	}
}

/* vg_private_pages writes the ranges (address, length) that a forked child no longer shares. */
size_t vg_private_pages(uint64_t *out, size_t max)
{
	struct list l = {out, max, 0, open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
	if (l.pagemap < 0)
		return 0;
	walk(private_one, &l);
	close(l.pagemap);
	return l.count;
}

/* vg_prefault says which ranges sessions populate; the zygote keeps the array. */
void vg_prefault(const uint64_t *ranges, size_t count)
{
	zygote.pages = (uint64_t *)ranges;
	zygote.pages_count = count;
}

void prefault(void)
{
	/* A range that is no longer mapped is an error that changes nothing. */
	for (size_t i = 0; i < zygote.pages_count; i++)
		(void)madvise((void *)(uintptr_t)zygote.pages[2 * i], zygote.pages[2 * i + 1], MADV_POPULATE_WRITE);
}
