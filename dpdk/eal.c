/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#define ALLOW_EXPERIMENTAL_API /* rte_intr_instance_alloc(3) and its like: there is no other way in 22.11 */
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_interrupts.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_version.h>

#include "dpdk.h"

enum { LOG_SIZE = 8192, MAX_ARGS = 256 };

/* DPDK's log, kept instead of printed, so that errors can quote it. */
static struct {
	pthread_mutex_t lock;
	char text[LOG_SIZE];
	unsigned len;
} captured = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Appends; when full, drops the older half. */
static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	size_t n = len < LOG_SIZE / 2 ? len : LOG_SIZE / 2;
	pthread_mutex_lock(&captured.lock);
	if (captured.len + n >= LOG_SIZE) {
		memmove(captured.text, captured.text + LOG_SIZE / 2, captured.len - LOG_SIZE / 2);
		captured.len -= LOG_SIZE / 2;
	}
	memcpy(captured.text + captured.len, text, n);
	captured.len += n;
	pthread_mutex_unlock(&captured.lock);
	return (ssize_t)len;
}

void dpdk_log_copy(char *out, unsigned size)
{
	pthread_mutex_lock(&captured.lock);
	unsigned n = captured.len < size ? captured.len : size - 1;
	memcpy(out, captured.text + captured.len - n, n);
	out[n] = 0;
	pthread_mutex_unlock(&captured.lock);
}

void dpdk_log_clear(void)
{
	pthread_mutex_lock(&captured.lock);
	captured.len = 0;
	pthread_mutex_unlock(&captured.lock);
}

static FILE *stream;

static int capture_log(void)
{
	stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_write});
	if (!stream)
		return -ENOMEM;
	setvbuf(stream, NULL, _IOLBF, 0);
	return rte_openlog_stream(stream);
}

struct start {
	char *argv[MAX_ARGS + 1];
	int argc;
	int result;
};

static void *start_eal(void *arg)
{
	struct start *s = arg;
	s->result = rte_eal_init(s->argc, s->argv) < 0 ? -rte_errno : 0;
	return NULL;
}

/* Runs rte_eal_init() on a thread of its own. It pins its caller and marks it as the main lcore, neither of which
 * may happen to a Go thread, and the EAL's threads inherit its signal mask: with everything blocked, no signal
 * is ever handled on an lcore. The main lcore is left without a thread; nothing is ever launched on it. */
static int run_start(struct start *s)
{
	sigset_t all, old;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int err = pthread_create(&thread, NULL, start_eal, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err != 0)
		return -err;
	pthread_join(thread, NULL);
	return s->result;
}

int dpdk_eal_init(const char *args)
{
	static struct start s; /* the EAL keeps pointers into argv */
	char *rest = strdup(args);
	char *save = NULL;
	FILE *real = stderr;

	if (!rest || capture_log() < 0)
		return -ENOMEM;
	s.argc = 0;
	for (char *a = strtok_r(rest, "\n", &save); a && s.argc < MAX_ARGS; a = strtok_r(NULL, "\n", &save))
		s.argv[s.argc++] = a;
	s.argv[s.argc] = NULL;
	stderr = stream; /* the EAL prints fatal errors there, too; glibc allows the assignment, and Go does not use it
			  */
	int err = run_start(&s);
	stderr = real;
	return err;
}

static sem_t parked;

static void park(void *unused)
{
	(void)unused;
	sem_post(&parked);
	for (;;)
		pause();
}

/* The EAL's interrupt thread runs on while rte_eal_cleanup() unmaps what it reads, and crashed one process in twenty
 * there. A callback that never returns parks it until the process ends. Before that, the thread frees what closed ports
 * left to it. The callback is not an alarm, because the clean-up waits for alarms. */
static void park_interrupts(void)
{
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	int event = eventfd(1, EFD_CLOEXEC);
	struct timespec until;

	if (!handle || event < 0 || sem_init(&parked, 0, 0) < 0)
		return;
	if (rte_intr_fd_set(handle, event) < 0 || rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) < 0 ||
	    rte_intr_callback_register(handle, park, NULL) < 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++; /* a thread that is stuck in a driver must not keep the process */
	while (sem_clockwait(&parked, CLOCK_MONOTONIC, &until) < 0 && errno == EINTR)
		;
}

int dpdk_eal_cleanup(void)
{
	park_interrupts();
	return rte_eal_cleanup();
}

const char *dpdk_version(void)
{
	return rte_version();
}

/* The major number of the ABI, by which Debian names the PMD packages: it changes with each November release. */
unsigned dpdk_abi(void)
{
	return RTE_VER_YEAR + (RTE_VER_MONTH >= 11 ? 1 : 0);
}

int dpdk_usable_cpus(int *cpus, int n)
{
	cpu_set_t set;
	int found = 0;

	/* The process' first thread, not the caller: Go's threads may be pinned. */
	if (sched_getaffinity(getpid(), sizeof(set), &set) < 0)
		return -errno;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < n; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[found++] = cpu;
	return found;
}

bool dpdk_driver_loaded(const char *driver)
{
	char so[96];

	snprintf(so, sizeof(so), "librte_%s.so.%u", driver, dpdk_abi());
	void *h = dlopen(so, RTLD_NOLOAD | RTLD_LAZY);
	if (!h)
		return false;
	dlclose(h);
	return true;
}

void dpdk_heap(uint64_t *total, uint64_t *unused)
{
	struct rte_malloc_socket_stats stats;

	*total = *unused = 0;
	for (int socket = 0; socket < RTE_MAX_NUMA_NODES; socket++) {
		if (rte_malloc_get_socket_stats(socket, &stats) < 0)
			continue;
		*total += stats.heap_totalsz_bytes;
		*unused += stats.heap_freesz_bytes;
	}
}

int dpdk_netdev_set_mtu(const char *interface, int mtu)
{
	struct ifreq request = {.ifr_mtu = mtu};
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -errno;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	int err = ioctl(s, SIOCSIFMTU, &request) < 0 ? -errno : 0;
	close(s);
	return err;
}
