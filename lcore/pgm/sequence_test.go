// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"testing"

	"causeway/lcore/pgm/pgmtest"
)

// newTracker makes a tracker that checks checksums.
func newTracker(t testing.TB, c Config) *Tracker {
	t.Helper()
	c.Checksum = true
	tracker, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tracker.Close)
	return tracker
}

// only returns the one stream there is.
func only(t testing.TB, tracker *Tracker) Stream {
	t.Helper()
	all := tracker.Streams()
	if len(all) != 1 {
		t.Fatalf("%d streams, want 1", len(all))
	}
	return all[0]
}

const (
	syn = pgmtest.OptSYN
	fin = pgmtest.OptFIN
)

// A script is packets of one source, whose trail is 0x1000 below its first number.
var scripts = []struct {
	name    string
	packets []pgmtest.Packet
	want    map[Count]uint64
	lead    uint32
}{
	{"in order, over the wrap", odata(0xfffffffe, 0xffffffff, 0, 1), map[Count]uint64{ODATA: 4}, 1},
	{"a gap", odata(1, 2, 6), map[Count]uint64{ODATA: 3, Gaps: 1, Missed: 3}, 6},
	{"a gap over the wrap", odata(0xffffffff, 2), map[Count]uint64{ODATA: 2, Gaps: 1, Missed: 2}, 2},
	{"late", odata(1, 3, 2), map[Count]uint64{ODATA: 3, Gaps: 1, Missed: 1, Late: 1}, 3},
	{"late and again", odata(1, 3, 2, 2), map[Count]uint64{ODATA: 4, Gaps: 1, Missed: 1, Late: 1, Duplicates: 1}, 3},
	{"again", odata(1, 1, 2, 1), map[Count]uint64{ODATA: 4, Duplicates: 2}, 2},
	{"repaired", join(odata(1, 3), rdata(2, 2)), map[Count]uint64{ODATA: 2, RDATA: 2, Gaps: 1, Missed: 1, Repaired: 1, Repeated: 1}, 3},
	{"a repair of a number that was not missed", join(odata(1, 2), rdata(1)), map[Count]uint64{ODATA: 2, RDATA: 1, Repeated: 1}, 2},
	{"a repair is the newest", join(odata(1), rdata(3), odata(3)), map[Count]uint64{ODATA: 2, RDATA: 1, Gaps: 1, Missed: 1, Duplicates: 1}, 3},
	{"from before the first", odata(5, 4), map[Count]uint64{ODATA: 2, Old: 1}, 5},
	{"the window's last", odata(1, 1024, 1), map[Count]uint64{ODATA: 3, Gaps: 1, Missed: 1022, Duplicates: 1}, 1024},
	{"just before the window", odata(1, 1025, 1), map[Count]uint64{ODATA: 3, Gaps: 1, Missed: 1023, Old: 1}, 1025},
	{"the longest gap", odata(1, 1<<20+1), map[Count]uint64{ODATA: 2, Gaps: 1, Missed: 1<<20 - 1}, 1<<20 + 1},
	{"too far", odata(1, 1<<20+2, 2), map[Count]uint64{ODATA: 3, Far: 1}, 2},
	{"a gap drops what came a window ago", join(odata(span(1, 1024)...), odata(1100, 1050)), map[Count]uint64{ODATA: 1026, Gaps: 1, Missed: 75, Late: 1}, 1100},
	{"so does an SPM", join(odata(span(1, 1024)...), spm(1, 1100), odata(1050, 1100)),
		map[Count]uint64{ODATA: 1026, SPM: 1, Gaps: 1, Missed: 76, Late: 2}, 1100},
	{"a source begins anew", odata(90000, 90001, 5, 6, 7, 8, 9), map[Count]uint64{ODATA: 7, Old: 3, Restarts: 1}, 9},
	{"strays between good ones prove nothing", odata(90000, 5, 6, 90001, 7, 8, 90002), map[Count]uint64{ODATA: 7, Old: 4}, 90002},
	{"a source says that it begins anew", join(odata(90000), option(syn, odata(5)), odata(6)), map[Count]uint64{ODATA: 3, Restarts: 1}, 6},
	{"SYN in order", join(odata(4), option(syn, odata(5, 5))), map[Count]uint64{ODATA: 3, Duplicates: 1}, 5},
	{"SYN ahead", join(odata(4), option(syn, odata(9))), map[Count]uint64{ODATA: 2, Restarts: 1}, 9},
	{"a repair with SYN proves nothing", join(odata(90000), option(syn, rdata(5))), map[Count]uint64{ODATA: 1, RDATA: 1, Old: 1}, 90000},
	{"an SPM reveals a loss", join(odata(1), spm(1, 4), odata(5, 3)), map[Count]uint64{ODATA: 3, SPM: 1, Gaps: 1, Missed: 3, Late: 1}, 5},
	{"an SPM is first", join(spm(1, 4), odata(5, 4)), map[Count]uint64{ODATA: 2, SPM: 1, Old: 1}, 5},
	{"SPMs lost and late", spm(1, 4, 5, 4, 3, 4, 5, 4), map[Count]uint64{SPM: 4, SPMMissed: 3, SPMLate: 2}, 4},
	{"SPMs begin anew", spm(900, 4, 1, 4, 2, 4, 3, 4, 4, 4), map[Count]uint64{SPM: 5, SPMLate: 3}, 4},
	{"parity", join(odata(1), parity(odata(1, 9)), odata(2)), map[Count]uint64{ODATA: 4, Parity: 2}, 2},
	{"a window that does not hold", join(odata(1), trail(9, odata(2)), odata(3)), map[Count]uint64{ODATA: 3, Window: 1, Gaps: 1, Missed: 1}, 3},
	{"NAKs of several", join(odata(7), nak(pgmtest.NAK, 5, 6), nak(pgmtest.NCF, 5), nak(pgmtest.NNAK, 5, 6)),
		map[Count]uint64{ODATA: 1, NAK: 1, NAKSQNs: 2, NCF: 1, NCFSQNs: 1, NNAK: 1}, 7},
	{"the others", []pgmtest.Packet{{Type: pgmtest.POLL, NLA: nla6}, {Type: pgmtest.POLR}, {Type: pgmtest.SPMR}, {Type: pgmtest.ACK}},
		map[Count]uint64{POLL: 1, POLR: 1, SPMR: 1, ACK: 1}, 0},
	{"an unknown option", option(0x22, odata(1)), map[Count]uint64{ODATA: 1, Unknown: 1}, 1},
}

