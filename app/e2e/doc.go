// SPDX-License-Identifier: Apache-2.0

// Package e2e runs Causeway against real RoCE hosts: emulated guests (QEMU, no
// KVM needed) that run Debian's kernel with rdma_rxe and rdma-core's programs.
// All of it but this page is behind the build tag e2e; `make e2e` runs it.
//
//	guest A           guest B        causeway run
//	rxe0/eth0         rxe0/eth0      af_packet:cw0
//	    │                 │               │
//	  tapA              tapB         cw0 ─┴─ cw0p       one network namespace
//	    └──────── br0 ────┴────────────────────┘
//
// In the second topology the bridge is in a guest of its own, C:
//
//	guest A        guest C: causeway run                       guest N
//	rxe0/eth0      eth1 (DPDK)        rxe0/eth2 (verbs)        rxe0/eth0
//	    │            │                   │                       │
//	  tapA        tapC.1              tapC.2                    tapN
//	    └─── br0 ────┘                   └───────── br1 ─────────┘
//
// In the third, D has an adapter with InfiniBand's link layer, and so has M; opensm in D manages the switch between
// them:
//
//	guest A        guest D: causeway run, opensm              guest M
//	rxe0/eth0      eth1 (DPDK)        shca0/eth2 (verbs)        shca0/eth0
//	    │            │                   │                       │
//	  tapA        tapD.1               socket ──── ibswitch ──── socket
//	    └─── br0 ────┘                                │
//	                                            software node
//
// In the fourth, E has two of those adapters, and so has P, each at a switch of its own; E has an opensm for each:
//
//	guest A        guest E: causeway run, two opensm          guest P
//	rxe0/eth0      eth1 (DPDK)        shca0/eth2 (verbs)        shca0/eth0
//	    │            │                   │     └──── switcha ─────┘
//	    │            │                shca1/eth3 (verbs)        shca1/eth1
//	  tapA        tapE.1                       └──── switchb ─────┘
//	    └─── br0 ────┘
//
// The namespace has no name and no way out: it belongs to one thread of the test
// process and ends with it, as do the processes started there. A test that
// panics or is killed leaves nothing behind.
package e2e
