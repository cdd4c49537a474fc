// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"causeway/lcore"
)

// Quantiles are those of the sorted list, or at most 1/32 more, whatever the times are.
func TestLatencyQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 10, 1000, 20000} {
		var halves [2]lcore.Latency
		var list []time.Duration
		var sum time.Duration
		for range n {
			d := time.Duration(math.Exp(r.Float64() * 20)) // to half a second
			list, sum = append(list, d), sum+d
			halves[r.IntN(2)].Record(d, 1)
		}
		slices.Sort(list)
		var l lcore.Latency
		l.Add(&halves[0])
		l.Add(&halves[1])
		for _, q := range []float64{0, 1e-9, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1} {
			rank := max(1, int(math.Ceil(q*float64(n))))
			exact := list[rank-1]
			if got := l.Quantile(q); got < exact || got > exact+exact/32 {
				t.Errorf("%d packets: quantile %v is %v, want %v", n, q, got, exact)
			}
		}
		want(t, "count", l.Count(), uint64(n))
		want(t, "sum", l.Sum(), sum)
		want(t, "max", l.Max(), list[n-1])
		var last time.Duration = -1
		var counted uint64
		for bound, c := range l.Buckets() {
			if bound <= last || c == 0 {
				t.Errorf("a bucket of %d up to %v follows one up to %v", c, bound, last)
			}
			last, counted = bound, counted+c
		}
		want(t, "in buckets", counted, uint64(n))
		want(t, "the last bucket", last, l.Max())
	}
}

func TestLatencyEdges(t *testing.T) {
	var none, l lcore.Latency
	l.Add(&none)
	if l.Count() != 0 || l.Max() != 0 || l.Sum() != 0 || l.Quantile(0.5) != 0 {
		t.Errorf("nothing is %+v", l)
	}
	l.Record(0, 1)
	l.Record(-time.Second, 1)
	l.Record(time.Duration(math.MaxInt64), 1) // more than the buckets go up to
	if got := l.Quantile(0.5); got != 0 {
		t.Errorf("the median of 0, 0 and a long time is %v", got)
	}
	if got := l.Max(); got != time.Hour || l.Quantile(math.NaN()) != 0 {
		t.Errorf("the longest is %v", got)
	}
}

// sum adds up all workers' histograms of a direction.
func (s *rig) latency(d lcore.Direction) (sum lcore.Latency) {
	for _, w := range s.datapath.Latency() {
		sum.Add(&w[d])
	}
	return sum
}

// One burst in so many is timed, and all packets that it sends count; dropped packets do not, nor does anything before
// the times were cleared.
func TestLatencyCountsWhatIsSent(t *testing.T) {
	s := newRig(t, smallFixture())
	began := time.Now()
	for _, step := range []struct {
		name   string
		bursts int
		want   uint64
	}{
		{"the first burst", 1, 3}, {"the next ones", lcore.LatencyEvery - 1, 3}, {"three times around", 3 * lcore.LatencyEvery, 12},
	} {
		for range step.bursts {
			s.fromRoCE(v4(), v4(), v4(to(noGroup)), v4())
			s.toIB(0)
			s.fromIB(received(), received(func(m *message) { m.QPN = 0x999 }), received(), received())
			s.toRoCE(0)
		}
		for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
			l := s.latency(d)
			want(t, step.name+", "+d.String(), l.Count(), step.want)
			if l.Max() <= 0 || l.Sum() < l.Max() || l.Max() > 2*time.Since(began) {
				t.Errorf("%s: after %v, %v together and %v at most", step.name, time.Since(began), l.Sum(), l.Max())
			}
		}
	}
	s.datapath.ClearLatency()
	for d := range 2 {
		l := s.latency(lcore.Direction(d))
		if l.Count() != 0 || l.Sum() != 0 || l.Max() != 0 {
			t.Errorf("after clearing, %d packets took %v", l.Count(), l.Sum())
		}
	}
	for range lcore.LatencyEvery {
		s.fromRoCE(v4())
	}
	s.toIB(0)
	if l := s.latency(lcore.RoCEToIB); l.Count() != 1 || l.Sum() <= 0 || l.Sum() > l.Max() || l.Max() > l.Sum()+l.Sum()/16 {
		t.Errorf("cleared, then one packet was timed: %d took %v, at most %v", l.Count(), l.Sum(), l.Max())
	}
}

// Packets that the port does not take do not count.
func TestLatencyOfPortThatIsFull(t *testing.T) {
	s := newRig(t, smallFixture())
	room := rigRing - 1
	for ; room > 64; room -= 64 {
		s.fromRoCE(repeat(v4(), 64)...)
	}
	s.fromRoCE(repeat(v4(), room)...) // and the last burst leaves room for one
	timed := s.latency(lcore.RoCEToIB)
	for range 2 * lcore.LatencyEvery {
		s.fromRoCE(v4(), v4())
	}
	l := s.latency(lcore.RoCEToIB)
	want(t, "sent", s.counters(lcore.RoCEToIB).Sent, rigRing)
	want(t, "timed before", timed.Count(), rigRing/16)
	want(t, "timed", l.Count(), rigRing/16+1)
}

// For a packet that waits for its proxy QP, and one that is handed off to another worker, the waiting time is included.
func TestLatencyOfWaiting(t *testing.T) {
	const wait = 20 * time.Millisecond
	s := newRig(t, smallFixture().with(twoWorkers))
	s.arrive(0, newcomer(), v4(), v4())
	s.workers[0].Step()
	s.punted = s.workers[0].TakePunted()
	time.Sleep(wait)
	s.workers[1].Step()
	by := s.datapath.Latency()
	want(t, "by worker 0", by[0][lcore.RoCEToIB].Count(), 0)
	want(t, "by worker 1", by[1][lcore.RoCEToIB].Count(), 2)
	if got := by[1][lcore.RoCEToIB].Quantile(0); got < wait {
		t.Errorf("it lay on the other's ring for %v, but its latency is %v", wait, got)
	}
	s.datapath.ClearLatency()
	s.fixture.addHost(newcomerIP, lcore.V2)
	if err := s.fixture.populate(s.tables); err != nil {
		t.Fatal(err)
	}
	for _, o := range s.takePunted() {
		o.Pending.Requeue()
	}
	s.work()
	if l := s.latency(lcore.RoCEToIB); l.Count() != 1 || l.Max() < wait {
		t.Errorf("%d packets waited for a proxy QP, %v", l.Count(), l.Max())
	}
}
