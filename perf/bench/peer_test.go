// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"testing"

	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// Given the same frames, worker and peer send the same messages: what is compared is the same work.
func TestPeerSendsTheSame(t *testing.T) {
	const n = 4 * inFlight
	s := square(1024)
	shelves := shapeTables(t, s)
	r, other := rigAt(t, s, shelves, lcore.RoCEToIB, 64), rigAt(t, s, shelves, lcore.RoCEToIB, 64)
	ours, theirs := r.lanes[0], other.lanes[0]
	for _, l := range []*lane{ours, theirs} {
		if err := l.record(n); err != nil {
			t.Fatal(err)
		}
	}
	peer, err := theirs.peer()
	if err != nil {
		t.Fatal(err)
	}
	run(t, r, ours.worker())
	run(t, other, peer)
	a, b := ours.recorded(), theirs.recorded()
	if len(a) != n || len(b) != n {
		t.Fatalf("worker and peer sent %d and %d messages, want at least %d", len(a), len(b), n)
	}
	for i := range a {
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