// span returns all numbers from first to last.
func span(first, last uint32) (all []uint32) {
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

func odata(sqns ...uint32) (all []pgmtest.Packet) {
	for _, n := range sqns {
		all = append(all, pgmtest.Packet{Type: pgmtest.ODATA, SQN: n, Trail: sqns[0] - 0x20000})
	}
	return all
}

func rdata(sqns ...uint32) []pgmtest.Packet {
	all := odata(sqns...)
	for i := range all {
		all[i].Type = pgmtest.RDATA
	}
	return all
}

// spm makes SPMs of pairs of SPM number and lead.
func spm(pairs ...uint32) (all []pgmtest.Packet) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, pgmtest.Packet{Type: pgmtest.SPM, SQN: pairs[i], Lead: pairs[i+1], Trail: pairs[i+1] - 100, NLA: nla6})
	}
	return all
}

func nak(kind pgmtest.Type, sqn uint32, more ...uint32) []pgmtest.Packet {
	p := pgmtest.Packet{Type: kind, SQN: sqn, NLA: nla6, Group: group4}
	if len(more) > 0 {
		p.Options = []pgmtest.Option{pgmtest.NAKList(more...)}
	}
	return []pgmtest.Packet{p}
}

func option(kind uint8, all []pgmtest.Packet) []pgmtest.Packet {
	for i := range all {
		all[i].Options = []pgmtest.Option{{Type: kind}}
	}
	return all
}

