// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/lcore"
)

// TestLossesByDirection checks that what ports and devices count is before the workers or after them, each in its
// direction, and that what is no number of messages is in neither.
func TestLossesByDirection(t *testing.T) {
	s := atStop{
		dpdk.Stats{RxPackets: 100, RxMissed: 3, RxDropped: 10, RxErrors: 2, RxNoMbuf: 50, TxErrors: 7},
		map[string]uint64{"out_of_buffer": 4, "port_rcv_errors": 5, "port_xmit_discards": 6, "symbol_error": 50, "qpn_rest_cut": 50, "rx_discards": 0},
	}
	port := [2]map[string]uint64{lcore.RoCEToIB: {"qp_full": 8, "mtu": 0}, lcore.IBToRoCE: {"wc_error": 9}}
	want := [2]Losses{
		lcore.RoCEToIB: {Lost{"missed": 3, "interface_dropped": 10, "receive_errors": 2}, Lost{"qp_full": 8, "port_xmit_discards": 6}, false},
		lcore.IBToRoCE: {Lost{"wc_error": 9, "out_of_buffer": 4, "port_rcv_errors": 5}, Lost{"send_errors": 7}, false},
	}
	got := lossesOf(s, port)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if a, b := got[lcore.RoCEToIB].Before.Sum(), got[lcore.IBToRoCE].Before.Sum(); a != 15 || b != 18 {
		t.Errorf("%d and %d lost before the workers, want 15 and 18", a, b)
	}
}

// TestLossesUnknown checks that a sum without what the port missed says so.
func TestLossesUnknown(t *testing.T) {
	got := lossesOf(atStop{ethernet: dpdk.Stats{RxMissedUnknown: true}}, [2]map[string]uint64{})
	if !got[lcore.RoCEToIB].BeforeUnknown || got[lcore.IBToRoCE].BeforeUnknown {
		t.Errorf("%+v", got)
	}
}

// losing is a port whose device loses one message more with each look, and says so.
type losing struct {
	ibside.OpenPort
	lost atomic.Uint64
}

func (l *losing) LostByDevice() map[string]uint64 {
	return map[string]uint64{"out_of_buffer": l.lost.Add(1)}
}

// taskLosses checks that losses are there after Close, as the devices had them when the workers stopped.
func taskLosses() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	port := &losing{OpenPort: h.ibPort}
	h.ibPort = port
	err = running(h, func() error {
		if n := h.LostByDevice()["out_of_buffer"]; n != 1 {
			return fmt.Errorf("%d are lost, want 1", n)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	port.LostByDevice()
	l := h.Losses()
	if want := (Lost{"out_of_buffer": 2}); !reflect.DeepEqual(l[lcore.IBToRoCE].Before, want) || l[lcore.RoCEToIB].Before.Sum() != 0 {
		return "", fmt.Errorf("lost %+v, want %v before the workers", l, want)
	}
	return fmt.Sprint(l), nil
}
