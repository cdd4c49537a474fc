// SPDX-License-Identifier: Apache-2.0

package web

import (
	"causeway/app/bridge"
	"causeway/lcore"
)

// ethernetPorts adds each Ethernet port.
func (s *scrape) ethernetPorts(src Source) {
	b, ok := src.(interface{ EthernetPorts() []bridge.EthernetPort })
	if !ok {
		return
	}
	all := b.EthernetPorts()
	for i := range all {
		p := &all[i]
		s.add("causeway_ethernet_port_link_up", truth(p.Link.Up()), "port", p.Name)
		s.add("causeway_ethernet_port_rx_frames_total", p.Stats.RxPackets, "port", p.Name)
		s.add("causeway_ethernet_port_tx_frames_total", p.Stats.TxPackets, "port", p.Name)
		if !p.Stats.RxMissedUnknown {
			s.add("causeway_ethernet_port_rx_missed_total", p.Stats.RxMissed, "port", p.Name)
		}
		for d := range p.Counters {
			c, direction := &p.Counters[d], lcore.Direction(d).String()
			s.add("causeway_ethernet_port_packets_received_total", c.Received, "port", p.Name, "direction", direction)
			s.add("causeway_ethernet_port_packets_sent_total", c.Sent, "port", p.Name, "direction", direction)
			s.add("causeway_ethernet_port_packets_dropped_total", c.Dropped(), "port", p.Name, "direction", direction)
		}
	}
}
