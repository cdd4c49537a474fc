/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>

#include "dpdk.h"

int dpdk_plug(const char *bus, const char *name, const char *args)
{
	return rte_eal_hotplug_add(bus, name, args);
}

int dpdk_unplug(const char *bus, const char *name)
{
	return rte_eal_hotplug_remove(bus, name);
}

int dpdk_port_from_rings(const char *name, struct rte_ring **rx, unsigned n_rx, struct rte_ring **tx, unsigned n_tx)
{
	int id = rte_eth_from_rings(name, rx, n_rx, tx, n_tx, dpdk_node());
	if (id >= 0)
		return id;
	return rte_errno > 0 ? -rte_errno : -EINVAL;
}

int dpdk_port_by_name(const char *name, uint16_t *id)
{
	return rte_eth_dev_get_port_by_name(name, id);
}

/* The largest MTU that passes ethdev's own check: as the device says, and no frame longer than it says. */
static uint16_t max_mtu(const struct rte_eth_dev_info *info)
{
	uint32_t overhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;

	if (info->max_mtu != UINT16_MAX && info->max_rx_pktlen > info->max_mtu)
		overhead = info->max_rx_pktlen - info->max_mtu;
	uint32_t by_frame = info->max_rx_pktlen > overhead ? info->max_rx_pktlen - overhead : 0;
	return RTE_MIN(by_frame, info->max_mtu);
}

int dpdk_port_info(uint16_t id, struct dpdk_port_info *out)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;

	int err = rte_eth_dev_info_get(id, &info);
	if (err == 0)
		err = rte_eth_macaddr_get(id, &mac);
	if (err != 0)
		return err;
	memcpy(out->mac, mac.addr_bytes, sizeof(out->mac));
	out->max_mtu = max_mtu(&info);
	out->max_rx_queues = info.max_rx_queues;
	out->max_tx_queues = info.max_tx_queues;
	out->netdev = info.if_index;
	return 0;
}

/* Spreads by source IP where the device can, so that all of one host's frames meet one worker; without
 * l3-src-only by both addresses, and the workers sort it out. */
static void want_rss(struct rte_eth_conf *conf, const struct rte_eth_dev_info *info)
{
	uint64_t want = (RTE_ETH_RSS_IP | RTE_ETH_RSS_L3_SRC_ONLY) & info->flow_type_rss_offloads;

	if ((want & RTE_ETH_RSS_IP) == 0)
		return;
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_hf = want;
}

static int set_up_queues(uint16_t id, const struct dpdk_port_conf *c, const struct rte_eth_dev_info *info)
{
	int own = rte_eth_dev_socket_id(id);
	unsigned socket = own >= 0 ? own : dpdk_node(); /* a driver without hardware does not know */
	uint16_t rx_descs = c->rx_descs, tx_descs = c->tx_descs;

	int err = rte_eth_dev_adjust_nb_rx_tx_desc(id, &rx_descs, &tx_descs);
	for (uint16_t q = 0; err == 0 && q < c->rx_queues; q++)
		err = rte_eth_rx_queue_setup(id, q, rx_descs, socket, &info->default_rxconf, c->pool);
	for (uint16_t q = 0; err == 0 && q < c->tx_queues; q++)
		err = rte_eth_tx_queue_setup(id, q, tx_descs, socket, &info->default_txconf);
	return err;
}

int dpdk_port_configure(uint16_t id, const struct dpdk_port_conf *c)
{
	struct rte_eth_conf conf = {.rxmode.mtu = c->mtu};
	struct rte_eth_dev_info info;

	int err = rte_eth_dev_info_get(id, &info);
	if (err != 0)
		return err;
	conf.intr_conf.rxq = c->rx_interrupts;
	if (c->rss)
		want_rss(&conf, &info);
	err = rte_eth_dev_configure(id, c->rx_queues, c->tx_queues, &conf);
	return err != 0 ? err : set_up_queues(id, c, &info);
}

/* A packet socket receives from all interfaces until it is bound to one (packet(7)), and the PMD makes its ring before
 * that. So what is in the rings now may have come to other interfaces of the machine, which no bridge may forward. */
