// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestAFPacketStale sends bursts while the other end of the cable is down, or the port's own is, and once more when it is up
// again: what could not leave in its time does not leave later, and is counted once. There are more frames than the ring has.
func TestAFPacketStale(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	burst := func(n, length int) (taken uint64) {
		t.Helper()
		for range n {
			m := make([]Mbuf, 3)
			for i := range m {
				var err error
				if m[i], err = p.config.Pool.Alloc(testFrame(length, 7)); err != nil {
					t.Fatal(err)
				}
			}
			sent := p.Tx(0, m)
			taken += uint64(sent)
			for _, left := range m[sent:] {
				left.Free()
			}
		}
		return taken
	}
	for _, c := range []struct {
		which         string
		unknown, then int // bursts, before the kernel is sure to know that the link is down, and then
		more          int // bursts that are sent before
	}{{"theirs", 0, 1, 0}, {"theirs", 0, 1, 20}, {"theirs", 0, 1, 21}, {"theirs", 3, 1, 19}, {"theirs", 39, 1, 0}, {"theirs", 0, 40, 0}, {"ours", 0, 40, 0}} {
		burst(c.more, 100)
		before := stats(t, p)
		ip(t, "link set "+c.which+" down")
		taken := burst(c.unknown, 200)
		awaitDown(t, "ours")
		taken += burst(c.then, 200)
		ip(t, "link set "+c.which+" up")
		there := kernelEnd(t, "theirs")
		var lengths []int
		for end := time.Now().Add(10 * time.Second); len(lengths) < 3 && time.Now().Before(end); {
			taken += burst(1, 300)
			for frame := there.recv(); frame != nil; frame = there.recv() {
				lengths = append(lengths, len(frame))
			}
		}
		after := stats(t, p)
		if slices.Contains(lengths, 200) || !slices.Contains(lengths, 300) {
			t.Errorf("%v: %v came", c, lengths)
		}
		if lost := after.TxErrors - before.TxErrors; lost+uint64(len(lengths)) != taken {
			t.Errorf("%v: of %d frames %d came and %d are counted as lost", c, taken, len(lengths), lost)
		}
	}
}

// awaitDown waits until the kernel says that a link is down: on a busy machine, that is later than the link is.
func awaitDown(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		link, err := net.InterfaceByName(name)
		if err != nil || time.Now().After(end) {
			t.Fatal("the link is not down: ", err)
		}
		if link.Flags&net.FlagRunning == 0 {
			return
		}
	}
}

// TestAFPacketLate has the kernel refuse a frame of an interface that has lost its carrier, before it says so: that it does up to
// a second later, if a carrier has changed in the second before. What nobody has tried to send since is not sent when the carrier is
// back, as when a bond has sent by another port meanwhile; soon after, it is.
func TestAFPacketLate(t *testing.T) {
	ownNetwork(t)
	other, there := plugged(t, "other"), plugged(t, "ours")
	p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	send := func(length int) {
		t.Helper()
		m, err := p.config.Pool.Alloc(testFrame(length, 7))
		if err != nil {
			t.Fatal(err)
		}
		if p.Tx(0, []Mbuf{m}) != 1 {
			t.Fatal("the port takes no frame")
		}
	}
	const late = 100 * time.Millisecond // LATE_NS
	for _, pause := range []time.Duration{0, late * 3 / 2} {
		before := stats(t, p)
		carrier(t, other, false)
		awaitDown(t, "other")
		carrier(t, other, true)
		carrier(t, there, false)
		began := time.Now()
		send(200)
		carrier(t, there, true)
		time.Sleep(pause)
		send(300)
		took := time.Since(began)
		var lengths []int
		for frame := make([]byte, 2048); !slices.Contains(lengths, 300); {
			n, err := there.Read(frame)
			if err != nil {
				t.Fatal(err)
			}
			if n == 200 || n == 300 { // the kernel sends, too
				lengths = append(lengths, n)
			}
		}
		if both := len(lengths) == 2; both && pause > late || !both && took < late {
			t.Errorf("after %v frames of %v bytes came", took, lengths)
		}
		if lost := stats(t, p).TxErrors - before.TxErrors; lost != 1 {
			t.Errorf("after %v %d frames are counted as lost, want 1: the interface has refused one once", pause, lost)
		}
	}
}

// carrier changes a tap's carrier, without a process that may take longer than a frame's time.
func carrier(t *testing.T, tap *os.File, on bool) {
	t.Helper()
	value := 0
	if on {
		value = 1
	}
	if err := unix.IoctlSetPointerInt(int(tap.Fd()), unix.TUNSETCARRIER, value); err != nil {
		t.Fatal(err)
	}
}

// plugged makes a tap that somebody is at, up: unlike veth it is an interface of its own, as a card's is.
func plugged(t *testing.T, name string) *os.File {
	t.Helper()
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TAP, Queues: 1, Flags: netlink.TUNTAP_NO_PI}
	if err := netlink.LinkAdd(tap); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tap.Fds[0].Close() })
	ip(t, "link set "+name+" up")
	return tap.Fds[0]
}
