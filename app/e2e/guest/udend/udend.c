// SPDX-License-Identifier: Apache-2.0

/* udend - a bare verbs UD endpoint that reports exactly what it sent and received.
 *
 *   udend --ip ADDR [option...] recv|reply|send|pingpong|exchange|stream
 *
 *   recv      receive --count messages, from unicast and --mgid
 *   reply     the same, and send each back to where its completion says it is from
 *   send      send --count messages to --to, --qpn
 *   pingpong  send, wait for the same message to come back, and so on
 *   exchange  send --count messages like send, then receive as many like recv, whatever they are
 *   stream    send one every --gap ms and receive meanwhile; go on receiving until as many have come
 *
 *   --ip ADDR       our own address: chooses the GID     --netdev IF   ... of this interface
 *   --dev NAME      RDMA device (the first)              --qkey N      ours and the peer's (0x11111111)
 *   --to ADDR       destination GID or IP                --qpn N       destination (multicast: 0xffffff)
 *   --mgid ADDR     attach to this group                 --imm N       send with immediate data
 *                   (--to, --mgid: up to 64 times; messages go to each --to in turn)
 *   --size N[,N]    payload sizes, in turn (64)          --count N     messages (1)
 *   --tclass N      traffic class (0)                    --hop N       hop limit (64)
 *   --seconds S     recv, reply: how long (10); pingpong: for each reply; stream: after the last message
 *   --gap MS        pause after each send (0)            --seq N       the first message's seq (1)
 *
 * On InfiniBand --ip and --to are GIDs, or --to and --mgid are IPv4 groups, which rdma_cm joins from --netdev, and
 *   --dlid N        destination LID                      --no-grh      send without a GRH
 *   --bits N        our LID's path bits (0)              --sl N        service level (0)
 *   --pkey-index N  of the queue pair (0)
 *   --second DEV,GID,IF   a second end, on another fabric: receives as the first, and sends to groups what it sends
 *
 * Messages are those of ibside/stamp, numbered by seq; below 32 bytes they have no number, and "seq" is 0.
 * Output: JSON lines, numbers in host order; "at" is in seconds of the monotonic clock. The first is "ready", the last
 * "end":
 *   {"event":"ready","qpn":17,"gid":"::ffff:10.9.0.1","gid_index":1,"mtu":1024}
 *   {"event":"sent","at":12.345678,"seq":1,"length":64,"status":"success"}
 *   {"event":"received","at":12.345678,"status":"success","src_qp":18,"with_imm":true,"imm":18,"length":64,
 *    "with_grh":true,"grh":"00..","intact":true,"seq":1}
 *   {"event":"end","sent":1,"received":1,"bad":0}
 * Exit: 0 all came and all payloads were right; 1 otherwise; 2 usage; 3 verbs failed. */

#include "endpoint.h"
#include "options.h"
#include "../../../../ibside/stamp/stamp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct totals {
	uint32_t sent, received, bad;
};

static void print_hex(const uint8_t *b, int n)
{
	for (int i = 0; i < n; i++)
		printf("%02x", b[i]);
}

static void print_ready(const struct endpoint *e)
{
	char gid[INET6_ADDRSTRLEN];
	struct ibv_port_attr port;
	inet_ntop(AF_INET6, &e->source.gid, gid, sizeof gid);
	if (ibv_query_port(e->device, e->source.port_num, &port))
		fail("ibv_query_port");
	printf("{\"event\":\"ready\",\"qpn\":%u,\"gid\":\"%s\",\"gid_index\":%u,\"mtu\":%u}\n", e->qp->qp_num, gid,
	       e->source.gid_index, 128u << port.active_mtu);
}

