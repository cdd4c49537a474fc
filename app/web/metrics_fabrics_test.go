// SPDX-License-Identifier: Apache-2.0

package web

import (
	"strings"
	"testing"

	"causeway/ibside/multipath"
)

// Fabrics are two ports, of which one is down.
func (fake) Fabrics() []multipath.Report {
	return []multipath.Report{
		{Name: "a", Fabric: "left", ActiveGroups: 61, Groups: 62, Missing: 63, ActiveNodes: 64, Loss: 0.25,
			Counters: multipath.Counters{Posted: 65, Sent: 66, Full: 67, Received: 68, Standby: 69, Duplicate: 70}},
		{Name: "b", Fabric: "right", Down: "cut", SMSilent: true},
	}
}

func (fake) FabricSwitches() uint64 { return 71 }

func TestFabricMetrics(t *testing.T) {
	var b strings.Builder
	writeMetrics(&b, newFake(), options())
	for _, want := range []string{
		`causeway_fabric_port_up{port="a",fabric="left"} 1`, `causeway_fabric_port_up{port="b",fabric="right"} 0`,
		`causeway_fabric_sm_answers{port="b",fabric="right"} 0`, `causeway_fabric_loss_ratio{port="a",fabric="left"} 0.25`,
		`causeway_fabric_groups_active{port="a",fabric="left"} 61`, `causeway_fabric_groups_missing{port="a",fabric="left"} 63`,
		`causeway_fabric_nodes_active{port="a",fabric="left"} 64`, `causeway_fabric_sent_total{port="a",fabric="left"} 66`,
		`causeway_fabric_full_total{port="a",fabric="left"} 67`, `causeway_fabric_received_total{port="a",fabric="left"} 68`,
		`causeway_fabric_standby_total{port="a",fabric="left"} 69`, `causeway_fabric_duplicates_total{port="a",fabric="left"} 70`,
		`causeway_fabric_switches_total 71`,
	} {
		if !strings.Contains(b.String(), "\n"+want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
}
