// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause

/* Packets in Ethernet frames, and link training. A frame, after its Ethernet header:
 *
 *   kind 1 | presence or zero 1 | epoch or zero 1 | zero 1 | length 2 | zero 2 | packet, LRH to VCRC
 *
 * Each end sends a training frame four times a second, and at once when something changes. The link is up while the
 * other end's come; an end that trains anew changes its epoch, and the other follows. */

#include "shca.h"
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <asm/unaligned.h>

enum {
	CABLE_ETHERTYPE = 0x88b5, /* IEEE 802 local experimental */
	CABLE_HEADER = 8,
	KIND_PACKET = 1,
	KIND_TRAINING = 2,
	MAX_WAITING = 128, /* a link loses nothing: a sender waits for room, but not forever */
};
#define TRAINING_INTERVAL (HZ / 4)
#define TRAINING_TIMEOUT (4 * HZ)
#define HEAD_OF_QUEUE_LIFETIME (2 * HZ)

static struct shca *cabled[SHCA_DEVICES]; /* whose cables are in */

/* The device whose cable the interface is; NULL: none's. */
static struct shca *shca_of(const struct net_device *netdev)
{
	for (int i = 0; i < SHCA_DEVICES; i++) {
		struct shca *s = READ_ONCE(cabled[i]);

		if (s && s->cable.netdev == netdev)
			return s;
	}
	return NULL;
}

/* Puts one in the place of another: by module_init and module_exit alone. */
static void replace_cabled(struct shca *one, struct shca *other)
{
	int i = 0;

	while (cabled[i] != one)
		i++;
	WRITE_ONCE(cabled[i], other);
}

static bool present(struct shca *s)
{
	return netif_running(s->cable.netdev) && netif_carrier_ok(s->cable.netdev);
}

/* A buffer for a packet, with room for the headers before it. May sleep. */
struct sk_buff *cable_packet(struct shca *s, u32 length)
{
	struct net_device *dev = s->cable.netdev;
	u32 head = LL_RESERVED_SPACE(dev) + CABLE_HEADER;
	struct sk_buff *skb = alloc_skb(head + length + dev->needed_tailroom, GFP_KERNEL);

	if (!skb)
		return NULL;
	skb_reserve(skb, head);
	skb_put(skb, length);
	return skb;
}

static void put_headers(struct shca *s, struct sk_buff *skb, u8 kind, u8 a, u8 b)
{
	struct net_device *dev = s->cable.netdev;
	u32 length = skb->len;
	u8 *p = skb_push(skb, CABLE_HEADER);

	memset(p, 0, CABLE_HEADER);
	p[0] = kind;
	p[1] = a;
	p[2] = b;
	put_unaligned_be16(length, p + 4);
	skb_reset_network_header(skb);
	skb->dev = dev;
	skb->protocol = htons(CABLE_ETHERTYPE);
	dev_hard_header(skb, dev, CABLE_ETHERTYPE, dev->broadcast, dev->dev_addr, skb->len);
}

static void send_training(struct shca *s, bool up)
{
	struct sk_buff *skb = cable_packet(s, 0);

	if (!skb)
		return;
	put_headers(s, skb, KIND_TRAINING, up, s->cable.epoch);
	dev_queue_xmit(skb);
}

/* The interface has sent a frame, or dropped it. */
static void sent(struct sk_buff *skb)
{
	struct shca *s = shca_of(skb->dev);

	if (s && atomic_dec_return(&s->cable.waiting) < MAX_WAITING)
		wake_up(&s->cable.room);
}

static bool has_room(struct shca *s)
{
	return atomic_read(&s->cable.waiting) < MAX_WAITING || !s->cable.up;
}

void cable_send(struct shca *s, struct sk_buff *packet)
{
	u32 words = packet->len / 4;

	wait_event_timeout(s->cable.room, has_room(s), HEAD_OF_QUEUE_LIFETIME);
	if (!s->cable.up || !has_room(s)) {
		shca_count(s, s->cable.up ? OUT_DISCARDED : OUT_NO_LINK);
		kfree_skb(packet);
		return;
	}
	put_headers(s, packet, KIND_PACKET, 0, 0);
	atomic_inc(&s->cable.waiting);
	packet->destructor = sent;
	if (dev_queue_xmit(packet) != NET_XMIT_SUCCESS) {
		shca_count(s, OUT_DISCARDED);
		return;
	}
	shca_count(s, SENT);
	atomic64_add(words, &s->words_out);
}

/* Brings the link up or down as the two ends are. */
static void settle(struct shca *s)
{
	struct shca_cable *c = &s->cable;
	bool heard = c->peer_present && time_before(jiffies, c->seen + TRAINING_TIMEOUT);
	bool up = heard && present(s);

	if (up == c->up)
		return;
	c->up = up;
	wake_up_all(&c->room);
	port_link(s, up);
}

