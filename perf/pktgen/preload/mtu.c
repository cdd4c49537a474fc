// SPDX-License-Identifier: Apache-2.0

/* Has a program that sets the MTU of every port, and ends where it cannot, run on ports that have none to set, such as
 * net_memif's, or believe that they carry less than they do, such as net_af_packet's. Other failures stay failures. It
 * is preloaded; see ld.so(8), LD_PRELOAD. */

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
	int ret = next != NULL ? next(port, mtu) : -ENOSYS;

	return ret == -ENOTSUP || ret == -EINVAL ? 0 : ret;
}
