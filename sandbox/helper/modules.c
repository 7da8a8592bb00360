/* Which entries of a dict (sys.modules) changed since the zygote forked. Python can't ask without
 * counting a reference to each of thousands of modules, and every count written is a page copied:
 * 8 MiB a session. Pointers are compared here and nothing is written. */
#include "zygote.h"

#include <stdlib.h>
#include <sys/types.h>

extern int PyDict_Next(void *dict, ssize_t *at, void **key, void **value);

static struct entry {
	void *key, *value;
} *kept;
static size_t mask;

static struct entry *find(void *key)
{
	size_t i = ((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15ull >> 20;
	while (kept[i & mask].key && kept[i & mask].key != key)
		i++;
	return &kept[i & mask];
}

/* vg_keep remembers the entries; the zygote keeps them alive. */
int vg_keep(void *dict)
{
	void *key, *value;
	size_t n = 0;
	for (ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
		n++;
	for (mask = 64; mask < 4 * n;)
		mask *= 2;
	kept = calloc(mask--, sizeof *kept);
	if (!kept)
		return -1;
	for (ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
		*find(key) = (struct entry){key, value};
	return 0;
}

/* vg_changes writes the keys (borrowed) of entries that are new or name another object than then. */
size_t vg_changes(void *dict, void **out, size_t max)
{
	void *key, *value;
	size_t n = 0;
	for (ssize_t at = 0; kept && n < max && PyDict_Next(dict, &at, &key, &value);)
		if (find(key)->value != value)
			out[n++] = key;
	return n;
}