func parity(all []pgmtest.Packet) []pgmtest.Packet {
	for i := range all {
		all[i].Parity = true
	}
	return all
}

func trail(n uint32, all []pgmtest.Packet) []pgmtest.Packet {
	for i := range all {
		all[i].Trail = n
	}
	return all
}

func join(parts ...[]pgmtest.Packet) (all []pgmtest.Packet) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestScripts(t *testing.T) {
	provoked := map[Count]bool{Bytes: true, Unsummed: true, Trailing: true, Malformed: true} // these by TestNotes
	for _, c := range scripts {
		tracker := newTracker(t, Config{Streams: 4})
		m := newModel(true)
		for i, p := range c.packets {
			p.GSI, p.SrcPort, p.DstPort = [6]byte{10, 20, 30, 40, 50, 60}, 70, 80
			tracker.see(p.AppendTo(nil), 1, 0, uint64(i))
			m.see(p.AppendTo(nil), 1, 0, uint64(i))
		}
		same(t, tracker, m)
		got := only(t, tracker)
		if got.Lead != c.lead || got.TSI.String() != "10.20.30.40.50.60.70" || got.DstPort != 80 {
			t.Errorf("%s: lead %d of %v to port %d, want lead %d", c.name, got.Lead, got.TSI, got.DstPort, c.lead)
		}
		for n := range Count(NCounts) {
			if got.Counts[n] != c.want[n] {
				t.Errorf("%s: %v is %d, want %d", c.name, n, got.Counts[n], c.want[n])
			}
			provoked[n] = provoked[n] || got.Counts[n] > 0
		}
	}
	for n := range Count(NCounts) {
		if !provoked[n] {
			t.Errorf("no script provokes %v: %s", n, n.Sentence())
		}
	}
}

// Counters that do not depend on the sequence.
func TestNotes(t *testing.T) {
	tracker := newTracker(t, Config{Streams: 4})
	p := pgmtest.Packet{Type: pgmtest.ODATA, SQN: 3, SrcPort: 9, Unsummed: true, Data: []byte("four")}
	tracker.see(append(p.AppendTo(nil), 1, 2), 5, 1, 10)
	q := pgmtest.Packet{Type: pgmtest.SPM, SQN: 8, Lead: 3, Trail: 1, SrcPort: 9, NLA: nla6, Options: []pgmtest.Option{{Type: 0x7f}, {Type: fin}}}
	tracker.see(q.AppendTo(nil), 5, 1, 20)
	tracker.see(p.AppendTo(nil)[:27], 5, 1, 30)
	got := only(t, tracker)
	want := Stream{
		TSI: TSI{Port: 9}, Group: 5, Direction: 1, Begun: true, Lead: 3, Trail: 1, SPM: 8, NLA: nla6, Finished: true, Options: 1 << fin,
		UnknownType: 0x7f, Since: 10, Seen: 20,
	}
	for c, n := range map[Count]uint64{ODATA: 1, Bytes: 4, SPM: 1, Unsummed: 1, Trailing: 1, Unknown: 1, Malformed: 1} {
		want.Counts[c] = n
	}
	sameStream(t, got, want)
	if n := tracker.Totals().Direction[1].Faults[TSDULong]; n != 1 {
		t.Errorf("%d faults, want 1", n)
	}
}

// Payloads are not written to.
func TestPassive(t *testing.T) {
	tracker := newTracker(t, Config{Streams: 4})
	for _, c := range scripts {
		for _, p := range c.packets {
			b := p.AppendTo(nil)
			tracker.see(b, 1, 0, 1)
			if string(b) != string(p.AppendTo(nil)) {
				t.Fatalf("%s: the payload was changed", c.name)
			}
		}
	}
}
