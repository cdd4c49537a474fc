// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"

	"causeway/dpdk"
)

// logNodes warns of what is on another NUMA node than those who use it: each packet crosses between the nodes then.
func logNodes(b *Bridge) {
	for _, n := range b.eal.ShortNodes() {
		b.log.Warn("memory_elsewhere", "node", n, "note", "this NUMA node has too few free hugepages: some of what belongs there is on another")
	}
	for _, p := range b.cfg.EthPorts() {
		warnIfFar(b, p.String(), dpdk.NodeOfPort(driverName(p)))
	}
	if p := b.cfg.IB.Port; !p.Fabric {
		warnIfFar(b, ibPortName(p), dpdk.NodeOfHCA(p.Device))
	}
}

func warnIfFar(b *Bridge, port string, node int) {
	for i, lcore := range b.lcores {
		if at := b.eal.Node(lcore); node >= 0 && at >= 0 && at != node {
			b.log.Warn("worker_far", "worker", i, "cpu", b.cfg.Workers.LCores[i], "node", at, "port", port, "port_node", node)
		}
	}
}

// A Place is memory, and the NUMA node that it is on.
type Place struct {
	What  string
	Bytes int // 0: not said
	Node  any // nil: not known
	Page  int // the size of its pages in bytes; 0: not said
}

// Places returns where packets, tables and workers are, and which pages DPDK has.
func (b *Bridge) Places() (all []Place) {
	b.whileOpen(func() {
		all = append(all,
			Place{What: "packets", Bytes: b.pool.Bytes(), Node: known(b.pool.Node())},
			Place{What: "tables", Bytes: b.tables.Bytes(), Node: known(dpdk.NodeOf(b.tables.Pointer()))})
		for i, w := range b.datapath.Workers() {
			all = append(all, Place{What: fmt.Sprintf("worker %d", i), Node: known(dpdk.NodeOf(w.Pointer()))})
		}
		for _, p := range b.eal.Pages() {
			all = append(all, Place{What: "DPDK in all", Bytes: p.N * p.Bytes, Node: known(p.Node), Page: p.Bytes})
		}
	})
	return all
}

func known(node int) any {
	if node < 0 {
		return nil
	}
	return node
}
