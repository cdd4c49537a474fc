/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_errno.h>
#include <rte_eth_bond.h>
#include <rte_eth_bond_8023ad.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_ring.h>

#include "bond_parts.h"

enum { SLOW_RING = 64 }; /* LACP has at most ten frames a second of a link (IEEE 802.1AX §6.4.16) */

static struct rte_ring *slow_ring(const char *bond, const char *what)
{
	char name[RTE_RING_NAMESIZE];
	snprintf(name, sizeof(name), "%s-%s", bond, what);
	return rte_ring_create(name, SLOW_RING, SOCKET_ID_ANY, 0);
}

/* net_bonding's own look for slow frames comes after ours and finds none. */
static void no_slow_frames(__rte_unused uint16_t member, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

/* Leaves the choice of members to dpdk_bond_set. A flow is addresses and ports: it keeps its member while the members
 * that distribute are the same. */
static int set_up(uint16_t port)
{
	struct rte_eth_bond_8023ad_conf conf;

	int err = rte_eth_bond_8023ad_conf_get(port, &conf);
	if (err != 0)
		return err;
	conf.slowrx_cb = no_slow_frames;
	err = rte_eth_bond_8023ad_setup(port, &conf);
	if (err != 0)
		return err;
	return rte_eth_bond_xmit_policy_set(port, BALANCE_XMIT_POLICY_LAYER34);
}

static int add_member(struct dpdk_bond *b, unsigned member, uint16_t port, struct rte_ether_addr *mac)
{
	b->member[member].port = port;
	int err = rte_eth_dev_default_mac_addr_set(port, mac);
	return err != 0 ? err : rte_eth_bond_slave_add(b->port, port);
}

/* All members have the address of the first: the other end may send to any. */
static int add_members(struct dpdk_bond *b, const uint16_t *members)
{
	struct rte_ether_addr mac;

	int err = rte_eth_macaddr_get(members[0], &mac);
	if (err == 0)
		err = rte_eth_bond_mac_address_set(b->port, &mac);
	for (unsigned i = 0; err == 0 && i < b->n; i++) {
		b->member[i].bond = b;
		err = add_member(b, i, members[i], &mac);
	}
	return err;
}

int dpdk_bond_create(const char *name, const uint16_t *members, unsigned n, struct dpdk_bond **out, uint16_t *port)
{
	if (n > DPDK_BOND_MEMBERS)
		return -EINVAL;
	struct dpdk_bond *b = rte_zmalloc(NULL, sizeof(*b), 0);
	if (!b)
		return -ENOMEM;
	int id = rte_eth_bond_create(name, BONDING_MODE_8023AD, (uint8_t)RTE_MAX(0, dpdk_node()));
	if (id < 0) {
		rte_free(b);
		return id;
	}
	b->port = (uint16_t)id;
	b->n = (uint16_t)n;
	b->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	b->came = slow_ring(name, "came");
	b->to_send = slow_ring(name, "send");
	int err = b->fd < 0 || !b->came || !b->to_send ? -ENOMEM : set_up(b->port);
	if (err == 0)
		err = add_members(b, members);
	if (err != 0) {
		dpdk_bond_free(b, name);
		return err;
	}
	*out = b;
	*port = b->port;
	return 0;
}

static int listen_to(struct dpdk_bond *b, struct member *m)
{
	int err = dpdk_port_forget(m->port);
	for (uint16_t q = 0; err == 0 && q < b->queues; q++) {
		m->callback[q] = rte_eth_add_rx_callback(m->port, q, bond_received, m);
		if (!m->callback[q])
			err = rte_errno > 0 ? -rte_errno : -ENOMEM;
	}
	m->in = err == 0;
	return err;
}

int dpdk_bond_listen(struct dpdk_bond *b, uint16_t queues)
{
	int err = 0;

	b->queues = queues;
	b->flows = rte_zmalloc(NULL, queues * sizeof(*b->flows), 0);
	if (!b->flows)
		return -ENOMEM;
	for (unsigned i = 0; err == 0 && i < b->n; i++)
		err = listen_to(b, &b->member[i]);
	return err;
}

static int take_out(struct dpdk_bond *b, struct member *m)
{
	m->in = false;
	for (uint16_t q = 0; q < b->queues; q++) {
		if (m->callback[q])
			rte_eth_remove_rx_callback(m->port, q, m->callback[q]);
		m->callback[q] = NULL;
	}
	return rte_eth_bond_slave_remove(b->port, m->port);
}

int dpdk_bond_take_out(struct dpdk_bond *b, unsigned member)
{
	struct member *m = &b->member[member];

	__atomic_store_n(&m->stage, AWAY, __ATOMIC_RELAXED);
	int err = rte_eth_dev_stop(m->port);
	return err != 0 ? err : take_out(b, m);
}

int dpdk_bond_put_in(struct dpdk_bond *b, unsigned member, uint16_t port)
{
	struct rte_ether_addr mac;

	int err = rte_eth_macaddr_get(b->port, &mac);
	if (err == 0)
		err = add_member(b, member, port, &mac); /* the bond has it started */
	if (err == 0)
		err = rte_eth_promiscuous_enable(port); /* as the bond was before */
	return err != 0 ? err : listen_to(b, &b->member[member]);
}

static void drop_all(struct rte_ring *r)
{
	struct rte_mbuf *m;

	while (r && rte_ring_dequeue(r, (void **)&m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(r);
}

int dpdk_bond_free(struct dpdk_bond *b, const char *name)
{
	for (unsigned i = 0; i < b->n; i++)
		if (b->member[i].bond)
			take_out(b, &b->member[i]); /* fails for one that is not in */
	int err = rte_eth_bond_free(name);
	drop_all(b->came);
	drop_all(b->to_send);
	if (b->fd >= 0)
		close(b->fd);
	rte_free(b->flows);
	rte_free(b);
	return err;
}

static enum stage next_stage(enum stage was, bool collect, bool distribute)
{
	if (!collect)
		return AWAY;
	if (distribute)
		return CARRYING;
	return was == CARRYING || was == LEAVING ? LEAVING : JOINING;
}

/* To net_bonding, all members collect: what it drops nobody counts. It begins to when it is told so first, or again
 * after a change of the link; a worker may be in a poll that had looked before, so the stage follows at the next call.
 */
int dpdk_bond_set(struct dpdk_bond *b, unsigned member, bool collect, bool distribute)
{
	struct member *m = &b->member[member];
	enum stage next = next_stage(bond_stage(m), collect, distribute);

	if (next == AWAY || next == LEAVING)
		__atomic_store_n(&m->stage, next, __ATOMIC_RELAXED);
	bool collected = rte_eth_bond_8023ad_ext_collect_get(b->port, m->port) == 1;
	int err = rte_eth_bond_8023ad_ext_distrib(b->port, m->port, distribute);
	if (err == 0)
		err = rte_eth_bond_8023ad_ext_collect(b->port, m->port, true);
	if (err != 0 || !collected)
		return collect || distribute ? -EAGAIN : 0;
	__atomic_store_n(&m->stage, next, __ATOMIC_RELAXED);
	return 0;
}

uint64_t dpdk_bond_drained(const struct dpdk_bond *b, unsigned member)
{
	uint64_t least = UINT64_MAX;

	for (uint16_t q = 0; q < b->queues; q++)
		least = RTE_MIN(least, __atomic_load_n(&b->member[member].queue[q].empty, __ATOMIC_ACQUIRE));
	return least;
}

void dpdk_bond_count(const struct dpdk_bond *b, unsigned member, struct dpdk_bond_counters *out)
{
	*out = (struct dpdk_bond_counters){0};
	for (uint16_t q = 0; q < b->queues; q++) {
		out->inactive += __atomic_load_n(&b->member[member].queue[q].inactive, __ATOMIC_RELAXED);
		out->slow_lost += __atomic_load_n(&b->member[member].queue[q].slow_lost, __ATOMIC_RELAXED);
	}
}

int dpdk_bond_slow_fd(const struct dpdk_bond *b)
{
	return b->fd;
}

struct rte_mbuf *dpdk_bond_take_slow(struct dpdk_bond *b, unsigned *member)
{
	struct rte_mbuf *m;

	__atomic_store_n(&b->told, false, __ATOMIC_SEQ_CST);
	while (rte_ring_dequeue(b->came, (void **)&m) == 0) {
		for (*member = 0; *member < b->n; ++*member)
			if (b->member[*member].port == m->port)
				return m;
		rte_pktmbuf_free(m); /* another has taken the place of its port */
	}
	return NULL;
}

int dpdk_bond_send_slow(struct dpdk_bond *b, unsigned member, struct rte_mbuf *m)
{
	m->port = b->member[member].port;
	return rte_ring_enqueue(b->to_send, m) == 0 ? 0 : -ENOBUFS;
}

int dpdk_port_set_mac(uint16_t id, const uint8_t *mac)
{
	struct rte_ether_addr a;

	memcpy(a.addr_bytes, mac, sizeof(a.addr_bytes));
	return rte_eth_dev_default_mac_addr_set(id, &a);
}
