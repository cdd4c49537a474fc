// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

// Stats are a port's counters since it was opened (rte_eth_stats), and those that the kernel has for its PMD. Not every
// PMD keeps all of them.
type Stats struct {
	RxPackets, TxPackets uint64 // sent: to the device or the kernel's interface
	RxBytes, TxBytes     uint64
	RxMissed             uint64 // the Rx queue was full
	RxMissedUnknown      bool   // nobody on this machine counts those, and RxMissed is 0
	// By the kernel's interface, before the port; among them may be frames of protocols that nobody receives.
	RxDropped uint64
	RxErrors  uint64
	// Could not be sent; where the port has the kernel's interface, also what that dropped afterwards.
	TxErrors uint64
	RxNoMbuf uint64 // the mempool was empty
}

// Stats reads the counters.
func (p *Port) Stats() (Stats, error) {
	if p.bond != nil {
		return p.bond.stats()
	}
	var s C.struct_dpdk_port_stats
	if err := errno(C.dpdk_port_stats(p.id, &s)); err != nil {
		return Stats{}, portError(p.name, "statistics: %w", err)
	}
	out := Stats{
		RxPackets: uint64(s.rx_packets), TxPackets: uint64(s.tx_packets),
		RxBytes: uint64(s.rx_bytes), TxBytes: uint64(s.tx_bytes),
		RxMissed: uint64(s.rx_missed), RxErrors: uint64(s.rx_errors), TxErrors: uint64(s.tx_errors),
		RxNoMbuf: uint64(s.rx_no_mbuf), RxMissedUnknown: p.plan.misses == missesUnknown,
	}
	if p.missed != nil {
		out.RxMissed += p.missed.read()
	}
	if p.dropped != nil {
		rx, tx, stale := p.dropped.read()
		out.RxDropped += rx
		out.TxErrors += tx + stale
		out.TxPackets -= min(stale, out.TxPackets)
	}
	out.add(&p.before)
	return out, nil
}

// add adds an earlier port's counters.
func (s *Stats) add(o *Stats) {
	s.RxPackets, s.TxPackets = s.RxPackets+o.RxPackets, s.TxPackets+o.TxPackets
	s.RxBytes, s.TxBytes = s.RxBytes+o.RxBytes, s.TxBytes+o.TxBytes
	s.RxMissed, s.RxNoMbuf = s.RxMissed+o.RxMissed, s.RxNoMbuf+o.RxNoMbuf
	s.RxDropped += o.RxDropped
	s.RxErrors, s.TxErrors = s.RxErrors+o.RxErrors, s.TxErrors+o.TxErrors
	s.RxMissedUnknown = s.RxMissedUnknown || o.RxMissedUnknown
}
