// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"net"
	"testing"
)

// TestAFPacketWaits checks that a port on an interface that is not set up has its address, receives nothing and takes
// nothing to send, and is on it after Reopen, with what was asked for meanwhile; and that it can be closed as it is.
func TestAFPacketWaits(t *testing.T) {
	ownNetwork(t)
	for _, queues := range []int{1, 2} {
		veth(t, "ours", "theirs", "1500")
		ip(t, "link set ours down")
		netdev, err := net.InterfaceByName("ours")
		if err != nil {
			t.Fatal(err)
		}
		pool := newPool(t)
		config := PortConfig{Pool: pool, RxQueues: queues, TxQueues: queues, RxDescs: 64, TxDescs: 64, MTU: 1500}
		p := open(t, "af_packet:ours", config)
		if !p.Waiting() || p.LinkUp() || p.MAC() != [6]byte(netdev.HardwareAddr) || p.MTU() != 1500 || !p.CanReopen() {
			t.Errorf("waits %v, link %v, MAC %x, MTU %d", p.Waiting(), p.LinkUp(), p.MAC(), p.MTU())
		}
		if how, err := p.SetMulticast([][6]byte{{0x33, 0x33, 0, 0, 0, 1}}); err != nil || how != MulticastPromiscuous {
			t.Errorf("multicast by %v, %v", how, err)
		}
		m, err := pool.Alloc(testFrame(200, 1))
		if err != nil {
			t.Fatal(err)
		}
		for queue := range queues {
			var burst [1]Mbuf
			if p.Rx(queue, burst[:]) != 0 || p.Tx(queue, []Mbuf{m}) != 0 {
				t.Errorf("queue %d receives or sends", queue)
			}
		}
		m.Free()
		if err := p.Reopen(); !errors.Is(err, ErrNotReopened) || !p.Waiting() {
			t.Errorf("while it is down: %v", err)
		}
		id := p.ID()
		ip(t, "link set ours up")
		if err := p.Reopen(); err != nil {
			t.Fatal(err)
		}
		if p.Waiting() || p.ID() != id || p.MAC() != [6]byte(netdev.HardwareAddr) || !flagged(t, "ours", "PROMISC") {
			t.Errorf("waits %v, port %d, was %d, MAC %x", p.Waiting(), p.ID(), id, p.MAC())
		}
		crossBothWays(t, portEnd(p), kernelEnd(t, "theirs"), 1500)
		if s := stats(t, p); s.RxMissedUnknown || s.RxPackets == 0 || s.TxPackets == 0 {
			t.Errorf("%+v", s)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		ip(t, "link set ours down")
		if p, err = OpenPort("af_packet:ours", config); err == nil {
			err = p.Close()
		}
		if err != nil || pool.InUse() != 0 {
			t.Errorf("closed while it waits: %v, %d mbufs in use", err, pool.InUse())
		}
		ip(t, "link del ours")
	}
}
