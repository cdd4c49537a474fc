// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"net"
	"slices"
	"testing"
	"time"
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
