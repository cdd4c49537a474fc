/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells. A UAR's page may only be read, so a store to it traps. The page is opened, the store is carried out alone
 * (single step), and the page is closed again; then what was stored is read and compared with the record and the
 * request. Elsewhere than on x86 there is no single step.
 */
#define _GNU_SOURCE
#include "device.h"

#include "../../../tables/x86.h"

#ifdef CAUSEWAY_X86

#include <endian.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { FIRST_BELL = 0x800, BELL_BYTES = 256, LATE = 48, SINGLE_STEP = 0x100 };

static struct {
	bool held; /* atomic: a store is being carried out */
	uint8_t *page, *at;
	struct sigaction segv, trap;
	bool ready;
} caught;

/* A doorbell is the first 8 bytes of the last request that it is for. */
static void ring(const uint8_t *at)
{
	uint32_t word[2];

	memcpy(word, at, sizeof(word));
	uint16_t index = (uint16_t)(be32toh(word[0]) >> 8);
	uint32_t qpn = be32toh(word[1]) >> 8;
	struct mem_qp *q = mem_qp_of(qpn);
	mem.count.bells++;
	if (!q || q->state < IBV_QPS_RTS) {
		mem_fault("a doorbell for queue pair %#x, which does not send", qpn);
		return;
	}
	uint16_t posted = (uint16_t)be32toh(__atomic_load_n(&q->record[MLX5_SND_DBR], __ATOMIC_ACQUIRE));
	uint32_t units = be32toh(word[1]) & 0x3f, blocks = (units * 16 + BLOCK - 1) / BLOCK;
	if (memcmp(word, q->sq + (size_t)(index & (q->blocks - 1)) * BLOCK, sizeof(word)) != 0)
		mem_fault("queue pair %#x: the doorbell's words are not those of block %u", qpn, index);
	if ((uint16_t)(index + blocks) != posted)
		mem_fault("queue pair %#x: the doorbell is for the request at block %u of %u blocks, but the record "
			  "says %u",
			  qpn, index, blocks, posted);
	q->accused = false;
	__atomic_store_n(&q->rung, posted, __ATOMIC_RELEASE);
}

static bool is_uar(const uint8_t *page)
{
	for (unsigned i = 0; page && i < MAX_UARS; i++)
		if (mem.uar[i] == page)
			return true;
	return false;
}

static void pass_on(const struct sigaction *to, int sig, siginfo_t *info, void *context)
{
	if (to->sa_flags & SA_SIGINFO)
		to->sa_sigaction(sig, info, context);
	else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN)
		to->sa_handler(sig);
	else
		signal(sig, SIG_DFL); /* it comes again, and ends the program */
}

static void on_store(int sig, siginfo_t *info, void *context)
{
	uint8_t *at = info->si_addr, *page = (uint8_t *)((uintptr_t)at & ~(uintptr_t)(UAR_BYTES - 1));

	if (!is_uar(page)) {
		pass_on(&caught.segv, sig, info, context);
		return;
	}
	while (__atomic_exchange_n(&caught.held, true, __ATOMIC_ACQUIRE))
		;
	caught.page = page;
	caught.at = at;
	mprotect(page, UAR_BYTES, PROT_READ | PROT_WRITE);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= SINGLE_STEP;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	if (!__atomic_load_n(&caught.held, __ATOMIC_ACQUIRE)) {
		pass_on(&caught.trap, sig, info, context);
		return;
	}
	unsigned off = (unsigned)(caught.at - caught.page);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)SINGLE_STEP;
	mprotect(caught.page, UAR_BYTES, PROT_READ);
	if (off >= FIRST_BELL && off % BELL_BYTES == 0) /* before it are the bells of completion queues */
		ring(caught.at);
	else if (off >= FIRST_BELL && off % BELL_BYTES == LATE)
		mem.count.blueflame++; /* a request is copied there, by stores of 8 or 16 bytes */
	__atomic_store_n(&caught.held, false, __ATOMIC_RELEASE);
}

/* The program's own handlers stay behind these. Go wants handlers on the signal stack. */
void mem_watch(uint8_t *page)
{
	struct sigaction store = {.sa_sigaction = on_store, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	if (!mem.traps)
		return;
	if (!caught.ready) {
		sigaction(SIGSEGV, &store, &caught.segv);
		sigaction(SIGTRAP, &step, &caught.trap);
		caught.ready = true;
	}
	mprotect(page, UAR_BYTES, PROT_READ);
}

#else

void mem_watch(uint8_t *page)
{
	(void)page;
}

#endif
