// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// counted is what an interface of this thread's network namespace has counted.
func counted(t *testing.T, name string) netlink.LinkStatistics {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return *link.Attrs().Statistics
}

// blast sends n frames as fast as they go.
func blast(t *testing.T, from end, n int) {
	t.Helper()
	frame := testFrame(200, 7)
	for range n {
		for {
			err := from.send(frame)
			if err == nil {
				break
			}
			if err != syscall.ENOBUFS && err != syscall.EAGAIN {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// receiveAll receives what waits in a port's queue.
func receiveAll(p *Port) {
	var burst [32]Mbuf
	for {
		n := p.Rx(0, burst[:])
		if n == 0 {
			return
		}
		for _, m := range burst[:n] {
			m.Free()
		}
	}
}

// stats reads a port's counters.
func stats(t *testing.T, p *Port) Stats {
	t.Helper()
	s, err := p.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// settled receives until each frame that came to an interface is received or missed, and returns the counters then; it
// fails where that does not come true.
func settled(t *testing.T, p *Port, came func() uint64) Stats {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		receiveAll(p)
		s := stats(t, p)
		if n := came(); s.RxPackets+s.RxMissed == n && s.RxPackets > 0 {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d received and %d missed are not the %d that came", s.RxPackets, s.RxMissed, came())
		}
	}
}

// TestAFPacketMissed checks that each frame that came to the interface was received or is counted as missed: while the
// port is read and the ring is full nevertheless, and after it was not read for a while, as when the process is
// stopped.
func TestAFPacketMissed(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	atOpen := counted(t, "ours").RxPackets
	came := func() uint64 { return counted(t, "ours").RxPackets - atOpen }
	sender := kernelEnd(t, "theirs")

	blast(t, sender, 3000) // nobody reads
	s := settled(t, p, came)
	if s.RxMissed < 2000 || s.RxMissedUnknown {
		t.Errorf("%+v; want some 2900 missed of 3000 that a ring of 64 had to take", s)
	}
	missed := s.RxMissed
	for range 300 { // each is a little more than the ring holds
		blast(t, sender, 70)
		receiveAll(p)
	}
	if s = settled(t, p, came); s.RxMissed == missed {
		t.Errorf("still %d are missed", missed)
	}
	missed = s.RxMissed
	blast(t, sender, 500) // it is not read for a while, and then stopped: what the kernel has dropped is still known
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if s = stats(t, p); s.RxMissed < missed+400 {
		t.Errorf("%d are missed after Stop, %d before 500 that nobody read", s.RxMissed, missed)
	}
	if again := stats(t, p); again.RxMissed != s.RxMissed {
		t.Errorf("%d are missed after Stop, and then %d", s.RxMissed, again.RxMissed)
	}
}

// TestAFPacketMissedByQueue checks that all queues' frames are counted.
func TestAFPacketMissedByQueue(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxQueues: 3, TxQueues: 3, RxDescs: 64, TxDescs: 64})
	if len(p.sockets) != 3 {
		t.Fatalf("sockets %v; want three", p.sockets)
	}
	atOpen := counted(t, "ours").RxPackets
	blast(t, kernelEnd(t, "theirs"), 1000)
	if came, s := counted(t, "ours").RxPackets-atOpen, stats(t, p); s.RxMissed < came-3*64 || s.RxMissed > came {
		t.Errorf("%d of %d are missed, and no queue was read", s.RxMissed, came)
	}
}

// TestTapMissed checks the same of a tap, whose kernel end counts what the port did not take. The kernel counts there
// what it sends, and what it dropped instead.
func TestTapMissed(t *testing.T) {
	ownNetwork(t)
	p := open(t, "tap:dtap3", PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	ip(t, "link set dtap3 up")
	receiveAll(p)
	sender := kernelEnd(t, "dtap3")
	const sent = 3000
	blast(t, sender, sent)
	s := settled(t, p, func() uint64 { c := counted(t, "dtap3"); return c.TxPackets + c.TxDropped })
	if s.RxMissed == 0 || s.RxMissedUnknown || s.RxPackets+s.RxMissed < sent {
		t.Errorf("%+v; want some of %d missed", s, sent)
	}
	if again := stats(t, p); again.RxMissed != s.RxMissed {
		t.Errorf("%d are missed, and then %d", s.RxMissed, again.RxMissed)
	}
}

// TestMissedUnknown checks that a port whose losses nobody here can count says so, and others do not.
func TestMissedUnknown(t *testing.T) {
	pool := newPool(t)
	for name, want := range map[string]bool{"memif:" + t.TempDir() + "/m.sock,role=server": true, "null": false, "ring": false} {
		p, err := OpenPort(name, PortConfig{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		if s := stats(t, p); s.RxMissedUnknown != want || s.RxMissed != 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
