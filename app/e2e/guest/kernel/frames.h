/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */

/* What the driver of the guests' NICs does in another way than the kernel's: see build. */

/* Sockets are charged for the memory that a frame lies in. Of a buffer for 9000 bytes a socket has room for a dozen, so
 * that each frame goes on in one of its own length. */
static struct sk_buff *right_sized(struct vector_private *vp, struct sk_buff *skb)
{
	struct sk_buff *copy = napi_alloc_skb(&vp->napi, skb->len);

	if (!copy)
		return skb;
	skb_copy_bits(skb, 0, skb_put(copy, skb->len), skb->len);
	dev_kfree_skb_any(skb);
	return copy;
}

/* A full queue holds its senders up instead of dropping frames: an InfiniBand cable loses nothing. */
static bool must_wait(struct vector_private *vp)
{
	if (vp->tx_queue->queue_depth < vp->tx_queue->max_depth)
		return false;
	netif_stop_queue(vp->dev);
	napi_schedule(&vp->napi);
	return true;
}
