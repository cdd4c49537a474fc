// SPDX-License-Identifier: Apache-2.0

package web

import (
	"strconv"

	"causeway/ibside/multipath"
)

// severalPorts is a source that may have several InfiniBand ports.
type severalPorts interface {
	Fabrics() []multipath.Report // nil: one port
	FabricSwitches() uint64
}

var byPort = []string{"port", "fabric"}

// fabricMetrics have samples with several [[ib]] only.
var fabricMetrics = []Metric{
	{"causeway_fabric_port_up", gauge, byPort, "1 when messages can pass this one of several InfiniBand ports."},
	{"causeway_fabric_sm_answers", gauge, byPort, "1 when the port's subnet manager answers. Without one, everything that flows goes on."},
	{"causeway_fabric_loss_ratio", gauge, byPort, "The share of messages that the port itself lost lately."},
	{"causeway_fabric_groups_active", gauge, byPort, "Groups whose messages go by the port."},
	{"causeway_fabric_groups_missing", gauge, byPort, "Groups that are not joined on the port."},
	{"causeway_fabric_nodes_active", gauge, byPort, "Nodes to which messages go by the port."},
	{"causeway_fabric_sent_total", counter, byPort, "Messages that the port took from workers."},
	{"causeway_fabric_full_total", counter, byPort, "Messages that were lost because the port took no more; also in causeway_ib_port_lost_total."},
	{"causeway_fabric_received_total", counter, byPort, "Messages that workers received from the port."},
	{"causeway_fabric_standby_total", counter, byPort, "Of those received: dropped because their group is taken from another port (standby_port)."},
	{"causeway_fabric_duplicates_total", counter, byPort, "Of those received: dropped because another port had brought them (duplicate)."},
	{"causeway_fabric_switches_total", counter, nil, "Changes of a group's or node's port."},
}

func (s *scrape) fabrics(src Source) {
	b, ok := src.(severalPorts)
	if !ok {
		return
	}
	all := b.Fabrics()
	for _, f := range all {
		of := []string{"port", f.Name, "fabric", f.Fabric}
		s.boolean("causeway_fabric_port_up", f.Down == "", of...)
		s.boolean("causeway_fabric_sm_answers", f.Down == "" && !f.SMSilent, of...)
		s.sample("causeway_fabric_loss_ratio", "", strconv.FormatFloat(f.Loss, 'g', 4, 64), of)
		n := &f.Counters
		for name, v := range map[string]uint64{
			"groups_active": uint64(f.ActiveGroups), "groups_missing": uint64(f.Missing), "nodes_active": uint64(f.ActiveNodes), "sent_total": n.Sent,
			"full_total": n.Full, "received_total": n.Received, "standby_total": n.Standby, "duplicates_total": n.Duplicate,
		} {
			s.add("causeway_fabric_"+name, v, of...)
		}
	}
	if len(all) > 0 {
		s.add("causeway_fabric_switches_total", b.FabricSwitches())
	}
}
