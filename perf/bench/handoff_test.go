// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"strings"
	"testing"
	"time"

	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// Two workers hand off packets of each other's proxy QPs: as large a shard as Handoffs says, none dropped, none lost
// (see verify), and correct to the last bit.
func TestHandoff(t *testing.T) {
	if len(lcores) < 2 {
		t.Skip("needs two CPUs, one a worker")
	}
	s := shape{hosts: 1024, qpns: 1, nodes: 64, lanes: 2, foreign: 4, flight: handoffFlight}
	r := testRig(t, s, lcore.RoCEToIB, 64)
	cfg := short()
	for range 3 {
		if _, err := cfg.together([]loop{r.lanes[0].worker(), r.lanes[1].worker()}); err != nil {
			t.Fatal(err)
		}
		if err := r.verify(); err != nil {
			t.Fatal(err)
		}
	}
	x := r.datapath.Counters().Direction[lcore.RoCEToIB]
	// The last packets handed off have not been sent; on a busy machine few packets are, so that it shows.
	inside := float64(s.lanes*handoffFlight) / float64(x.Sent)
	if shard := float64(x.Handoffs) / float64(x.Sent); math.Abs(shard-3./8) > 0.01+inside {
		t.Errorf("%.3f of %d packets were handed off, want 3/8", shard, x.Sent)
	}
	for i, w := range r.datapath.Workers() {
		if got := w.Counters().Direction[lcore.RoCEToIB]; got.Handoffs == 0 || got.Sent == 0 {
			t.Errorf("worker %d: %+v", i, got)
		}
	}
	for range r.lanes[0].ring.Len() {
		if _, err := roce.Parse(r.lanes[0].look()); err != nil {
			t.Fatal(err)
		}
	}
}

// A packet that is lost between workers is noticed.
func TestLossIsNoticed(t *testing.T) {
	s := shape{hosts: 64, qpns: 1, nodes: 64, lanes: 2, foreign: 8, flight: handoffFlight}
	r := testRig(t, s, lcore.RoCEToIB, 64)
	r.datapath.Workers()[0].Step() // hands some over
	if err := r.verify(); err != nil {
		t.Error(err)
	}
	r.lanes[1].empty()
	if r.verify() == nil {
		t.Error("lost packets were not noticed")
	}
}

func TestHandoffs(t *testing.T) {
	if len(lcores) < 2 {
		t.Skip("needs two CPUs, one a worker")
	}
	cfg := short()
	cfg.Window = 2 * time.Millisecond
	all, err := Handoffs(cfg, []int{0, 8})
	if err != nil || len(all) != 2 || all[0].Shard != 0 || math.Abs(all[1].Shard-0.5) > 0.02 || all[0].EachNS <= 0 || all[1].EachNS <= 0 {
		t.Errorf("%+v %v", all, err)
	}
	var b strings.Builder
	if err := PrintHandoffs(&b, all); err != nil || strings.Count(b.String(), "\n") != len(all) {
		t.Errorf("%v: %s", err, b.String())
	}
}
