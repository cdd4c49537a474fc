// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"causeway/lcore/pgm/pgmtest"
)

var (
	nla4   = netip.MustParseAddr("10.10.0.1")
	nla6   = netip.MustParseAddr("2001:db8::1")
	group4 = netip.MustParseAddr("239.1.2.3")
)

// A source makes one session's packets.
type source struct {
	gsi        byte
	sqn        uint32 // of the next data packet
	trail, spm uint32
}

func (s *source) packet(kind pgmtest.Type, sqn uint32) pgmtest.Packet {
	return pgmtest.Packet{
		Type: kind, GSI: [6]byte{1, 2, 3, 4, 5, s.gsi}, SrcPort: 1000, DstPort: 7500, SQN: sqn, Trail: s.trail, Lead: s.sqn - 1,
		NLA: nla4, Group: group4,
	}
}

func (s *source) data(kind pgmtest.Type, sqn uint32, options ...pgmtest.Option) []byte {
	p := s.packet(kind, sqn)
	p.Options, p.Data = options, []byte("data")
	return p.AppendTo(nil)
}

// next returns the next n data packets.
func (s *source) next(n int) (all [][]byte) {
	for range n {
		all = append(all, s.data(pgmtest.ODATA, s.sqn))
		s.sqn++
	}
	return all
}

func (s *source) sourcePath(options ...pgmtest.Option) []byte {
	p := s.packet(pgmtest.SPM, s.spm)
	p.Options = options
	s.spm++
	return p.AppendTo(nil)
}

// acts are the events that may happen in a session.
var acts = map[string]func(t *rapid.T, s *source) [][]byte{
	"next":   func(t *rapid.T, s *source) [][]byte { return s.next(rapid.IntRange(1, 5).Draw(t, "n")) },
	"many":   func(t *rapid.T, s *source) [][]byte { return s.next(rapid.IntRange(900, 1200).Draw(t, "n")) },
	"lose":   func(t *rapid.T, s *source) [][]byte { s.sqn += drawSpan(t); return s.next(1) },
	"repeat": func(t *rapid.T, s *source) [][]byte { return [][]byte{s.data(pgmtest.ODATA, s.sqn-drawSpan(t))} },
	"repair": func(t *rapid.T, s *source) [][]byte { return [][]byte{s.data(pgmtest.RDATA, s.sqn-drawSpan(t))} },
	"ahead":  func(t *rapid.T, s *source) [][]byte { return [][]byte{s.data(pgmtest.RDATA, s.sqn+drawSpan(t))} },
	"reorder": func(t *rapid.T, s *source) [][]byte {
		all := s.next(rapid.IntRange(2, 80).Draw(t, "n"))
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all
	},
	"old": func(t *rapid.T, s *source) [][]byte {
		past := source{gsi: s.gsi, sqn: s.sqn - drawSpan(t), trail: s.trail}
		return past.next(rapid.IntRange(1, 6).Draw(t, "n"))
	},
	"restart": func(t *rapid.T, s *source) [][]byte {
		s.sqn = rapid.Uint32().Draw(t, "sqn")
		s.trail, s.spm = s.sqn, rapid.Uint32().Draw(t, "spm")
		if rapid.Bool().Draw(t, "SYN") {
			s.sqn++
			return [][]byte{s.data(pgmtest.ODATA, s.sqn-1, pgmtest.Option{Type: pgmtest.OptSYN})}
		}
		return s.next(rapid.IntRange(1, 6).Draw(t, "n"))
	},
	"trail": func(t *rapid.T, s *source) [][]byte { s.trail = s.sqn - drawSpan(t); return s.next(1) },
	"SPM":   func(_ *rapid.T, s *source) [][]byte { return [][]byte{s.sourcePath()} },
	"SPM of loss": func(t *rapid.T, s *source) [][]byte {
		s.sqn += drawSpan(t)
		s.spm += drawSpan(t) - 1
		return [][]byte{s.sourcePath(pgmtest.Option{Type: pgmtest.OptFIN})}
	},
	"old SPM": func(t *rapid.T, s *source) [][]byte {
		past := *s
		past.spm -= drawSpan(t)
		past.sqn -= drawSpan(t)
		return [][]byte{past.sourcePath(), past.sourcePath(), past.sourcePath(), past.sourcePath()}[:rapid.IntRange(1, 4).Draw(t, "n")]
	},
	"NAK": func(t *rapid.T, s *source) [][]byte {
		p := s.packet(rapid.SampledFrom([]pgmtest.Type{pgmtest.NAK, pgmtest.NCF, pgmtest.NNAK}).Draw(t, "type"), s.sqn)
		p.Options = []pgmtest.Option{pgmtest.NAKList(rapid.SliceOfN(rapid.Uint32(), 1, 62).Draw(t, "list")...)}
		return [][]byte{p.AppendTo(nil)}
	},
	"parity": func(t *rapid.T, s *source) [][]byte {
		p := s.packet(pgmtest.ODATA, s.sqn)
		p.Parity, p.Unsummed = true, true
		return [][]byte{p.AppendTo(nil)}
	},
	"broken": func(t *rapid.T, s *source) [][]byte {
		p := s.packet(pgmtest.SPM, s.spm)
		p.Options = []pgmtest.Option{{Type: 0x22, Data: []byte("a name")}, {Type: pgmtest.OptRST}}
		b := p.AppendTo(nil)
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= rapid.Byte().Draw(t, "bits")
		return [][]byte{b[:rapid.IntRange(0, len(b)).Draw(t, "length")]}
	},
}