static void train(struct work_struct *work)
{
	struct shca *s = container_of(to_delayed_work(work), struct shca, cable.training);

	settle(s);
	send_training(s, present(s));
	queue_delayed_work(s->sends, &s->cable.training, TRAINING_INTERVAL);
}

/* The link goes down and comes up again, at both ends: a subnet manager may ask for it. */
void cable_retrain(struct shca *s)
{
	s->cable.epoch++;
	if (s->cable.up) {
		port_link(s, false);
		port_link(s, true);
	}
	mod_delayed_work(s->sends, &s->cable.training, 0);
}

static void trained(struct shca *s, bool peer_present, u8 epoch)
{
	struct shca_cable *c = &s->cable;

	c->seen = jiffies;
	if (c->up && epoch != c->peer_epoch) {
		port_link(s, false);
		port_link(s, true);
	}
	c->peer_epoch = epoch;
	if (c->peer_present != peer_present || !c->up) {
		c->peer_present = peer_present;
		mod_delayed_work(s->sends, &c->training, 0);
	}
}

static void frame(struct shca *s, u8 *p, u32 length)
{
	u32 packet = get_unaligned_be16(p + 4);

	if (packet > length - CABLE_HEADER)
		return;
	if (p[0] == KIND_TRAINING)
		trained(s, p[1], p[2]);
	if (p[0] != KIND_PACKET || !s->cable.up)
		return;
	shca_count(s, RECEIVED);
	atomic64_add(packet / 4, &s->words_in);
	receive(s, p + CABLE_HEADER, packet);
}

static int receive_frame(struct sk_buff *skb, struct net_device *dev, struct packet_type *type, struct net_device *orig)
{
	struct shca *s = container_of(type, struct shca, cable.frames);

	skb = skb_share_check(skb, GFP_ATOMIC);
	if (!skb)
		return NET_RX_DROP;
	if (skb->pkt_type != PACKET_OUTGOING && !skb_linearize(skb) && skb->len >= CABLE_HEADER)
		frame(s, skb->data, skb->len);
	consume_skb(skb);
	return NET_RX_SUCCESS;
}

/* The interface goes down or loses its carrier: do not wait for the next training. */
static int interface_changed(struct notifier_block *block, unsigned long event, void *info)
{
	struct shca *s = container_of(block, struct shca, cable.interface);

	if (netdev_notifier_info_to_dev(info) != s->cable.netdev)
		return NOTIFY_DONE;
	if (event == NETDEV_GOING_DOWN)
		send_training(s, false);
	else
		mod_delayed_work(s->sends, &s->cable.training, 0);
	return NOTIFY_DONE;
}

/* Finds the interface. Nothing comes or goes before cable_start. */
int cable_init(struct shca *s, const char *netdev)
{
	struct shca_cable *c = &s->cable;

	init_waitqueue_head(&c->room);
	INIT_DELAYED_WORK(&c->training, train);
	c->epoch = get_random_u8();
	c->netdev = dev_get_by_name(&init_net, netdev);
	if (!c->netdev)
		return -ENODEV;
	if (c->netdev->mtu >= SHCA_MAX_PACKET + CABLE_HEADER)
		return 0;
	pr_err("shca: %s has MTU %u; needs %u\n", netdev, c->netdev->mtu, SHCA_MAX_PACKET + CABLE_HEADER);
	dev_put(c->netdev);
	return -EMSGSIZE;
}

void cable_start(struct shca *s)
{
	struct shca_cable *c = &s->cable;

	c->frames = (struct packet_type){
		.type = htons(CABLE_ETHERTYPE), .dev = c->netdev, .func = receive_frame, .af_packet_priv = s};
	c->interface.notifier_call = interface_changed;
	replace_cabled(NULL, s);
	dev_add_pack(&c->frames);
	register_netdevice_notifier(&c->interface);
	queue_delayed_work(s->sends, &c->training, 0);
}

/* Frames that the interface still has are lost: they do not come back to a module that is gone. */
void cable_stop(struct shca *s)
{
	struct shca_cable *c = &s->cable;

	unregister_netdevice_notifier(&c->interface);
	dev_remove_pack(&c->frames);
	cancel_delayed_work_sync(&c->training);
	send_training(s, false);
	c->up = false;
	wait_event_timeout(c->room, !atomic_read(&c->waiting), HEAD_OF_QUEUE_LIFETIME);
	replace_cabled(s, NULL);
}

void cable_end(struct shca *s)
{
	dev_put(s->cable.netdev);
}
