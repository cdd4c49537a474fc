// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"runtime"
	"testing"

	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// arrayLike makes an array for a pointer of C's.
func arrayLike[T any](_ *T, n int) []T { return make([]T, n) }

// Given the same frames, worker and peer send the same messages: what is compared is the same work.
func TestPeerSendsTheSame(t *testing.T) {
	const n = 4 * inFlight
	s := square(1024)
	tab := shapeTables(t, s)
	r, other := rigAt(t, s, tab, lcore.RoCEToIB, 64), rigAt(t, s, tab, lcore.RoCEToIB, 64)
	ours, theirs := r.lanes[0], other.lanes[0]
	a, b := arrayLike(ours.ibPort.record, n), arrayLike(theirs.ibPort.record, n)
	var pin runtime.Pinner // C writes there
	defer pin.Unpin()
	pin.Pin(&a[0])
	pin.Pin(&b[0])
	ours.ibPort.record, ours.ibPort.record_max = &a[0], n
	theirs.ibPort.record, theirs.ibPort.record_max = &b[0], n
	peer, err := theirs.peer()
	if err != nil {
		t.Fatal(err)
	}
	run(t, r, ours.worker())
	run(t, other, peer)
	if x, y := ours.ibPort.record_n, theirs.ibPort.record_n; x != n || y != n {
		t.Fatalf("worker and peer sent %d and %d messages, want at least %d", x, y, n)
	}
	for i := range a {
		a[i].mbuf, b[i].mbuf = nil, nil
		if a[i] != b[i] {
			t.Fatalf("message %d: the worker sent %+v, the peer %+v", i, a[i], b[i])
		}
	}
}

// Given the same messages, worker and peer send the same frames, but for what differs between messages.
func TestPeerFramesTheSame(t *testing.T) {
	s := square(64)
	r := testRig(t, s, lcore.IBToRoCE, 64)
	l := r.lanes[0]
	same := func(p roce.Packet) []byte {
		p.SrcIP, p.DstIP, p.PSN = s.nodeIP(0), s.hostIP(0), 0
		return p.AppendTo(nil)
	}
	run(t, r, l.worker())
	want := same(frames(t, l)[0])
	peer, err := l.peer()
	if err != nil {
		t.Fatal(err)
	}
	run(t, r, peer)
	for i, p := range frames(t, l) {
		if got := same(p); !bytes.Equal(got, want) {
			t.Fatalf("frame %d: the peer's is %x, the worker's %x", i, got, want)
		}
	}
}
