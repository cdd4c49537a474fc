// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"encoding/binary"
	"testing"

	"causeway/lcore/pgm/pgmtest"
)

// stranger returns a packet of a stream of its own.
func stranger(n uint32) []byte {
	p := pgmtest.Packet{Type: pgmtest.ODATA, SQN: 1}
	binary.BigEndian.PutUint32(p.GSI[:], n)
	return p.AppendTo(nil)
}

func TestNoRoom(t *testing.T) {
	for _, n := range []int{-1, 0, MostStreams + 1} {
		if tracker, err := New(Config{Streams: n}); err == nil {
			tracker.Close()
			t.Errorf("a tracker of %d streams was made", n)
		}
	}
}

// Streams of one packet evict each other, not those that go on; all are counted.
func TestEviction(t *testing.T) {
	const strangers = 10000
	tracker := newTracker(t, Config{Streams: 4})
	s := source{gsi: 200, sqn: 1}
	for _, b := range s.next(2) {
		tracker.see(b, 1, 0, 1)
	}
	for i := range uint32(strangers) {
		tracker.see(stranger(i), 1, 0, uint64(i+2))
	}
	kept := 0
	for _, got := range tracker.Streams() {
		if got.TSI.GSI[5] == 200 && got.Counts[ODATA] == 2 {
			kept++
		}
	}
	totals := tracker.Totals()
	if kept != 1 || totals.Streams != 4 || totals.Begun != strangers+1 || totals.Evicted != strangers-3 || totals.Aged != 0 {
		t.Errorf("the stream was kept %d times; %+v", kept, totals)
	}
	if n := totals.Direction[0].Counts[ODATA]; n != strangers+2 {
		t.Errorf("%d packets in total, want %d", n, strangers+2)
	}
}

// Of streams that go on, the one that has been silent for longest is evicted first.
func TestLRU(t *testing.T) {
	tracker := newTracker(t, Config{Streams: 4})
	for _, n := range []uint32{1, 2, 3, 4, 1, 3, 2, 4, 1} {
		tracker.see(stranger(n), 1, 0, tracker.Totals().Direction[0].Counts[ODATA])
	}
	tracker.see(stranger(5), 1, 0, 100)
	for _, got := range tracker.Streams() {
		if got.TSI.GSI[3] == 3 {
			t.Error("stream 3 is still there")
		}
	}
	if n := len(tracker.Streams()); n != 4 {
		t.Errorf("%d streams, want 4", n)
	}
}

// A tracker of many streams holds three quarters of its room, by any seed.
func TestSpread(t *testing.T) {
	tracker := newTracker(t, Config{Streams: 1000})
	for i := range uint32(768) {
		tracker.see(stranger(i), 1, 0, 1)
	}
	if n := len(tracker.Streams()); n < 650 || n > 768 {
		t.Errorf("%d of 768 streams are there", n)
	}
}

// A silent stream is removed when others send, and is a new one when it comes back.
func TestAging(t *testing.T) {
	const idle = 1000
	tracker := newTracker(t, Config{Streams: 256, IdleCycles: idle})
	quiet, loud := source{gsi: 1, sqn: 50}, source{gsi: 2, sqn: 1}
	tracker.see(quiet.next(1)[0], 1, 0, 10)
	tracker.see(loud.next(1)[0], 1, 0, 10+idle)
	for _, b := range loud.next(10000) {
		tracker.see(b, 1, 0, 10+idle)
	}
	if n := len(tracker.Streams()); n != 2 {
		t.Fatalf("%d streams before their time, want 2", n)
	}
	for _, b := range loud.next(10000) {
		tracker.see(b, 1, 0, 11+idle)
	}
	if got := only(t, tracker); got.TSI.GSI[5] != 2 || got.Counts[ODATA] != 20001 {
		t.Errorf("%v is left, with %d packets", got.TSI, got.Counts[ODATA])
	}
	quiet.sqn = 900
	tracker.see(quiet.next(1)[0], 1, 0, 12+idle)
	totals := tracker.Totals()
	if c := totals.Direction[0].Counts; totals.Aged != 1 || totals.Begun != 3 || totals.Streams != 2 || c[Gaps] != 0 {
		t.Errorf("after it came back: %+v", totals)
	}
}

// The same source in two groups and both directions is four streams.
func TestKeys(t *testing.T) {
	tracker := newTracker(t, Config{Streams: 64})
	for _, group := range []uint32{0, 1 << 31} {
		for d := range Direction(NDirections) {
			tracker.see(stranger(1), group, d, 1)
		}
	}
	seen := map[streamName]bool{}
	for _, s := range tracker.Streams() {
		seen[streamName{s.TSI, s.Group, s.Direction}] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d streams, want 4: %v", len(seen), seen)
	}
}
