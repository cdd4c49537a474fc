// SPDX-License-Identifier: Apache-2.0

// Package dpdk is the Ethernet port: a thin binding of libdpdk (22.11 or later) in DPDK's own words.
//
//	Init ── EAL ─┬─ NewMempool ── Mempool ── Alloc ── Mbuf
//	             ├─ NewRing ───── Ring ───── Enqueue, Dequeue
//	             └─ OpenPort ──── Port ───── Isolate, Start, CreateFlow, SetMulticast, Stats, Stop, Close
//
//	"mlx5:0000:3b:00.0"  a ConnectX port, shared with the kernel      "ring"           two rings per queue, for tests
//	"af_packet:eth1"     any interface of the kernel's                "null"           frames from and to nowhere
//	"tap:dtap0"          a new interface of the kernel's              "pcap:in[,out]"  capture files
//	"memif:/run/x.sock"  shared memory with another process
//	"tap:dtap0,remote=eth1"  the same as tap, sharing eth1 with the kernel by flow rules
//	"bond:lacp,af_packet:eth1,af_packet:eth2"  several ports as one
//
// A call here is one DPDK call and one errno turned into an error; there is no policy but the arguments each PMD
// needs. Frames do not come through here: the packet path takes Port.ID, Mempool.Pointer and Ring.Pointer to C and
// calls rte_eth_rx_burst itself. struct rte_mbuf stays opaque to Go. The bursts of this package serve tests and tools.
//
// Control calls for one port, mempool or ring must not run at the same time (rte_ethdev.h); this package does not lock
// but for OpenPort and Close, which change the list of devices.
package dpdk