static int drop_strangers(uint16_t id, const struct rte_eth_dev_info *info)
{
	const unsigned ring = 1 << 16; /* more than there is in one: frames come on and on */
	struct rte_mbuf *m[32];

	for (uint16_t queue = 0; queue < info->nb_rx_queues; queue++) {
		uint16_t n = 1;

		for (unsigned all = 0; n > 0 && all < ring; all += n) {
			n = rte_eth_rx_burst(id, queue, m, RTE_DIM(m));
			rte_pktmbuf_free_bulk(m, n);
		}
	}
	return rte_eth_stats_reset(id);
}

int dpdk_port_start(uint16_t id)
{
	int err = rte_eth_dev_start(id);
	return err != 0 ? err : dpdk_port_forget(id);
}

int dpdk_port_forget(uint16_t id)
{
	struct rte_eth_dev_info info;

	int err = rte_eth_dev_info_get(id, &info);
	if (err != 0 || strcmp(info.driver_name, "net_af_packet") != 0)
		return err;
	return drop_strangers(id, &info);
}

int dpdk_port_rx_fd(uint16_t id, uint16_t queue, bool *armed)
{
	int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(id, queue);
	if (fd < 0)
		return -ENOTSUP;
	int err = rte_eth_dev_rx_intr_enable(id, queue);
	*armed = err == 0;
	if (*armed)
		err = rte_eth_dev_rx_intr_disable(id, queue);
	return err == 0 || err == -ENOTSUP ? fd : err;
}

int dpdk_port_stop(uint16_t id)
{
	return rte_eth_dev_stop(id);
}

static void passed(void *done)
{
	__atomic_store_n((bool *)done, true, __ATOMIC_RELEASE);
}

/* Waits until the EAL's interrupt thread, which also runs alarms, is through with what it had to do: when the peer of a
 * net_memif goes away, that thread frees what closing the port frees, too, and the PMD has no lock. */
static void await_interrupts(void)
{
	enum { TRIES = 20000, PAUSE_US = 50 };
	bool done = false;
	if (rte_eal_alarm_set(1, passed, &done) != 0)
		return;
	for (unsigned i = 0; i < TRIES && !__atomic_load_n(&done, __ATOMIC_ACQUIRE); i++)
		rte_delay_us_sleep(PAUSE_US);
	if (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		rte_eal_alarm_cancel(passed, &done);
}

int dpdk_port_close(uint16_t id)
{
	await_interrupts();
	int err = rte_eth_dev_close(id);
	await_interrupts(); /* it frees the connection, and the next to be freed may be the EAL's memory */
	return err;
}

int dpdk_port_link(uint16_t id, bool *up)
{
	struct rte_eth_link link;

	int err = rte_eth_link_get_nowait(id, &link);
	*up = err == 0 && link.link_status == RTE_ETH_LINK_UP;
	return err;
}

int dpdk_port_stats(uint16_t id, struct dpdk_port_stats *out)
{
	struct rte_eth_stats s;

	int err = rte_eth_stats_get(id, &s);
	if (err != 0)
		return err;
	*out = (struct dpdk_port_stats){
		.rx_packets = s.ipackets,
		.tx_packets = s.opackets,
		.rx_bytes = s.ibytes,
		.tx_bytes = s.obytes,
		.rx_missed = s.imissed,
		.rx_errors = s.ierrors,
		.tx_errors = s.oerrors,
		.rx_no_mbuf = s.rx_nombuf,
	};
	return 0;
}

int dpdk_port_promiscuous(uint16_t id, bool on)
{
	return on ? rte_eth_promiscuous_enable(id) : rte_eth_promiscuous_disable(id);
}

int dpdk_port_allmulticast(uint16_t id, bool on)
{
	return on ? rte_eth_allmulticast_enable(id) : rte_eth_allmulticast_disable(id);
}

int dpdk_port_multicast_list(uint16_t id, struct dpdk_mac *macs, unsigned n)
{
	_Static_assert(sizeof(struct dpdk_mac) == sizeof(struct rte_ether_addr), "a MAC is six bytes");
	return rte_eth_dev_set_mc_addr_list(id, (struct rte_ether_addr *)macs, n);
}

unsigned dpdk_port_rx(uint16_t id, uint16_t queue, struct rte_mbuf **mbufs, unsigned n)
{
	return rte_eth_rx_burst(id, queue, mbufs, RTE_MIN(n, (unsigned)UINT16_MAX));
}

unsigned dpdk_port_tx(uint16_t id, uint16_t queue, struct rte_mbuf **mbufs, unsigned n)
{
	return rte_eth_tx_burst(id, queue, mbufs, RTE_MIN(n, (unsigned)UINT16_MAX));
}