/* Prints a received message; returns true if its payload is as it was sent. */
static bool print_received(const struct message *m, bool second)
{
	struct stamp s;
	bool imm = m->wc.wc_flags & IBV_WC_WITH_IMM, intact = stamp_intact(m->payload, m->length, &s);
	printf("{\"event\":\"received\",\"at\":%.6f,\"status\":\"%s\",\"src_qp\":%u,\"with_imm\":%s,\"imm\":%u,"
	       "\"length\":%u,\"second\":%s",
	       now(), ibv_wc_status_str(m->wc.status), m->wc.src_qp, imm ? "true" : "false",
	       imm ? ntohl(m->wc.imm_data) : 0, m->length, second ? "true" : "false");
	printf(",\"with_grh\":%s,\"grh\":\"", m->wc.wc_flags & IBV_WC_GRH ? "true" : "false");
	print_hex(m->grh, GRH_AREA);
	printf("\",\"intact\":%s,\"seq\":%u}\n", intact ? "true" : "false", (unsigned)s.number);
	return intact && m->wc.status == IBV_WC_SUCCESS;
}

static void print_sent(struct totals *t, uint32_t seq, uint32_t length, enum ibv_wc_status status)
{
	printf("{\"event\":\"sent\",\"at\":%.6f,\"seq\":%u,\"length\":%u,\"status\":\"%s\"}\n", now(), seq, length,
	       ibv_wc_status_str(status));
	t->sent += status == IBV_WC_SUCCESS;
	t->bad += status != IBV_WC_SUCCESS;
}

/* The destinations of the messages, used in turn. */
struct targets {
	struct target to[MAX_GROUPS];
	int n;
};

static struct targets targets_of(struct endpoint *e, const struct options *o)
{
	struct targets t = {.n = o->tos};
	if (!t.n)
		usage("--to ADDR is needed");
	for (int i = 0; i < t.n; i++) {
		t.to[i] = (struct target){
			.qpn = o->qpn,
			.qkey = o->qkey,
			.with_imm = o->with_imm,
			.imm = o->imm,
		};
		endpoint_route(e, &t.to[i], &o->to[i], &o->path);
	}
	return t;
}

/* Nanoseconds, for stamps. */
static uint64_t unix_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Sends message i of the series; returns its length. */
static uint32_t send_one(struct endpoint *e, const struct options *o, const struct targets *to, uint32_t i,
			 struct totals *t)
{
	uint32_t length = o->size[i % o->sizes];
	stamp_message(endpoint_send_buffer(e), length, o->seq + i, unix_time());
	print_sent(t, o->seq + i, length, endpoint_send(e, &to->to[i % to->n], length));
	return length;
}

/* The address handle of the last reply, used again for a while. Making one may take the kernel longer than the time
 * between two messages, and a replier that lags behind reports when it handled a message, not when the message came. */
struct reply_handle {
	const struct endpoint *of;
	struct ibv_ah *ah;
	struct ibv_ah_attr attr; /* what it was made from */
	double made;
};

static struct ibv_ah *reply_handle(struct endpoint *e, struct reply_handle *last, struct message *m)
{
	const double max_age = 0.5; /* seconds: the destination's MAC address may change */
	struct ibv_ah_attr attr = {0};
	struct ibv_grh *grh = (struct ibv_grh *)m->grh;
	if (e->infiniband &&
	    grh->dgid.raw[0] == 0xff) /* to a group: the library would look for its MGID among our GIDs */
		grh->dgid = e->source.gid;
	if (ibv_init_ah_from_wc(e->device, e->source.port_num, &m->wc, grh, &attr))
		fail("ibv_init_ah_from_wc");
	if (last->ah && last->of == e && now() - last->made < max_age && !memcmp(&last->attr, &attr, sizeof attr))
		return last->ah;
	if (last->ah)
		ibv_destroy_ah(last->ah);
	*last = (struct reply_handle){.of = e, .ah = ibv_create_ah(e->pd, &attr), .attr = attr, .made = now()};
	if (!last->ah)
		fail("ibv_create_ah");
	return last->ah;
}

