/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <asm/ioctls.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../tables/x86.h"

#ifdef CAUSEWAY_X86
#define TRAPS true
#else
#define TRAPS false
#endif

#define SETTINGS                                                                                                       \
	{                                                                                                              \
		.traps = TRAPS, .max_qp = MAX_QPS, .max_srq_wr = (1 << 15) - 1, .max_cqe = (1 << 22) - 1,              \
		.max_send_bytes = 1024, .state = IBV_PORT_ACTIVE, .mtu = IBV_MTU_4096, .lid = 7, .sm_lid = 1,          \
	}

struct mlx5mem_settings mlx5mem = SETTINGS;
struct mem_device mem = {
	.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
	.gids = {{0xfe, 0x80, [8] = 2, [15] = 1}},
	.pkeys = {0xffff},
};
static char faults[4096];

void mlx5mem_default(void)
{
	mlx5mem = (struct mlx5mem_settings)SETTINGS;
}

void mem_lock(void)
{
	pthread_mutex_lock(&mem.lock);
}

void mem_unlock(void)
{
	pthread_mutex_unlock(&mem.lock);
}

void mem_fault(const char *format, ...)
{
	size_t n = strlen(faults);
	va_list a;

	mem.count.faults++;
	va_start(a, format);
	int more = vsnprintf(faults + n, sizeof(faults) - n, format, a);
	va_end(a);
	if (more < 0 || n + (size_t)more + 2 > sizeof(faults))
		faults[n] = 0; /* there is no room for it */
	else
		strcpy(faults + n + (size_t)more, "\n");
}

const char *mlx5mem_faults(void)
{
	return faults;
}

void mlx5mem_forget_faults(void)
{
	mem_lock();
	faults[0] = 0;
	mem.count.faults = 0;
	mem_unlock();
}

struct mlx5mem_counters mlx5mem_count(void)
{
	mem_lock();
	struct mlx5mem_counters c = mem.count;
	mem_unlock();
	return c;
}

void *mem_make(void *table, size_t n, size_t size, int context)
{
	for (char *at = table; at < (char *)table + n * size; at += size) {
		struct mem_object *o = (struct mem_object *)at;
		if (o->used)
			continue;
		memset(at, 0, size);
		o->used = true;
		o->context = context;
		mem.count.live++;
		return at;
	}
	return NULL;
}

void mem_end(struct mem_object *o)
{
	if (o->used)
		mem.count.live--;
	o->used = false;
}

struct mem_qp *mem_qp_of(uint32_t qpn)
{
	uint32_t i = qpn - MLX5MEM_FIRST_QPN;

	return MEM_OF(mem.qp, i);
}

struct mem_pd *mem_pd_of(uint32_t handle)
{
	return MEM_OF(mem.pd, handle);
}

bool mem_may(uint32_t lkey, uint32_t pd, uint64_t addr, uint32_t len, bool writing, const char *who, uint32_t number)
{
	const struct mem_mr *m = MEM_OF(mem.mr, lkey >> 8);

	if (!m || m->generation != (lkey & 0xff))
		mem_fault("%s %#x: no region has the key %#x", who, number, lkey);
	else if (m->pd != pd)
		mem_fault("%s %#x: the region of key %#x is of another protection domain", who, number, lkey);
	else if (addr < m->start || addr > m->end || len > m->end - addr)
		mem_fault("%s %#x: %u bytes at %#lx are not in the region of key %#x", who, number, len, (long)addr,
			  lkey);
	else if (writing && !m->writable)
		mem_fault("%s %#x: the region of key %#x may not be written", who, number, lkey);
	else
		return true;
	return false;
}

static void fail(struct mem_failure *f, uint32_t qpn, unsigned skip, uint8_t syndrome)
{
	mem_lock();
	*f = (struct mem_failure){.syndrome = syndrome, .qpn = qpn, .skip = skip};
	mem_unlock();
}

void mlx5mem_fail_send(uint32_t qpn, unsigned skip, uint8_t syndrome)
{
	fail(&mem.send_failure, qpn, skip, syndrome);
}

void mlx5mem_fail_receive(uint32_t qpn, unsigned skip, uint8_t syndrome)
{
	fail(&mem.receive_failure, qpn, skip, syndrome);
}

uint8_t mem_take_failure(struct mem_failure *f, uint32_t qpn)
{
	if (!f->syndrome || (f->qpn && f->qpn != qpn))
		return 0;
	if (f->skip > 0) {
		f->skip--;
		return 0;
	}
	uint8_t s = f->syndrome;
	f->syndrome = 0;
	return s;
}

/* Not by the library's function, because that one is ours (calls.c). */
void mem_tell(int fd, const void *what, size_t len)
{
	if (syscall(SYS_write, fd, what, len) != (long)len)
		mem_fault("an event was not told: the program takes none");
}

uint32_t mem_untell(int reader, int writer, uint64_t element, size_t len)
{
	uint64_t e[2];
	uint32_t removed = 0;
	int bytes = 0;

	if (writer < 0 || syscall(SYS_ioctl, reader, FIONREAD, &bytes) < 0)
		return 0;
	for (; bytes >= (int)len && syscall(SYS_read, reader, e, len) == (long)len; bytes -= (int)len) {
		if (e[0] == element)
			removed++;
		else
			mem_tell(writer, e, len);
	}
	return removed;
}

static void tell(struct mem_object *o, uint32_t type, uint64_t element)
{
	struct ib_uverbs_async_event_desc e = {.element = element, .event_type = type};

	o->events++;
	mem_tell(mem.context[o->context].events, &e, sizeof(e));
}

static void tell_all(uint32_t type)
{
	for (unsigned i = 0; i < MAX_CONTEXTS; i++)
		if (mem.context[i].o.used)
			tell(&(struct mem_object){.context = (int)i}, type, 1);
}

void mlx5mem_event(uint32_t type, uint32_t qpn)
{
	mem_lock();
	struct mem_qp *q = mem_qp_of(qpn);
	if (qpn == 0)
		tell_all(type);
	else if (!q)
		mem_fault("an event of queue pair %#x, which there is not", qpn);
	else if (type == IBV_EVENT_CQ_ERR)
		tell(&q->recv_cq->o, type, q->recv_cq->user);
	else if (type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED)
		tell(&q->rq->o, type, q->rq->user);
	else
		tell(&q->o, type, q->user);
	mem_unlock();
}

void mem_request(const struct mem_command *c, size_t core, void *to, size_t len)
{
	size_t n = c->in_len > core ? c->in_len - core : 0;

	memset(to, 0, len);
	memcpy(to, c->in + core, n < len ? n : len);
}

void mem_answer(const struct mem_command *c, const void *core, size_t core_len, const void *mlx5, size_t mlx5_len)
{
	size_t room = c->out_len > core_len ? c->out_len - core_len : 0;

	memcpy(c->out, core, core_len < c->out_len ? core_len : c->out_len);
	if (mlx5)
		memcpy(c->out + core_len, mlx5, mlx5_len < room ? mlx5_len : room);
}
