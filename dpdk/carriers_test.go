// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"slices"
	"testing"
)

// TestAFPacketReopens checks that a port goes on with an interface that comes in place of its own, with its id, its
// address and its counters; and that it does not try one that cannot be taken.
func TestAFPacketReopens(t *testing.T) {
	ownNetwork(t)
	for _, queues := range []int{1, 2} {
		veth(t, "ours", "theirs", "1500")
		p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxQueues: queues, TxQueues: queues, RxDescs: 64, TxDescs: 64, MTU: 1500})
		if _, err := p.SetMulticast([][6]byte{{0x33, 0x33, 0, 0, 0, 1}}); err != nil || !flagged(t, "ours", "PROMISC") {
			t.Fatalf("not promiscuous; %v", err)
		}
		blast(t, kernelEnd(t, "theirs"), 200) // nobody reads
		id, mac, before := p.ID(), p.MAC(), stats(t, p)
		if before.RxMissed == 0 || !p.CanReopen() {
			t.Errorf("%+v; can reopen: %v", before, p.CanReopen())
		}
		ip(t, "link del ours")
		if err := p.Reopen(); !errors.Is(err, ErrNotReopened) {
			t.Errorf("without the interface: %v", err)
		}
		veth(t, "ours", "theirs", "1500")
		ip(t, "link set ours mtu 1400")
		if err := p.Reopen(); !errors.Is(err, ErrNotReopened) {
			t.Errorf("with an MTU that is too small: %v", err)
		}
		ip(t, "link set ours mtu 1500")
		if err := p.Reopen(); err != nil {
			t.Fatal(err)
		}
		if p.ID() != id || p.MAC() != mac || !flagged(t, "ours", "PROMISC") {
			t.Errorf("id %d, MAC %x; was %d, %x", p.ID(), p.MAC(), id, mac)
		}
		if after := stats(t, p); after != before {
			t.Errorf("%+v after it was opened again, %+v before", after, before)
		}
		crossBothWays(t, portEnd(p), kernelEnd(t, "theirs"), 1500)
		if after := stats(t, p); after.RxPackets <= before.RxPackets || after.RxMissed != before.RxMissed {
			t.Errorf("%+v, before %+v", after, before)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		ip(t, "link del ours")
	}
}

// TestCarriers checks which interfaces a port lives on, and that only that of af_packet may come back.
func TestCarriers(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	for _, c := range []struct {
		name   string
		queues int
		want   []string
	}{
		{"af_packet:ours", 2, []string{"ours"}},
		{"tap:dtap4", 1, []string{"dtap4"}},
		{"null", 1, nil},
		{"ring", 1, nil},
	} {
		p, err := OpenPort(c.name, PortConfig{Pool: newPool(t), RxQueues: c.queues, TxQueues: c.queues, RxDescs: 64, TxDescs: 64})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Carriers(); !slices.Equal(got, c.want) || p.CanReopen() != (c.queues == 2) {
			t.Errorf("%s lives on %v, want %v; can reopen: %v", c.name, got, c.want, p.CanReopen())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
