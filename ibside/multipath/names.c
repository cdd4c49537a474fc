/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of chains, with one writer and readers that take no lock. */
#include <string.h>

#include "multipath.h"

static uint64_t hash(const uint8_t *key, uint32_t tag)
{
	uint64_t a, b;

	memcpy(&a, key, 8);
	memcpy(&b, key + 8, 8);
	a = (a ^ tag) * 0x9e3779b97f4a7c15;
	a = (a ^ a >> 32 ^ b) * 0xbf58476d1ce4e5b9;
	return a ^ a >> 29;
}

static bool is(const struct name *n, const uint8_t *key, uint32_t tag)
{
	return n->tag == tag && memcmp(n->key, key, 16) == 0;
}

static uint32_t *bucket_of(const struct multipath *p, const uint8_t *key, uint32_t tag)
{
	return &p->bucket[hash(key, tag) & p->bucket_mask];
}

/* Returns where the number of the key's name lies, or the 0 that ends its chain. */
static uint32_t *find(const struct multipath *p, const uint8_t *key, uint32_t tag)
{
	uint32_t *at = bucket_of(p, key, tag), i;

	while ((i = __atomic_load_n(at, __ATOMIC_ACQUIRE)) && !is(&p->name[i], key, tag))
		at = &p->name[i].next;
	return at;
}

uint32_t multipath_name(const struct multipath *p, const uint8_t *key, uint32_t tag)
{
	uint32_t i = __atomic_load_n(bucket_of(p, key, tag), __ATOMIC_ACQUIRE);

	while (i && !is(&p->name[i], key, tag))
		i = __atomic_load_n(&p->name[i].next, __ATOMIC_ACQUIRE);
	return i ? __atomic_load_n(&p->name[i].value, __ATOMIC_ACQUIRE) : 0;
}

static uint32_t new_name(struct multipath *p)
{
	uint32_t i = p->names_free;

	if (i)
		p->names_free = p->name[i].next;
	else if (p->names_used < p->names)
		i = ++p->names_used;
	return i;
}

bool multipath_put_name(struct multipath *p, const uint8_t *key, uint32_t tag, uint32_t value)
{
	uint32_t i = *find(p, key, tag), *first = bucket_of(p, key, tag);

	if (i) {
		__atomic_store_n(&p->name[i].value, value, __ATOMIC_RELEASE);
		return true;
	}
	i = new_name(p);
	if (!i)
		return false;
	p->name[i] = (struct name){.tag = tag, .value = value, .next = *first};
	memcpy(p->name[i].key, key, 16);
	__atomic_store_n(first, i, __ATOMIC_RELEASE);
	return true;
}

void multipath_delete_name(struct multipath *p, const uint8_t *key, uint32_t tag)
{
	uint32_t *at = find(p, key, tag), i = *at;

	if (!i)
		return;
	__atomic_store_n(at, p->name[i].next, __ATOMIC_RELEASE);
	multipath_settle(p);
	p->name[i].next = p->names_free;
	p->names_free = i;
}
