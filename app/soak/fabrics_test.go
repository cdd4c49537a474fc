// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"strings"
)

// Faults of one of two fabrics. The other carries everything meanwhile.

// onFabric has faults act on one of two fabrics. What goes to nodes may also be overtaken then: on its way by the one fabric
// by what is sent later by the other.
const onFabric = "fabric"

var fabricFaults = []func(r *rig) fault{fabricCut, portPreferred}

// fabricCut cuts the bridge's port off a fabric, for as long as the same fault is not drawn again: then it is mended,
// which costs nothing. A cut costs only messages that go by that fabric.
func fabricCut(r *rig) fault {
	if i := r.isCut; i >= 0 {
		return fault{name: "fabric " + fabricName(i) + " is mended", on: onFabric, do: func() error {
			r.isCut = -1
			return r.ask("mend " + fabricName(i))
		}}
	}
	i := r.random.IntN(r.bridge.fabrics)
	used := -1.0
	return fault{name: "fabric " + fabricName(i) + " is cut", on: onFabric,
		hits: func(*flow) bool {
			if used < 0 {
				used = r.goesBy(i)
				r.note("%.0f groups and nodes go by fabric %s", used, fabricName(i))
			}
			return used > 0
		},
		do: func() error {
			r.isCut = i
			return r.ask("cut " + fabricName(i))
		}}
}

// goesBy returns how many groups and nodes go by a fabric. A bridge that does not say may have any.
func (r *rig) goesBy(i int) float64 {
	m, err := r.bridge.metrics(r.ctx)
	if err != nil {
		return 1
	}
	of := fmt.Sprintf("{port=%[1]q,fabric=%[1]q}", fabricName(i))
	return m["causeway_fabric_groups_active"+of] + m["causeway_fabric_nodes_active"+of]
}

// portPreferred moves everything to a fabric, or takes the preference back. What the fabric that is left has brought, and
// the other has yet to bring, or the other way round, is lost or overtaken.
func portPreferred(r *rig) fault {
	name := "none"
	if i := r.random.IntN(r.bridge.fabrics + 1); i < r.bridge.fabrics && i != r.isCut {
		name = fabricName(i)
	}
	return fault{name: "port prefer " + name, on: onFabric, hits: everything, do: func() error {
		_, err := r.bridge.ctl(r.ctx, "port", "prefer", name)
		return err
	}}
}

// uncountedByPorts says what several InfiniBand ports count differently than the directions do; "": nothing. Each message to
// InfiniBand goes by one port, or by none. A copy for a further segment is received, but by no port.
func (s *status) uncountedByPorts(m map[string]float64) string {
	toIB, toRoCE := m[`causeway_ib_port_lost_total{direction="roce_to_ib",reason="no_way"}`], 0.0
	for name, n := range m {
		switch kind, _, _ := strings.Cut(name, "{"); kind {
		case "causeway_fabric_sent_total", "causeway_fabric_full_total":
			toIB += n
		case "causeway_fabric_received_total", "causeway_group_copies_total":
			toRoCE += n
		}
	}
	if sent, received := s.Directions["roce_to_ib"].Sent, s.Directions["ib_to_roce"].Received; float64(sent) != toIB || float64(received) != toRoCE {
		return fmt.Sprintf("%d packets sent to InfiniBand and %d received, but the ports took or lost %.0f, and brought %.0f", sent, received, toIB, toRoCE)
	}
	return ""
}