// drawSpan draws a distance near one of the sizes at which the behaviour changes.
func drawSpan(t *rapid.T) uint32 {
	edge := rapid.SampledFrom([]uint32{1, 2, 60, 64, 128, 1000, 1024, 1025, 2000, 1 << 20, 1 << 21, 1 << 31}).Draw(t, "about")
	return edge + uint32(rapid.IntRange(-3, 3).Draw(t, "exactly"))
}

// same fails when the tracker and the model differ.
func same(t rapid.TB, tracker *Tracker, m *model) {
	t.Helper()
	got := map[streamName]Stream{}
	for _, s := range tracker.Streams() {
		got[streamName{s.TSI, s.Group, s.Direction}] = s
	}
	if len(got) != len(m.streams) {
		t.Fatalf("%d streams, want %d", len(got), len(m.streams))
	}
	for name, want := range m.streams {
		sameStream(t, got[name], want.Stream)
	}
	totals := tracker.Totals()
	if totals != m.totals {
		t.Fatalf("totals are %+v\nwant %+v", totals, m.totals)
	}
}

func sameStream(t rapid.TB, got, want Stream) {
	t.Helper()
	for c := range Count(NCounts) {
		if got.Counts[c] != want.Counts[c] {
			t.Errorf("%v: %v is %d, want %d", want.TSI, c, got.Counts[c], want.Counts[c])
		}
	}
	got.Counts = want.Counts
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// Whatever happens in some sessions, tracker and model have the same counts.
func TestModel(t *testing.T) {
	names := slices.Sorted(maps.Keys(acts))
	rapid.Check(t, func(t *rapid.T) {
		tracker, err := New(Config{Streams: 4096, Checksum: true}) // no set gets full
		if err != nil {
			t.Fatal(err)
		}
		defer tracker.Close()
		m := newModel(true)
		start := rapid.SampledFrom([]uint32{0, 1, 1<<31 - 100, 1<<32 - 500, 12345}).Draw(t, "start")
		sources := []*source{{gsi: 1, sqn: start, trail: start}, {gsi: 2, sqn: 77}}
		for tsc := range rapid.Uint64Range(1, 25).Draw(t, "acts") {
			s := rapid.SampledFrom(sources).Draw(t, "source")
			act := rapid.SampledFrom(names).Draw(t, "act")
			group, d := rapid.Uint32Range(0, 1).Draw(t, "group"), Direction(rapid.Uint8Range(0, 1).Draw(t, "direction"))
			for _, b := range acts[act](t, s) {
				tracker.see(b, group, d, tsc)
				m.see(b, group, d, tsc)
			}
		}
		same(t, tracker, m)
	})
}
