// SPDX-License-Identifier: Apache-2.0

package command

import (
	"causeway/app/bridge"
	"causeway/lcore"
)

// ethernetPorts returns the Ethernet ports, where the target knows.
func ethernetPorts(b Target) []bridge.EthernetPort {
	if x, ok := b.(interface{ EthernetPorts() []bridge.EthernetPort }); ok {
		return x.EthernetPorts()
	}
	return nil
}

// ethernetPart is what show ports shows of several Ethernet ports; false: there is one.
func ethernetPart(b Target) (Part, bool) {
	part := Part{Name: "ethernet ports", Columns: columns("port", "number", "link", "MAC", "MTU", "received frames", "sent frames", "missed", "to IB", "dropped", "to RoCE", "full"),
		Note: "to IB and dropped: RoCE packets that came by the port. to RoCE: messages that left by it; full: it did not take them (eth_full). The part ethernet has the sums of all ports."}
	all := ethernetPorts(b)
	for _, p := range all {
		in, out := &p.Counters[lcore.RoCEToIB], &p.Counters[lcore.IBToRoCE]
		part.Rows = append(part.Rows, []any{p.Name, p.Number, upDown(p.Link.Up()), p.MAC, p.MTU, p.Stats.RxPackets, p.Stats.TxPackets, missed(&p.Stats), in.Sent, in.Dropped(), out.Sent, out.Dropped()})
	}
	return part, len(all) > 1
}
