/* SPDX-License-Identifier: Apache-2.0 */
#include "number.h"

#include <rte_errno.h>
#include <rte_mbuf.h>

int number_at = -1;

int mirror_prepare(void)
{
	static const struct rte_mbuf_dynfield field = {
		.name = "causeway_mirror", .size = sizeof(uint64_t), .align = __alignof__(uint64_t)};
	if (number_at < 0)
		number_at = rte_mbuf_dynfield_register(&field);
	return number_at < 0 ? -rte_errno : 0;
}

void mirror_prepare_at(int offset)
{
	number_at = offset;
}

/* Packets are counted in a register. */
void number_frames(struct worker *w, struct rte_mbuf **m, unsigned n)
{
	uint64_t packets = w->packets_numbered;
	for (unsigned i = 0; i < n; i++)
		*number_of(m[i]) = numbered(w, ++packets);
	w->packets_numbered = packets;
}

void number_messages(struct worker *w, const struct ib_recv *r, unsigned n)
{
	uint64_t packets = w->packets_numbered;
	for (unsigned i = 0; i < n; i++)
		*number_of(r[i].mbuf) = numbered(w, ++packets);
	w->packets_numbered = packets;
}
