/* Which entries of a dict (sys.modules, builtins) changed since the zygote forked. Python can't ask without
 * counting a reference to each of thousands of modules, and every count written is a page copied:
 * 8 MiB a session. Pointers are compared here and nothing is written. */
#include "zygote.h"

#include <stdlib.h>
#include <sys/types.h>

extern int PyDict_Next(void *dict, ssize_t *at, void **key, void **value);

struct entry {
	void *key, *value;
};
static struct table {
	struct entry *kept;
	size_t mask;
	void *dict;
} tables[2];

static struct entry *find(const struct table *t, void *key)
{
	size_t i = ((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15ull >> 20;
	while (t->kept[i & t->mask].key && t->kept[i & t->mask].key != key)
		i++;
	return &t->kept[i & t->mask];
}

/* vg_keep remembers the entries; the zygote keeps them alive. */
int vg_keep(int which, void *dict)
{
	struct table *t = &tables[which];
	t->dict = dict;
	void *key, *value;
	size_t n = 0;
	for (ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
		n++;
	for (t->mask = 64; t->mask < 4 * n;)
		t->mask *= 2;
	t->kept = calloc(t->mask--, sizeof *t->kept);
	if (!t->kept)
		return -1;
	for (ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
		*find(t, key) = (struct entry){key, value};
	return 0;
}

/* vg_changes writes the keys (borrowed) of entries that are new or name another object than then. */
size_t vg_changes(int which, void *dict, void **out, size_t max)
{
	const struct table *t = &tables[which];
	void *key, *value;
	size_t n = 0;
	for (ssize_t at = 0; t->kept && n < max && PyDict_Next(dict, &at, &key, &value);)
		if (find(t, key)->value != value)
			out[n++] = key;
	return n;
}

/* vg_rebound tells whether an entry of the second dict changed: asked in every cell, so that it takes no arguments
 * to convert. */
int vg_rebound(void)
{
	void *key;
	return (int)vg_changes(1, tables[1].dict, &key, 1);
}