/* Sends m back unchanged to the QP and GID that the completion names. */
static void send_back(const struct options *o, struct reply_handle *last, struct message *m, struct totals *t)
{
	struct endpoint *e = m->of;
	struct target to = {
		.ah = reply_handle(e, last, m),
		.qpn = m->wc.src_qp,
		.qkey = o->qkey,
		.with_imm = m->wc.wc_flags & IBV_WC_WITH_IMM,
		.imm = ntohl(m->wc.imm_data),
	};
	struct stamp s;
	memcpy(endpoint_send_buffer(e), m->payload, m->length);
	stamp_intact(m->payload, m->length, &s);
	print_sent(t, (uint32_t)s.number, m->length, endpoint_send(e, &to, m->length));
}

static void receive_all(struct endpoint *e, const struct options *o, struct totals *t, bool reply, double deadline)
{
	struct message m;
	struct reply_handle last = {0};
	while (t->received < o->count && endpoint_receive(e, deadline, &m)) {
		t->received++;
		t->bad += !print_received(&m, m.of != e);
		if (reply && m.wc.status == IBV_WC_SUCCESS)
			send_back(o, &last, &m, t);
		endpoint_release(&m);
	}
}

static void send_all(struct endpoint *e, const struct options *o, struct totals *t)
{
	struct targets to = targets_of(e, o);
	for (uint32_t i = 0; i < o->count; i++) {
		send_one(e, o, &to, i, t);
		if (o->gap_ms)
			usleep(o->gap_ms * 1000);
	}
}

/* Sends at its pace, whether replies come or not. */
static void stream(struct endpoint *e, const struct options *o, struct totals *t)
{
	struct targets to = targets_of(e, o);
	double next = now();
	for (uint32_t i = 0; i < o->count; i++) {
		send_one(e, o, &to, i, t);
		next += o->gap_ms / 1e3;
		receive_all(e, o, t, false, next);
	}
	receive_all(e, o, t, false, now() + o->seconds);
}

/* A reply is bad if it is not the message sent, byte for byte. */
static void ping_pong(struct endpoint *e, const struct options *o, struct totals *t)
{
	struct targets to = targets_of(e, o);
	struct message m;
	for (uint32_t i = 0; i < o->count; i++) {
		uint32_t length = send_one(e, o, &to, i, t);
		if (o->gap_ms)
			usleep(o->gap_ms * 1000);
		if (!endpoint_receive(e, now() + o->seconds, &m))
			continue;
		t->received++;
		print_received(&m, m.of != e);
		t->bad += m.wc.status != IBV_WC_SUCCESS || m.length != length ||
			  memcmp(m.payload, endpoint_send_buffer(e), length);
		endpoint_release(&m);
	}
}

int main(int argc, char **argv)
{
	struct options o = options_parse(argc, argv);
	struct endpoint e = {.pkey_index = o.pkey_index};
	struct totals t = {0};
	bool sends = !strcmp(o.mode, "send"), pings = !strcmp(o.mode, "pingpong"), replies = !strcmp(o.mode, "reply");
	bool exchanges = !strcmp(o.mode, "exchange"), streams = !strcmp(o.mode, "stream");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!sends && !pings && !replies && !exchanges && !streams && strcmp(o.mode, "recv"))
		usage("one of recv, reply, send, pingpong, exchange, stream");
	endpoint_open(&e, &o);
	for (int i = 0; i < o.mgids; i++)
		endpoint_attach(&e, &o.mgid[i]);
	print_ready(&e);
	if (sends || exchanges)
		send_all(&e, &o, &t);
	if (pings)
		ping_pong(&e, &o, &t);
	else if (streams)
		stream(&e, &o, &t);
	else if (!sends)
		receive_all(&e, &o, &t, replies, now() + o.seconds);
	printf("{\"event\":\"end\",\"sent\":%u,\"received\":%u,\"bad\":%u}\n", t.sent, t.received, t.bad);
	return t.bad || (sends ? t.sent : t.received) != o.count ? EXIT_SHORT : 0;
}
