/* SPDX-License-Identifier: Apache-2.0 */
#include "confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <rte_common.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONFINES false
#else
#define CONFINES true
#endif

#ifdef __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE AUDIT_ARCH_X86_64
#endif

/* A system call that is allowed where the lower half of an argument, masked, has a value. */
struct allowed {
	uint32_t number;
	uint32_t argument, mask, value;
};

enum {
	IOCTL_TYPE = 0xff00,
	RDMA_IOCTL = 0x1b00, /* RDMA_IOCTL_MAGIC: not, say, TIOCSTI, which types on a terminal */
};

/* In the order of their frequency. */
static const struct allowed allowed[] = {
	/* sleeping, when idle: until one of the files of an epoll instance that is there is ready, or for a time */
	{.number = SYS_epoll_pwait},
#ifdef SYS_epoll_wait
	{.number = SYS_epoll_wait},
#endif
	{.number = SYS_clock_nanosleep},
	{.number = SYS_nanosleep},
	/* af_packet, tap, memif, pcap, and kernel drivers of verbs */
	{.number = SYS_sendto},
	{.number = SYS_sendmsg},
	{.number = SYS_read},
	{.number = SYS_readv},
	{.number = SYS_write},
	{.number = SYS_writev},
	{.number = SYS_recvfrom},
	{.number = SYS_recvmsg},
	{.number = SYS_ppoll},
#ifdef SYS_poll
	{.number = SYS_poll},
#endif
	{.number = SYS_lseek},
	{.number = SYS_ioctl, .argument = 1, .mask = IOCTL_TYPE, .value = RDMA_IOCTL},
	/* dpdk/stale.c: whether the interface of a socket that does not send has a carrier */
	{.number = SYS_getsockname},
	{.number = SYS_ioctl, .argument = 1, .mask = UINT32_MAX, .value = SIOCGIFNAME},
	{.number = SYS_ioctl, .argument = 1, .mask = UINT32_MAX, .value = SIOCGIFFLAGS},
	/* libc: locks, clocks of virtual machines, memory */
	{.number = SYS_futex},
	{.number = SYS_sched_yield},
	{.number = SYS_clock_gettime},
	{.number = SYS_gettimeofday},
	{.number = SYS_getcpu},
	{.number = SYS_brk},
	{.number = SYS_mmap, .argument = 2, .mask = PROT_EXEC},
	{.number = SYS_mprotect, .argument = 2, .mask = PROT_EXEC},
	{.number = SYS_munmap},
	{.number = SYS_madvise},
	/* a signal, the end */
	{.number = SYS_rt_sigprocmask},
	{.number = SYS_rt_sigreturn},
	{.number = SYS_restart_syscall},
	{.number = SYS_getpid},
	{.number = SYS_gettid},
	{.number = SYS_exit},
	{.number = SYS_exit_group},
};

enum { PER_CALL = 6, MOST = 6 + PER_CALL * (RTE_DIM(allowed) + 1) };

struct program {
	unsigned n;
	struct sock_filter code[MOST];
};

static void add(struct program *p, uint16_t code, uint32_t k, uint8_t skip_unless)
{
	p->code[p->n++] = (struct sock_filter)BPF_JUMP(code, k, 0, skip_unless);
}

static void load(struct program *p, size_t offset)
{
	add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0);
}

static void answer(struct program *p, uint32_t action)
{
	add(p, BPF_RET | BPF_K, action, 0);
}

static void refuse(struct program *p)
{
	answer(p, SECCOMP_RET_ERRNO | EPERM);
}

/* Expects the number of the system call in the accumulator, and leaves it there unless it allows the call. */
static void allow(struct program *p, const struct allowed *a)
{
	add(p, BPF_JMP | BPF_JEQ | BPF_K, a->number, a->mask ? 5 : 1);
	if (a->mask) {
		load(p, offsetof(struct seccomp_data, args) + 8 * a->argument);
		add(p, BPF_ALU | BPF_AND | BPF_K, a->mask, 0);
		add(p, BPF_JMP | BPF_JEQ | BPF_K, a->value, 1);
		answer(p, SECCOMP_RET_ALLOW);
		load(p, offsetof(struct seccomp_data, nr));
		return;
	}
	answer(p, SECCOMP_RET_ALLOW);
}

static void write_program(struct program *p)
{
	load(p, offsetof(struct seccomp_data, arch));
	add(p, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1);
	add(p, BPF_JMP | BPF_JA, 1, 0);
	refuse(p); /* 32-bit calls have other numbers */
	load(p, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < RTE_DIM(allowed); i++)
		allow(p, &allowed[i]);
	/* abort() */
	allow(p, &(struct allowed){.number = SYS_tgkill, .mask = UINT32_MAX, .value = (uint32_t)getpid()});
	refuse(p);
}

/* A service manager that does not allow seccomp(2) allows prctl(2), by which the kernel logs nothing. */
static int install(const struct sock_fprog *filter)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, filter) == 0)
		return 0;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter) ? -errno : 0;
}

int confine(void)
{
	static __thread bool done;
	struct program p = {0};
	if (done || !CONFINES)
		return 0;
	write_program(&p);
	struct sock_fprog filter = {.len = (unsigned short)p.n, .filter = p.code};
	int rc = install(&filter);
	done = rc == 0;
	return rc;
}

int confine_lcore(void *unused)
{
	(void)unused;
	return confine();
}
