/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What net_af_packet could not send in its time is not sent later.
 *
 * While an interface has no carrier, the kernel drops and counts the first frame of a socket's ring (packet(7)) with
 * each sendto(2), and keeps it and all others to try again: when the cable is back they leave, after what other ports
 * have sent meanwhile. Here the program has its own sendto(2), which the PMD finds before the C library's, and which
 * makes what waits unsendable: without an Ethernet header, the kernel drops it and goes on (PACKET_LOSS). What the
 * kernel refused while the interface had its carrier, by what it said, may be sent by the next sendto(2), unless that
 * comes late: a bond sends by another port meanwhile.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_branch_prediction.h>

#include "dpdk.h"

enum { STALE_RINGS = 1024, LATE_NS = 100 * 1000 * 1000 };

/* A socket's ring, behind the one that it receives by, which is as large. */
struct tx_ring {
	int fd;
	struct tpacket_req size;
	uint8_t *map;        /* while the link is down; NULL else: a map keeps a socket open */
	unsigned next;       /* frame after those that were made unsendable last */
	bool troubled;       /* it has failed since its last success */
	uint64_t failures;   /* since then, before the link was known to be down */
	unsigned refused;    /* frames that waited after the last failure, with a carrier */
	uint64_t refused_at; /* ns, when that was */
	uint64_t lost;       /* atomic: frames that no interface counts */
};

static struct {
	unsigned n;
	struct tx_ring ring[STALE_RINGS];
	unsigned troubled; /* atomic: how many are */
} known;

static struct tx_ring *ring_of(int fd)
{
	for (unsigned i = 0; i < known.n; i++)
		if (known.ring[i].fd == fd)
			return &known.ring[i];
	return NULL;
}

static size_t bytes(const struct tx_ring *r)
{
	return 2 * (size_t)r->size.tp_block_size * r->size.tp_block_nr;
}

static void set_troubled(struct tx_ring *r, bool troubled)
{
	if (r->troubled != troubled)
		__atomic_fetch_add(&known.troubled, troubled ? 1 : -1, __ATOMIC_RELAXED);
	r->troubled = troubled;
	r->failures = r->refused = 0;
}

/* The link carries frames again, or nobody will send any more. */
static void recover(struct tx_ring *r)
{
	set_troubled(r, false);
	if (r->map)
		munmap(r->map, bytes(r));
	r->map = NULL;
}

void dpdk_stale_begin(int fd, const struct tpacket_req *size)
{
	struct tx_ring *r = ring_of(fd);

	if (!r) {
		if (known.n == STALE_RINGS)
			return; /* frames may be late */
		r = &known.ring[known.n];
	}
	*r = (struct tx_ring){.fd = fd, .size = *size};
	if (r == &known.ring[known.n])
		__atomic_store_n(&known.n, known.n + 1, __ATOMIC_RELEASE);
}

void dpdk_stale_end(int fd)
{
	struct tx_ring *r = ring_of(fd);

	if (r)
		recover(r);
}

uint64_t dpdk_stale_lost(int fd)
{
	const struct tx_ring *r = ring_of(fd);

	return r ? __atomic_load_n(&r->lost, __ATOMIC_RELAXED) : 0;
}

static bool has_carrier(int fd)
{
	struct sockaddr_ll at;
	socklen_t len = sizeof(at);
	struct ifreq r = {0};

	if (getsockname(fd, (struct sockaddr *)&at, &len) != 0)
		return false;
	r.ifr_ifindex = at.sll_ifindex;
	return ioctl(fd, SIOCGIFNAME, &r) == 0 && ioctl(fd, SIOCGIFFLAGS, &r) == 0 && r.ifr_flags & IFF_RUNNING;
}

static struct tpacket2_hdr *frame(const struct tx_ring *r, unsigned i)
{
	unsigned in_block = r->size.tp_block_size / r->size.tp_frame_size;
	size_t at = (size_t)(i / in_block) * r->size.tp_block_size + (size_t)(i % in_block) * r->size.tp_frame_size;

