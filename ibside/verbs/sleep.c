/* SPDX-License-Identifier: Apache-2.0 */
/* What wakes a worker that sleeps: completions, by the channel of its queues, and management, by the bell. */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "manage.h"
#include "queues.h"

/* Without a channel the port works, but cannot wake a worker. */
void verbs_sleep_open(struct verbs_worker *w)
{
	w->bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->channel = ibv_create_comp_channel(w->dev->ctx);
	if (w->bell.fd < 0 || !w->channel)
		return;
	int flags = fcntl(w->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(w->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return;
	w->ib_port.arm = verbs_arm;
	w->ib_port.disarm = verbs_disarm;
	w->ib_port.wake[0] = w->channel->fd;
	w->ib_port.wake[1] = w->bell.fd;
}

void verbs_sleep_close(struct verbs_worker *w)
{
	if (w->channel)
		ibv_destroy_comp_channel(w->channel);
	if (w->bell.fd >= 0)
		close(w->bell.fd);
}

void verbs_arm(void *self)
{
	struct verbs_worker *w = self;

	w->queues->arm(w);
}

void verbs_disarm(void *self)
{
	struct verbs_worker *w = self;
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(w->channel, &cq, &context) == 0) {
		w->queues->told(w, cq);
		ibv_ack_cq_events(cq, 1);
	}
}
