/* SPDX-License-Identifier: Apache-2.0 */
#include "transmit.h"

void transmit_split(struct worker *w, const struct departure *d)
{
	for (unsigned port = 0; port < w->datapath->ports; port++) {
		struct message message[BURST];
		bool to_group[BURST];
		struct departure own = {message, d->to_group ? to_group : NULL, 0, d->began};
		for (unsigned i = 0; i < d->n; i++) {
			if (port_index(w->datapath, d->message[i].recv->mbuf) != port)
				continue;
			if (d->to_group)
				to_group[own.n] = d->to_group[i];
			message[own.n++] = d->message[i];
		}
		if (own.n)
			transmit_by(w, port, &own);
	}
}
