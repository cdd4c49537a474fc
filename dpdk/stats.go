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

// Capabilities are what a port can beyond carrying frames.
type Capabilities struct {
	Driver                   string
	Flow                     bool   // rte_flow works: a rule was made and destroyed
	FlowFault                string // why it does not
	RSS                      bool   // the device spreads frames over queues by address
	RSSSourceOnly            bool   // by source address alone
	MaxRxQueues, MaxTxQueues int
	MaxMTU                   int // by the PMD; af_packet and memif say 1500 and carry more
}

// Capabilities asks the PMD. Whether rte_flow works is found out by making a rule, for ethertype 0x8915, since
// some PMDs validate what they cannot do: ask between Start and the first frame.
func (p *Port) Capabilities() (Capabilities, error) {
	var info C.struct_dpdk_port_info
	if err := errno(C.dpdk_port_info(p.id, &info)); err != nil {
		return Capabilities{}, portError(p.name, "capabilities: %w", err)
	}
	c := Capabilities{
		Driver: p.driver, RSS: info.rss != 0, RSSSourceOnly: bool(info.rss_l3_src_only),
		MaxRxQueues: int(info.max_rx_queues), MaxTxQueues: int(info.max_tx_queues), MaxMTU: int(info.max_mtu),
	}
	flow, err := p.CreateFlow(Rule{Match: MatchRoCEv1, Queues: []uint16{0}})
	if err == nil {
		err = flow.Destroy()
	}
	c.Flow = err == nil
	if err != nil {
		c.FlowFault = err.Error()
	}
	return c, nil
}
