// SPDX-License-Identifier: Apache-2.0

package config

import "cmp"

const (
	// mbufOverhead is the size of a packet buffer without the IP packet, in bytes: struct rte_mbuf, headroom, and the
	// Ethernet header with a VLAN tag.
	mbufOverhead = 128 + 128 + 18
	mib          = 1 << 20

	// workerMbufs is how many packet buffers a worker needs by default: for its queues, for what it sends, and for packets
	// that are pending.
	workerMbufs = 16384
	// receiveMbufs are those that it keeps posted at an HCA besides: 1 ms of the rate that workers are planned for.
	receiveMbufs = 8192

	// ringDescs is how many receive descriptors an Ethernet queue has by default: a worker polls it every few
	// microseconds.
	ringDescs = 1024
	// packetRingFrames is the same with af_packet, whose port is the kernel's ring of a packet socket. The kernel fills it
	// whenever it runs, and the worker reads it whenever it has its core: 10 ms at 0.8 million frames a second, which is
	// expected of such a port at most.
	packetRingFrames = 8192
)

// defaultRxDescs returns how many receive descriptors an Ethernet queue has when the file does not say.
func defaultRxDescs(p EthPort) int {
	if p.Kind() == "af_packet" {
		return packetRingFrames
	}
	return ringDescs
}

// mbufBytes is what a packet buffer takes of memory_mib in fact, or a little more, with an MTU of the Ethernet port: it
// holds InfiniBand's largest message, too.
func mbufBytes(mtu int) int {
	const largestMessage, beside = 4800, 640
	return max(largestMessage, mtu+beside)
}

// defaultMbufs returns how many packet buffers there are when the file does not say. The other half of the memory is
// for tables, and for what DPDK cannot use because it is in pieces.
func defaultMbufs(c *Config) int {
	each := workerMbufs
	if !c.IB.Port.Fabric {
		each += cmp.Or(c.Workers.RecvBuffers, receiveMbufs)
	}
	half := c.Workers.MemoryMiB * mib / 2 / mbufBytes(c.RoCE.MTU)
	return max(workerMbufs, min(each*len(c.Workers.LCores), half))
}

// checkMemory reports buffers that do not fit into memory, and too few buffers. Both checks are lower bounds.
func (p *checks) checkMemory(t *table) {
	w := p.cfg.Workers
	need := (w.Mbufs*(p.cfg.RoCE.MTU+mbufOverhead) + mib - 1) / mib
	if need > w.MemoryMiB {
		t.fail("mbufs", "mbufs %d of an MTU of %d need %d MiB, but memory_mib is %d; lower mbufs, or raise memory_mib", w.Mbufs,
			p.cfg.RoCE.MTU, need, w.MemoryMiB)
	}
	if p.cfg.RoCE.Port.Kind() == "af_packet" { // its rings are the kernel's memory
		return
	}
	// A queue holds as many buffers as it has descriptors; with fewer buffers, a port starves.
	each, of, keys := w.RxDescs+w.TxDescs, "descriptors", "rx_descs and tx_descs"
	if w.RecvBuffers > 0 && !p.cfg.IB.Port.Fabric {
		each, of, keys = each+w.RecvBuffers, "descriptors and receive buffers", "rx_descs, tx_descs and recv_buffers"
	}
	if queues := len(w.LCores) * each; w.Mbufs < queues {
		t.fail("mbufs", "mbufs %d are fewer than the %d %s of %d workers; raise mbufs, or lower %s", w.Mbufs, queues, of, len(w.LCores), keys)
	}
}
