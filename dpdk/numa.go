// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cpuNodes returns the NUMA nodes that have CPUs, with these.
func cpuNodes() map[int][]int {
	nodes := map[int][]int{}
	dirs, _ := filepath.Glob(filepath.Join(sysRoot, "sys/devices/system/node/node*"))
	for _, dir := range dirs {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if list, no := os.ReadFile(filepath.Join(dir, "cpulist")); err == nil && no == nil {
			if cpus := parseCPUs(strings.TrimSpace(string(list))); len(cpus) > 0 {
				nodes[n] = cpus
			}
		}
	}
	return nodes
}

// NodeOfCPU returns a CPU's NUMA node, or -1.
func NodeOfCPU(cpu int) int {
	for n, cpus := range cpuNodes() {
		if slices.Contains(cpus, cpu) {
			return n
		}
	}
	return -1
}

// NodeOfPort returns the NUMA node of an Ethernet port, named as for OpenPort; -1: it is not known, or it has none.
func NodeOfPort(name string) int {
	switch kind, arg, _ := strings.Cut(name, ":"); kind {
	case "mlx5":
		return nodeFile("bus/pci/devices", strings.ToLower(arg))
	case "af_packet":
		return nodeFile("class/net", arg, "device")
	case "bond":
		if _, members, err := parseBond(arg); err == nil {
			return NodeOfPort(members[0])
		}
	}
	return -1
}

// NodeOfHCA returns the NUMA node of an RDMA device, or -1.
func NodeOfHCA(device string) int { return nodeFile("class/infiniband", device, "device") }

func nodeFile(device ...string) int {
	at := filepath.Join(append([]string{sysRoot, "sys"}, device...)...)
	return readInt(filepath.Join(at, "numa_node"), -1)
}

// nodeOfPackets is that of the Ethernet port, whose card writes and reads packets, or else that of the first worker. On a
// machine with one node it does not matter.
func nodeOfPackets(config EALConfig) int {
	nodes := cpuNodes()
	if len(nodes) < 2 {
		return -1
	}
	if n := NodeOfPort(config.Port); nodes[n] != nil {
		return n
	}
	if len(config.Workers) == 0 {
		return -1
	}
	return NodeOfCPU(config.Workers[0])
}

// socketMem is the EAL's argument for so much memory, on the node of packets as far as that goes, then on workers'
// nodes, then on others. Left alone, the EAL would go by the numbers of lcores as if they were those of CPUs.
func socketMem(miB, packets int, workers []int) string {
	nodes := cpuNodes()
	order := []int{packets}
	for _, cpu := range workers {
		order = append(order, NodeOfCPU(cpu))
	}
	order = append(order, slices.Sorted(maps.Keys(nodes))...)
	take, left := map[int]int{}, miB
	for _, n := range order {
		if _, taken := take[n]; nodes[n] == nil || taken {
			continue
		}
		take[n] = min(left, freeOnNodeMiB(n))
		left -= take[n]
	}
	if len(nodes) < 2 || left > 0 {
		return fmt.Sprintf("-m%d", miB)
	}
	var list []string
	for n := range slices.Max(slices.Collect(maps.Keys(take))) + 1 {
		list = append(list, strconv.Itoa(take[n]))
	}
	return "--socket-mem=" + strings.Join(list, ",")
}

func freeOnNodeMiB(node int) int {
	return freePagesMiB(fmt.Sprintf("sys/devices/system/node/node%d/hugepages", node))
}

// Node returns the NUMA node of an lcore (of WorkerLcores), or -1.
func (e *EAL) Node(lcore uint) int { return int(C.dpdk_lcore_node(C.uint(lcore))) }

// Pages are the EAL's pages of one size on one NUMA node.
type Pages struct {
	Bytes int // of one
	Node  int
	N     int
}

// Pages returns the pages that the EAL has at present: hugepages, or ordinary ones, whose node is that of each page's
// first use and is not known.
func (e *EAL) Pages() (all []Pages) {
	var list [32]C.struct_dpdk_pages
	for _, p := range list[:C.dpdk_pages(&list[0], C.uint(len(list)))] {
		node := int(p.node)
		if e.noHuge {
			node = -1
		}
		all = append(all, Pages{Bytes: int(p.size), Node: node, N: int(p.n)})
	}
	return all
}

// ShortNodes returns the NUMA nodes that had too little memory left, so that what belongs there is elsewhere.
func (e *EAL) ShortNodes() (nodes []int) {
	for n := range cpuNodes() {
		if C.dpdk_short(C.uint(n)) > 0 {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// RegisterThread makes the calling thread an lcore of DPDK, with caches of its own in mempools, until unregister is called
// on it: the goroutine must be locked to it. Nothing is launched on such an lcore.
func RegisterThread() (lcore uint, unregister func(), err error) {
	var id C.uint
	if err := errno(C.dpdk_thread_register(&id)); err != nil {
		return 0, nil, fmt.Errorf("dpdk: make a thread an lcore: %w", why(err))
	}
	return uint(id), func() { C.dpdk_thread_unregister() }, nil
}
