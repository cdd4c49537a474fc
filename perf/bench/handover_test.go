// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"testing"
	"time"

	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// Two workers hand each other what is not theirs: as large a share as the doc comment of HandedOver says, none dropped, none lost (which
// verify looks at), and right to the last bit.
func TestHandingOver(t *testing.T) {
	if len(lcores) < 2 {
		t.Skip("needs two CPUs, one a worker")
	}
	s := shape{hosts: 1024, qpns: 1, nodes: 64, lanes: 2, foreign: 4, flight: handedFlight}
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
	x := r.bench.Counters().Direction[lcore.RoCEToIB]
	// What was handed over last has not been sent. On a busy machine so little crosses that it shows.
	inside := float64(s.lanes*handedFlight) / float64(x.Sent)
	if share := float64(x.HandedOver) / float64(x.Sent); math.Abs(share-3./8) > 0.01+inside {
		t.Errorf("%.3f of %d packets were handed over, want 3/8", share, x.Sent)
	}
	for i, w := range r.bench.Workers() {
		if got := w.Counters().Direction[lcore.RoCEToIB]; got.HandedOver == 0 || got.Sent == 0 {
			t.Errorf("worker %d: %+v", i, got)
		}
	}
	for range r.lanes[0].inRing() {
		if _, err := roce.Parse(r.lanes[0].look()); err != nil {
			t.Fatal(err)
		}
	}
}

// A packet that is lost between workers is noticed.
func TestLossIsNoticed(t *testing.T) {
	s := shape{hosts: 64, qpns: 1, nodes: 64, lanes: 2, foreign: 8, flight: handedFlight}
	r := testRig(t, s, lcore.RoCEToIB, 64)
	r.bench.Workers()[0].Step() // hands some over
	if err := r.verify(); err != nil {
		t.Error(err)
	}
	r.lanes[1].empty()
	if r.verify() == nil {
		t.Error("lost packets were not noticed")
	}
}

func TestHandedOverIsMeasured(t *testing.T) {
	if len(lcores) < 2 {
		t.Skip("needs two CPUs, one a worker")
	}
	cfg := short()
	cfg.Window = 2 * time.Millisecond
	all, err := HandedOver(cfg, []int{0, 8})
	if err != nil || len(all) != 2 || all[0].Share != 0 || math.Abs(all[1].Share-0.5) > 0.02 || all[0].EachNS <= 0 || all[1].EachNS <= 0 {
		t.Errorf("%+v %v", all, err)
	}
	two, err := TwoWorkers(cfg)
	if err != nil || two[0].Scale <= 0 || two[1].Scale <= 0 {
		t.Errorf("%+v %v", two, err)
	}
}
