// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"testing"

	"causeway/lcore"
	"causeway/lcore/frame/roce"
	"causeway/lcore/pgm"
	"causeway/lcore/pgm/pgmtest"
)

func ofPGM(w *fixture) { w.group(group4).PGM = true }

// odata returns a PGM data packet of one stream.
func odata(sqn uint32) []byte {
	p := pgmtest.Packet{Type: pgmtest.ODATA, GSI: [6]byte{1, 2, 3, 4, 5, 6}, SrcPort: 7, DstPort: 8, SQN: sqn, Trail: 10, Data: []byte("x")}
	return p.AppendTo(nil)
}

// The packets of a group with PGM are analysed each way, and no others; none is delayed.
func TestMirrorPGM(t *testing.T) {
	s := newRig(t, smallFixture().with(ofPGM))
	for _, n := range []uint32{10, 11, 14} { // two are missing
		s.fromRoCE(v4(to(group4), func(p *roce.Packet) { p.Payload = odata(n) }), v4(to(groupOut)))
		s.fromIB(received(toGroup(mgidOf(group4)), func(m *message) { m.Payload = odata(n + n/14) }))
	}
	_, id, _ := s.tables.Groups.Find(group4)
	streams := s.pgm.Streams()
	if len(streams) != 2 {
		t.Fatalf("%d streams, want one each way: %+v", len(streams), streams)
	}
	for _, x := range streams {
		want := uint64(2 + x.Direction) // towards RoCE, three
		if x.Group != id || x.Counts[pgm.Missed] != want || x.Counts[pgm.ODATA] != 3 {
			t.Errorf("direction %d: group %d of %d, %d missed of %d", x.Direction, x.Group, id, x.Counts[pgm.Missed], want)
		}
	}
	if got := s.counters(lcore.RoCEToIB).Sent; got != 6 {
		t.Errorf("%d of 6 passed", got)
	}
}
