/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel takes the first VLAN tag of a frame out of it, of 802.1Q (TPID 0x8100) or 802.1ad (0x88a8), and tells
 * which it was; net_af_packet puts it back as one of 802.1Q. Another protocol's tag is another network's: the socket's
 * filter cuts such a frame to 13 bytes, by which, with its tag, it is known (DPDK_OTHER_TAG_LEN).
 */
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dpdk.h"

enum { WHOLE = 1 << 18, CUT = DPDK_OTHER_TAG_LEN - DPDK_TAG_LEN };

int dpdk_cut_other_tags(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(SKF_AD_OFF + SKF_AD_VLAN_TPID)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_8021Q, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, CUT),
		BPF_STMT(BPF_RET | BPF_K, WHOLE),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return (int)syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}