	return (void *)(r->map + bytes(r) / 2 + at);
}

/* Whether a frame waits that can still be sent. */
static bool waits(const struct tx_ring *r, unsigned i)
{
	const struct tpacket2_hdr *f = frame(r, i);

	return __atomic_load_n(&f->tp_status, __ATOMIC_ACQUIRE) == TP_STATUS_SEND_REQUEST && f->tp_len != 0;
}

/* The oldest that waits. Those that do follow one another, mostly those of the last time: else some may be before. */
static unsigned oldest(const struct tx_ring *r)
{
	unsigned all = r->size.tp_frame_nr, i = r->next;

	for (unsigned looked = 0; looked < all && waits(r, (i + all - 1) % all); looked++)
		i = (i + all - 1) % all;
	for (unsigned looked = 0; looked < all && !waits(r, i); looked++)
		i = (i + 1) % all;
	return i;
}

static unsigned waiting(const struct tx_ring *r)
{
	unsigned n = 0, all = r->size.tp_frame_nr, i = oldest(r);

	while (n < all && waits(r, (i + n) % all))
		n++;
	return n;
}

/* Makes the oldest n that wait unsendable. The interface has counted the first one each time. */
static void spoil(struct tx_ring *r, unsigned n)
{
	unsigned all = r->size.tp_frame_nr, i = oldest(r);

	for (unsigned done = 0; done < n; done++, i = (i + 1) % all)
		frame(r, i)->tp_len = 0;
	r->next = i;
	if (n > r->failures)
		__atomic_fetch_add(&r->lost, n - r->failures, __ATOMIC_RELAXED);
	r->failures = r->refused = 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 * 1000 * 1000 + (uint64_t)t.tv_nsec;
}

static bool map_ring(struct tx_ring *r)
{
	if (!r->map) {
		void *map = mmap(NULL, bytes(r), PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
		r->map = map == MAP_FAILED ? NULL : map;
	}
	return r->map;
}

/* After a failure. The interface counts the first frame each time, and the PMD a whole burst when the interface is not
 * set up (ENETDOWN). Returns whether frames were made unsendable. */
static bool discard(struct tx_ring *r, int why)
{
	if (!r->troubled)
		set_troubled(r, true);
	r->failures += why == ENOBUFS;
	unsigned n = map_ring(r) ? waiting(r) : 0;
	if (why == ENOBUFS && has_carrier(r->fd)) { /* it is busy, or was down a moment ago */
		r->refused = n;
		r->refused_at = now_ns();
		return false;
	}
	if (why == ENETDOWN)
		r->failures = n; /* all are counted */
	spoil(r, n);
	return n > 0;
}

/* Before a try: what nobody has tried to send for long is late. */
static void discard_late(struct tx_ring *r)
{
	if (r->refused > 0 && now_ns() - r->refused_at > LATE_NS)
		spoil(r, r->refused);
}

static ssize_t system_sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t size)
{
	return syscall(SYS_sendto, fd, data, len, flags, to, size);
}

ssize_t sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t size)
{
	bool troubled = unlikely(__atomic_load_n(&known.troubled, __ATOMIC_RELAXED) != 0) && !data;
	struct tx_ring *r = troubled ? ring_of(fd) : NULL;
	if (r)
		discard_late(r);
	ssize_t sent = system_sendto(fd, data, len, flags, to, size);

	if (likely(sent >= 0)) {
		if (r)
			recover(r);
		return sent;
	}
	int why = errno;
	r = !data && (why == ENOBUFS || why == ENETDOWN) ? ring_of(fd) : NULL;
	if (r && discard(r, why) && why == ENOBUFS)
		system_sendto(fd, data, len, flags, to, size); /* drops them */
	errno = why;
	return sent;
}
