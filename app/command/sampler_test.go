// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"
	"time"

	"causeway/app/bridge"
	"causeway/dpdk"
	"causeway/lcore"
)

// growing is a source whose counters grow with each reading.
type growing struct{ n uint64 }

func (c *growing) Counters() (out lcore.Counters) {
	c.n++
	for d := range out.Direction {
		k := c.n * uint64(d+1)
		out.Direction[d] = lcore.DirectionCounters{Received: 10 * k, Sent: 7 * k, SentBytes: 700 * k, Drops: map[lcore.Drop]uint64{lcore.DropProxyQPFull: 3 * k}}
	}
	return out
}

func (*growing) Workers() []lcore.Counters                         { return nil }
func (*growing) Ethernet() (dpdk.Stats, bool)                      { return dpdk.Stats{}, true }
func (*growing) Groups() map[bridge.GroupPlace]lcore.GroupCounters { return nil }

// TestHistory checks the rates of each second, and that ten minutes of them are kept, the last ones.
func TestHistory(t *testing.T) {
	s, begin := &Sampler{source: &growing{}}, time.Now()
	for i := range pointsKept + 50 {
		s.sample(begin.Add(time.Duration(i) * 2 * time.Second))
		if i == 0 && len(s.History()) != 0 {
			t.Error("one reading gives no rate")
		}
	}
	all := s.History()
	if len(all) != pointsKept || !all[pointsKept-1].At.Equal(begin.Add((pointsKept+49)*2*time.Second)) {
		t.Fatalf("%d points, the last at %v", len(all), all[len(all)-1].At)
	}
	want := Rates{Received: 5, Sent: 3.5, Bits: 8 * 350, Dropped: 1.5}
	for i, p := range all {
		if i > 0 && p.At.Sub(all[i-1].At) != 2*time.Second || p.Rates[lcore.RoCEToIB] != want || p.Rates[lcore.IBToRoCE].Sent != 7 {
			t.Fatalf("point %d: %+v", i, p)
		}
	}
}
