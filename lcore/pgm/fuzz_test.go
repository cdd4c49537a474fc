// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"bytes"
	"testing"

	"causeway/lcore/frame"
)

// mostPackets is how many packets a fuzzer passes to the tracker at most, and longest the longest payload.
const (
	mostPackets = 64
	longest     = 4096
)

// sign corrects a checksum unless it is absent: no fuzzer finds it by trying.
func sign(b []byte) {
	if len(b) >= 16 && (b[6] != 0 || b[7] != 0) {
		b[6], b[7] = 0, 0
		sum := frame.Checksum(b)
		if sum == 0 {
			sum = 0xffff
		}
		big.PutUint16(b[6:], sum)
	}
}

// split makes packets from one input: each is preceded by its length, 2 bytes, whose highest bit says that the checksum
// is to be corrected.
func split(input []byte) (all [][]byte) {
	for len(input) >= 2 {
		head := int(big.Uint16(input))
		n := min(head&0x7fff, len(input)-2, longest)
		b := bytes.Clone(input[2 : 2+n])
		if head&0x8000 != 0 {
			sign(b)
		}
		all, input = append(all, b), input[2+n:]
	}
	return all
}

// packed is the inverse of split.
func packed(packets ...[]byte) (out []byte) {
	for _, b := range packets {
		out = append(big.AppendUint16(out, uint16(len(b))|0x8000), b...)
	}
	return out
}

// FuzzSee passes any input to tracker and model. No memory outside of the payloads is accessed, and both get the same
// results.
func FuzzSee(f *testing.F) {
	for _, c := range faulty {
		f.Add(packed(c.payload))
	}
	for _, c := range scripts {
		var all [][]byte
		for _, p := range c.packets {
			p.GSI = [6]byte{1}
			all = append(all, p.AppendTo(nil))
		}
		if len(all) <= mostPackets {
			f.Add(packed(all...))
		}
	}
	g := newGuarded(f, longest)
	f.Fuzz(func(t *testing.T, input []byte) {
		packets := split(input)
		if len(packets) > mostPackets {
			return
		}
		tracker := newTracker(t, Config{Streams: 1024}) // far more than mostPackets, so that a set is hardly ever full
		m := newModel(true)
		for i, b := range packets {
			tsc := uint64(i + 1)
			g.show(t, tracker, b, tsc)
			m.see(b, 1, Direction(tsc&1), tsc)
			m.see(b, 1, Direction(tsc&1), tsc)
		}
		if tracker.Totals().Evicted == 0 {
			same(t, tracker, m)
		}
	})
}
