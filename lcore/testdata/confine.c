/* SPDX-License-Identifier: Apache-2.0 */
/* Confines a thread, and tries system calls in it: for confine_test.go. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <pthread.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../confine.h"

static int failures, epoll;

static void expect(const char *what, long rc, bool works)
{
	bool refused = rc == -1 && errno == EPERM;
	if (refused == works)
		printf("%s: %s\n", what, works ? "refused" : "not refused"), failures++;
}

static void try_refused(void)
{
	char *const none[] = {NULL};
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect("mmap", page == MAP_FAILED ? -1 : 0, true);
	expect("mprotect", mprotect(page, 4096, PROT_READ), true);
	expect("mprotect, executable", mprotect(page, 4096, PROT_READ | PROT_EXEC), false);
	expect("mmap, executable",
	       mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0,
	       false);
	expect("munmap", munmap(page, 4096), true);
	expect("open", open("/dev/null", O_RDONLY), false);
	expect("openat2", syscall(SYS_openat2, AT_FDCWD, "/dev/null", NULL, 0), false);
	expect("socket", socket(AF_INET, SOCK_DGRAM, 0), false);
	expect("execve", execve("/bin/true", none, none), false);
	expect("clone", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), false);
	expect("kill", kill(getppid(), 0), false);
	expect("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0), false);
	expect("io_uring_setup", syscall(SYS_io_uring_setup, 1, NULL), false);
	expect("process_vm_writev", syscall(SYS_process_vm_writev, getpid(), NULL, 0, NULL, 0, 0), false);
	expect("tgkill of another process", syscall(SYS_tgkill, 1, 1, 0), false);
	expect("an ioctl of terminals", ioctl(0, TIOCSTI, "x"), false);
	expect("setting an interface's flags", ioctl(epoll, SIOCSIFFLAGS, NULL), false);
	expect("epoll_create1", epoll_create1(0), false);
	expect("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_DEL, epoll, NULL), false);
}

static void try_allowed(int fd)
{
	char c = 'x';
	struct timespec nap = {.tv_nsec = 1000};
	struct epoll_event event;
	expect("write", write(fd, &c, 1), true);
	expect("sendto", sendto(fd, &c, 1, MSG_DONTWAIT, NULL, 0), true);
	expect("nanosleep", nanosleep(&nap, NULL), true);
	expect("epoll_wait", epoll_wait(epoll, &event, 1, 0), true);
	expect("epoll_pwait", epoll_pwait(epoll, &event, 1, 0, NULL), true);
	expect("futex", syscall(SYS_futex, &failures, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0), true);
	expect("an ioctl of RDMA devices", ioctl(fd, RDMA_VERBS_IOCTL, NULL), true);
	struct ifreq lo = {.ifr_name = "lo"};
	struct sockaddr_storage at;
	socklen_t len = sizeof at;
	expect("getsockname", getsockname(fd, (struct sockaddr *)&at, &len), true);
	expect("an interface's flags", ioctl(fd, SIOCGIFFLAGS, &lo), true);
	expect("tgkill of this process", syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0), true);
	void *more = malloc(64 << 20);
	expect("malloc", more ? 0 : -1, true);
	free(more);
}

static void *confined(void *fd)
{
	assert(confine() == 0);
	assert(confine() == 0);
	try_refused();
	try_allowed(*(int *)fd);
	return NULL;
}

/* What a service manager does that does not know seccomp(2). */
static void refuse_seccomp(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
	assert(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	assert(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	assert(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EPERM);
}

int main(int argc, char **argv)
{
	int pair[2];
	pthread_t thread;
	assert(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && (epoll = epoll_create1(0)) >= 0);
	if (argc > 1 && strcmp(argv[1], "abort") == 0) {
		assert(confine() == 0);
		abort();
	}
	if (argc > 1 && strcmp(argv[1], "refused") == 0)
		refuse_seccomp();
	assert(pthread_create(&thread, NULL, confined, &pair[0]) == 0 && pthread_join(thread, NULL) == 0);
	expect("open in another thread", open("/dev/null", O_RDONLY), true);
	printf("%d failures\n", failures);
	return failures != 0;
}
