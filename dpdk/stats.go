// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

// Stats are a port's counters since it was opened (rte_eth_stats). Not every PMD keeps all of them.
type Stats struct {
	RxPackets, TxPackets uint64
	RxBytes, TxBytes     uint64
	RxMissed             uint64 // the Rx queue was full
	RxErrors, TxErrors   uint64
	RxNoMbuf             uint64 // the mempool was empty
}

// Stats reads the counters.
func (p *Port) Stats() (Stats, error) {
	var s C.struct_dpdk_port_stats
	if err := errno(C.dpdk_port_stats(p.id, &s)); err != nil {
		return Stats{}, portError(p.name, "statistics: %w", err)
	}
	return Stats{
		RxPackets: uint64(s.rx_packets), TxPackets: uint64(s.tx_packets),
		RxBytes: uint64(s.rx_bytes), TxBytes: uint64(s.tx_bytes),
		RxMissed: uint64(s.rx_missed), RxErrors: uint64(s.rx_errors), TxErrors: uint64(s.tx_errors),
		RxNoMbuf: uint64(s.rx_no_mbuf),
	}, nil
}
