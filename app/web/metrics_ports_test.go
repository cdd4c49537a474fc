// SPDX-License-Identifier: Apache-2.0

package web

import (
	"strings"
	"testing"

	"causeway/app/bridge"
	"causeway/app/bridge/link"
	"causeway/dpdk"
	"causeway/lcore"
)

// EthernetPorts are two ports, of which one is down.
func (fake) EthernetPorts() []bridge.EthernetPort {
	counted := func(n uint64) lcore.DirectionCounters {
		return lcore.DirectionCounters{Received: n, Sent: n - 1, Drops: map[lcore.Drop]uint64{lcore.DropACL: 1}}
	}
	return []bridge.EthernetPort{
		{Port: bridge.Port{Name: "af_packet:eth1"}, Stats: dpdk.Stats{RxPackets: 111, TxPackets: 112, RxMissed: 113}, Counters: lcore.PortCounters{counted(114), counted(116)}},
		{Port: bridge.Port{Name: "af_packet:eth2"}, Stats: dpdk.Stats{RxMissedUnknown: true}, Link: link.State{Reason: link.Carrier}},
	}
}

// TestEthernetPortMetrics checks that each of several ports has its own samples.
func TestEthernetPortMetrics(t *testing.T) {
	var b strings.Builder
	writeMetrics(&b, newFake(), options())
	for _, want := range []string{
		`link_up{port="af_packet:eth1"} 1`, `link_up{port="af_packet:eth2"} 0`, `rx_frames_total{port="af_packet:eth1"} 111`,
		`tx_frames_total{port="af_packet:eth1"} 112`, `rx_missed_total{port="af_packet:eth1"} 113`,
		`packets_received_total{port="af_packet:eth1",direction="roce_to_ib"} 114`, `packets_sent_total{port="af_packet:eth1",direction="roce_to_ib"} 113`,
		`packets_dropped_total{port="af_packet:eth1",direction="roce_to_ib"} 1`, `packets_sent_total{port="af_packet:eth1",direction="ib_to_roce"} 115`,
	} {
		if !strings.Contains(b.String(), "\ncauseway_ethernet_port_"+want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	if strings.Contains(b.String(), `rx_missed_total{port="af_packet:eth2"}`) {
		t.Error("what nobody counts is shown")
	}
}
