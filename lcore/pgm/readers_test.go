// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"fmt"
	"sync/atomic"
	"testing"

	"causeway/lcore/pgm/pgmtest"
)

const (
	streamData = 40
	streamLen  = 24 + streamData
)

// streams returns first packets of n streams of one length; stream i begins at i<<20.
func streams(n int) (all []byte) {
	for i := range n {
		sqn := uint32(i) << 20
		p := pgmtest.Packet{
			Type: pgmtest.ODATA, GSI: [6]byte{9, 9, 9, 9, byte(i >> 8), byte(i)}, SQN: sqn, Trail: sqn, SrcPort: 1,
			Data: big.AppendUint32(nil, ^sqn),
		}
		p.Data = append(p.Data, make([]byte, streamData-4)...)
		all = p.AppendTo(all)
	}
	return all
}

// see shows the tracker one payload, as a worker does.
func (t *Tracker) see(payload []byte, group uint32, d Direction, tsc uint64) {
	pgmtest.See(t.Pointer(), payload, group, uint8(d), tsc)
}

// While a worker writes as fast as it can, what readers get is of one moment. Round r has TSC r and number r-1.
func TestReaders(t *testing.T) {
	const rounds = 400_000
	for _, c := range []struct {
		name          string
		room, streams int
		evicts        bool
	}{{"many streams", 64, 8, false}, {"more than there is room for", 4, 16, true}} {
		t.Run(c.name, func(t *testing.T) {
			tracker, err := New(Config{Streams: c.room})
			if err != nil {
				t.Fatal(err)
			}
			defer tracker.Close()
			var done atomic.Bool
			go func() {
				defer done.Store(true)
				pgmtest.SeeRounds(tracker.Pointer(), streams(c.streams), streamLen, rounds)
			}()
			reads := 0
			var before Totals
			for !done.Load() {
				for _, s := range tracker.Streams() {
					checkMoment(t, s, c.evicts)
					reads++
				}
				now := tracker.Totals()
				if now.Begun < before.Begun || now.Direction[0].Counts[ODATA] < before.Direction[0].Counts[ODATA] {
					t.Fatalf("sums went down from %+v to %+v", before, now)
				}
				before = now
			}
			if got := tracker.Totals(); got.Direction[0].Counts[ODATA] != uint64(rounds*c.streams) || (got.Evicted > 0) != c.evicts {
				t.Errorf("in the end: %+v", got)
			}
			if reads == 0 {
				t.Error("nothing was read meanwhile")
			}
			t.Logf("%d reads", reads)
		})
	}
}

func checkMoment(t *testing.T, s Stream, evicts bool) {
	t.Helper()
	first := uint32(s.TSI.GSI[5]) << 20
	n := s.Seen - s.Since + 1
	want := Counts{ODATA: n, Bytes: n * streamData}
	if s.Lead != first+uint32(s.Seen)-1 || s.Counts != want || !evicts && s.Since != 1 {
		t.Fatalf("torn: %+v", s)
	}
}

// The cost of a packet that comes in order, without the call from Go to C.
func BenchmarkSee(b *testing.B) {
	for _, n := range []int{1, 1000} {
		for _, checksum := range []bool{false, true} {
			b.Run(fmt.Sprintf("streams=%d/checksum=%v", n, checksum), func(b *testing.B) {
				tracker, err := New(Config{Streams: 2048, IdleCycles: 1 << 40, Checksum: checksum})
				if err != nil {
					b.Fatal(err)
				}
				defer tracker.Close()
				packets := streams(n)
				pgmtest.SeeRounds(tracker.Pointer(), packets, streamLen, 1)
				b.ResetTimer()
				pgmtest.SeeRounds(tracker.Pointer(), packets, streamLen, b.N/n+1)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64((b.N/n+1)*n), "ns/packet")
				c := tracker.Totals().Direction[0].Counts
				if c[Missed] != 0 || c[Duplicates] != 0 || c[ODATA] < uint64(b.N) {
					b.Fatalf("%d of %d packets, %d missed", c[ODATA], b.N, c[Missed])
				}
			})
		}
	}
}
