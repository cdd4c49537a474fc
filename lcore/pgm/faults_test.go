// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"bytes"
	"testing"

	"causeway/lcore/pgm/pgmtest"
)

// good returns a packet with two options: 16 header, 8 body, 4 OPT_LENGTH, 8 and 4 options, 4 data.
func good() []byte {
	p := pgmtest.Packet{Type: pgmtest.ODATA, SQN: 5, SrcPort: 1, Unsummed: true, Data: []byte("data"), Options: []pgmtest.Option{
		{Type: pgmtest.OptJoin, Data: make([]byte, 6)}, {Type: pgmtest.OptSYN},
	}}
	return p.AppendTo(nil)
}

func goodNAK(more ...uint32) []byte {
	p := pgmtest.Packet{Type: pgmtest.NAK, SrcPort: 1, NLA: nla4, Group: nla6, Options: []pgmtest.Option{pgmtest.NAKList(more...)}}
	return p.AppendTo(nil)
}

// with returns the packet with bytes put at a place, without a checksum.
func with(b []byte, at int, put ...byte) []byte {
	copy(b[at:], put)
	copy(b[6:], []byte{0, 0})
	return b
}

// manyOptions has more options than are allowed; the last one is marked as the last.
func manyOptions(n int) []byte {
	p := pgmtest.Packet{Type: pgmtest.SPMR, SrcPort: 1}
	for range n {
		p.Options = append(p.Options, pgmtest.Option{Type: 0x30})
	}
	return p.AppendTo(nil)
}

var faulty = []struct {
	name    string
	payload []byte
	want    Fault
}{
	{"good", good(), Fine},
	{"a good NAK", goodNAK(1, 2), Fine},
	{"32 options", manyOptions(32), Fine},
	{"nothing", nil, HeadShort},
	{"half a header", good()[:15], HeadShort},
	{"version 1", with(good(), 4, 0x44), BadVersion},
	{"reserved bits", with(good(), 4, 0x14), BadType},
	{"type 3", with(good(), 4, 3), BadType},
	{"type 15", with(good(), 4, 15), BadType},
	{"half a body", good()[:23], BodyShort},
	{"half an address", with(goodNAK(1), 0, 0)[:34], BodyShort},
	{"address family 0", with(goodNAK(1), 20, 0, 0), BadAFI},
	{"group's address family 257", with(goodNAK(1), 28, 1, 1), BadAFI},
	{"no options", good()[:27], OptNone},
	{"an option instead of OPT_LENGTH", with(good(), 24, 1), OptFirst},
	{"OPT_LENGTH of 0", with(good(), 25, 0), OptFirst},
	{"total of 0", with(good(), 26, 0, 0), OptTotal},
	{"total of 65535", with(good(), 26, 0xff, 0xff), OptTotal},
	{"total of one byte more than there is", with(good(), 26, 0, 21), OptTotal},
	{"option of 0", with(good(), 29, 0), OptShort},
	{"option of 3", with(good(), 29, 3), OptShort},
	{"two bytes are left for an option", with(with(good(), 26, 0, 14), 28, 3), OptShort},
	{"option of 255", with(good(), 29, 255), OptLong},
	{"a byte longer than the total", with(with(good(), 26, 0, 13), 28, 0x22, 10), OptLong},
	{"JOIN of 12", with(good(), 29, 12), OptSize},
	{"SYN of 8", with(with(good(), 37, 8), 26, 0, 20), OptSize},
	{"two OPT_LENGTH", with(good(), 28, 0), OptSecond},
	{"33 options", manyOptions(33), OptMany},
	{"OPT_END in OPT_LENGTH", with(good(), 24, 0x80), OptEndEarly},
	{"OPT_END in the first of two", with(good(), 28, 0x83), OptEndEarly},
	{"no OPT_END", with(good(), 36, 0x0d), OptEndNone},
	{"an empty NAK list", goodNAK(), NAKList},
	{"half a number in a NAK list", with(with(goodNAK(1), 53, 6), 50, 0, 10)[:58], NAKList},
	{"TSDU of one byte more than there is", with(good(), 14, 0, 5), TSDULong},
	{"TSDU of 65535", with(good(), 14, 0xff, 0xff), TSDULong},
}

// Every fault is provoked, is found by tracker and reference, and makes no stream.
func TestFaults(t *testing.T) {
	wrong := pgmtest.Packet{Type: pgmtest.SPMR, SrcPort: 1}
	sum := wrong.AppendTo(nil)
	sum[9] ^= 1
	cases := append(faulty[:len(faulty):len(faulty)], faulty[0])
	cases[len(faulty)].name, cases[len(faulty)].payload, cases[len(faulty)].want = "wrong checksum", sum, BadChecksum
	provoked := map[Fault]bool{}
	for _, c := range cases {
		tracker := newTracker(t, Config{Streams: 4})
		b := bytes.Clone(c.payload)
		if _, f := parse(b, true); f != c.want {
			t.Errorf("%s: the reference finds %v, want %v", c.name, f, c.want)
		}
		tracker.see(b, 1, 0, 1)
		got := tracker.Totals()
		for f := range Fault(NFaults) {
			if (got.Direction[0].Faults[f] == 1) != (f == c.want && f != Fine) {
				t.Errorf("%s: fault %v is counted %d times, want %v", c.name, f, got.Direction[0].Faults[f], c.want)
			}
		}
		if want := c.want == Fine; (got.Streams == 1) != want {
			t.Errorf("%s: %d streams", c.name, got.Streams)
		}
		provoked[c.want] = true
	}
	for f := range Fault(NFaults) {
		if !provoked[f] {
			t.Errorf("no case provokes %v", f)
		}
	}
}

// Unless configured, a checksum is not checked.
func TestChecksumOff(t *testing.T) {
	tracker, err := New(Config{Streams: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	p := pgmtest.Packet{Type: pgmtest.SPMR}
	b := p.AppendTo(nil)
	b[9] ^= 1
	tracker.see(b, 1, 0, 1)
	if n := only(t, tracker).Counts[SPMR]; n != 1 {
		t.Errorf("%d SPMRs, want 1", n)
	}
}

// A checksum covers the last byte, whatever the packet's length is.
func TestChecksumOfAnyLength(t *testing.T) {
	for n := range 8 {
		tracker := newTracker(t, Config{Streams: 4})
		p := pgmtest.Packet{Type: pgmtest.ODATA, SrcPort: 1, Data: bytes.Repeat([]byte{0xa5}, n)}
		b := p.AppendTo(nil)
		tracker.see(b, 1, 0, 1)
		b[len(b)-1] ^= 1
		tracker.see(b, 1, 0, 2)
		if got := only(t, tracker).Counts[ODATA]; got != 1 {
			t.Errorf("%d bytes of data: %d packets are right, and one is", n, got)
		}
	}
}
