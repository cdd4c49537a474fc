// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"causeway/ibside/fabricport/porttest"
)

// TestBoth: all members carry a group; what tells copies makes one of them.
func TestBoth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		tell Tell
		copies,
		marked int
	}{{"without dedup", TellNothing, 2, 0}, {"imm", TellImm, 1, 1}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Rule{Mode: Both, Tell: c.tell})
			if _, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0]); err != nil { // it has one name on both
				t.Fatal(err)
			}
			within(t, patience, "both ways", func() bool { return r.port.Reports()[1].Nodes == 1 })
			x := r.begin(t, r.join(t))
			time.Sleep(300 * time.Millisecond)
			x.end()
			numbers, standby, duplicate := r.taken(t)
			if n := int(x.toRoCE); len(numbers) != c.copies*n || duplicate != c.marked*n || standby != 0 {
				t.Errorf("of %d messages on each fabric %d crossed, %d were duplicates, %d standby", n, len(numbers), duplicate, standby)
			}
			if c.tell == TellImm {
				slices.Sort(numbers)
				checkOnce(t, "to RoCE", numbers, x.toRoCE, 0)
			}
			if n := len(x.atPeers); n != 2*int(x.toIB) {
				t.Errorf("the peers got %d of 2 x %d", n, x.toIB)
			}
		})
	}
}

// TestBothLossless: with dedup, a cut of one fabric loses nothing.
func TestBothLossless(t *testing.T) {
	r := newRig(t, Rule{Mode: Both, Tell: TellImm})
	if _, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0]); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "both ways", func() bool { return r.port.Reports()[1].Nodes == 1 })
	x := r.begin(t, r.join(t))
	time.Sleep(200 * time.Millisecond)
	r.cut(t, 0, true)
	time.Sleep(200 * time.Millisecond)
	r.cut(t, 0, false)
	within(t, patience, "the port is up", func() bool { return r.port.Reports()[0].Down == "" })
	r.await(t, r.came()+200) // and so what only the other fabric has been given
	r.fabrics[1].Lose(0.5)
	time.Sleep(200 * time.Millisecond)
	x.end()
	numbers, _, _ := r.taken(t)
	slices.Sort(numbers)
	checkOnce(t, "to RoCE", numbers, x.toRoCE, 0)
	var got []uint64
	for _, s := range x.atPeers {
		got = append(got, s.number)
	}
	slices.Sort(got)
	checkOnce(t, "to IB", slices.Compact(got), x.toIB, 0)
}

// pgmPacket is one of a stream, without data.
func pgmPacket(kind byte, number uint32) []byte {
	b := make([]byte, 32)
	b[1], b[3], b[4], b[8] = 1, 2, kind, 9
	binary.BigEndian.PutUint32(b[16:], number)
	return b
}

const odata, rdata = 4, 5 // types of PGM packets

// TestPGM: repairs have the number of what they repair, and are no duplicates of it.
func TestPGM(t *testing.T) {
	r := newRig(t, Rule{Mode: Both, Tell: TellPGM})
	r.join(t)
	r.meet(t)
	for i, p := range [][]byte{pgmPacket(odata, 1), pgmPacket(odata, 2), pgmPacket(rdata, 1), pgmPacket(rdata, 1)} {
		for k, peer := range r.peers {
			peer.toGroup(p, 0)
			r.await(t, 2*i+k+1)
		}
	}
	var kinds []byte
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, g := range r.received {
		if g.Arrival != porttest.Duplicate {
			kinds = append(kinds, r.payloads[i][areaLen+4])
		}
	}
	if !slices.Equal(kinds, []byte{odata, odata, rdata, rdata}) || len(r.received) != 8 {
		t.Errorf("of %d messages these crossed: %v", len(r.received), kinds)
	}
}

// TestNumbersShareAPlace: what a fabric has lost of a number is no reason to take another number for a copy that has its place in
// the window.
func TestNumbersShareAPlace(t *testing.T) {
	const window = 2048 // DEDUP_WINDOW
	r := newRig(t, Rule{Mode: Both, Tell: TellPGM})
	r.join(t)
	r.meet(t)
	for i, x := range []struct {
		peer   int
		number uint32
	}{{0, 1}, {1, 1 + window}, {0, 1 + window}} {
		r.peers[x.peer].toGroup(pgmPacket(odata, x.number), 0)
		r.await(t, i+1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var copies []bool
	for _, g := range r.received {
		copies = append(copies, g.Arrival == porttest.Duplicate)
	}
	if !slices.Equal(copies, []bool{false, false, true}) {
		t.Errorf("of three messages, of which the last is a copy, these are taken for copies: %v", copies)
	}
}
