/* SPDX-License-Identifier: Apache-2.0 */
/* Takes system calls away from a worker's thread, which parses packets from both networks. */
#ifndef CAUSEWAY_CONFINE_H
#define CAUSEWAY_CONFINE_H

/* Confines the calling thread, for good: it can sleep, use the files and sockets that are open, and manage memory that
 * is not executable. All other system calls fail with EPERM, and the kernel logs them (seccomp(2), audit type 1326).
 * Returns 0 or a negative errno. A second call does nothing. With sanitizers, which need more, none does anything. */
int confine(void);

/* The same, for rte_eal_remote_launch(). */
int confine_lcore(void *);

#endif
