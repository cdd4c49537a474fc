// SPDX-License-Identifier: Apache-2.0

/* Preloaded (LD_PRELOAD, ld.so(8)) into a program that ends when it cannot set the MTU of a port. It hides the errors
 * of ports without an MTU, such as net_memif's, and of ports that take longer frames than they report, such as
 * net_af_packet's. Other errors are returned. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

typedef int set_mtu(uint16_t port, uint16_t mtu);

set_mtu rte_eth_dev_set_mtu;

int rte_eth_dev_set_mtu(uint16_t port, uint16_t mtu)
{
	set_mtu *next = (set_mtu *)dlsym(RTLD_NEXT, "rte_eth_dev_set_mtu");
	int ret = next ? next(port, mtu) : -ENOSYS;

	return ret == -ENOTSUP || ret == -EINVAL ? 0 : ret;
}
