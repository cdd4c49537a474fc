// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"syscall"
	"testing"
)

// TestAFPacketDropped checks that frames are counted which the interface under a port drops, where no packet socket
// counts them: before the port, and after it.
func TestAFPacketDropped(t *testing.T) {
	const n, longer = 40, 2000
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	if s := stats(t, p); s.RxDropped+s.TxErrors != 0 {
		t.Errorf("at first %+v", s)
	}

	ip(t, "link set theirs mtu 4000") // its frames do not fit the other end, which drops them
	sender := kernelEnd(t, "theirs")
	for range n {
		if err := sender.send(testFrame(longer, 7)); err != nil && err != syscall.ENOBUFS { // which says that it was dropped
			t.Fatal(err)
		}
	}
	if s := stats(t, p); s.RxDropped != n || s.RxMissed+s.RxPackets != 0 {
		t.Errorf("%+v; want %d dropped before the port", s, n)
	}

	ip(t, "link set theirs down")
	from := portEnd(p)
	for range n {
		if err := from.send(testFrame(200, 7)); err != nil {
			t.Fatal(err)
		}
	}
	if s := stats(t, p); s.TxErrors != n {
		t.Errorf("%+v; want %d that the cable did not take", s, n)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	ip(t, "link del ours")
	if s := stats(t, p); s.TxErrors != n || s.RxDropped != n {
		t.Errorf("%+v when the interface is gone; want what it was", s)
	}
}
