// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"

	"causeway/app/command"
	"causeway/dpdk"
)

// losing is a bridge whose devices have lost packets.
type losing struct {
	command.Target
	ethernet dpdk.Stats
	device   map[string]uint64
}

func (l losing) Ethernet() (dpdk.Stats, bool)    { return l.ethernet, true }
func (l losing) LostByDevice() map[string]uint64 { return l.device }

// TestStatusLosses checks that "show status" names what the devices have lost, and nothing while they have not.
func TestStatusLosses(t *testing.T) {
	const ethernet, device = "The Ethernet port has counted losses: ", "The RDMA device has counted losses: "
	for _, c := range []struct {
		name string
		losing
		want, not string
	}{
		{"none", losing{nil, dpdk.Stats{RxPackets: 9, RxNoMbuf: 9}, map[string]uint64{"out_of_buffer": 0, "qpn_rest_cut": 9}}, "READY", "losses"},
		{"the RDMA device", losing{nil, dpdk.Stats{}, map[string]uint64{"out_of_buffer": 4, "symbol_error": 1, "port_rcv_errors": 0}},
			device + "symbol_error 1, out_of_buffer 4. See \"show ports\".", ethernet},
		{"the Ethernet port", losing{nil, dpdk.Stats{RxMissed: 3, RxErrors: 2, TxErrors: 1}, nil},
			ethernet + "missed 3, receive errors 2, send errors 1. See \"show ports\".", device},
	} {
		e, b := env(3)
		c.Target = b
		e.Bridge = c.losing
		out := run(t, e, "show status").Text(0)
		if text := strings.ReplaceAll(out, "ready", "READY"); !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%s: want %q and not %q in\n%s", c.name, c.want, c.not, out)
		}
	}
}
