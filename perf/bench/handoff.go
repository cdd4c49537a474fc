// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"slices"

	"causeway/lcore"
)

// Handoff is what a packet costs each of two workers when a shard of the packets that either receives belongs to the
// other's proxy QPs and is handed off.
type Handoff struct {
	Shard  float64 `json:"shard"`
	EachNS float64 `json:"ns"`
}

// handoffFlight packets a lane: all packets of both lanes fit in the ring between two workers, in case one of them is
// off its CPU for long.
const handoffFlight = 256

// handoffSplit: readings are that many times shorter, and as many more, and the least of them counts. When one of the
// two workers is off its CPU the other one runs out of packets, which long readings nearly always include.
const handoffSplit = 16

// Handoffs measures 64-byte packets, RoCE to IB, by two workers. Of each lane's hosts, sixteenths[i] of 16 have their
// proxy QPs at the other worker. A packet is in the lane of its last proxy QP, so 2x(1-x) of all packets are handed off
// where x of the hosts are foreign. It needs two lcores.
func Handoffs(cfg Config, sixteenths []int) ([]Handoff, error) {
	rigs := make([]*rig, len(sixteenths))
	out := make([]Handoff, len(sixteenths))
	for i, n := range sixteenths {
		s := square(Medium)
		s.lanes, s.foreign, s.flight = 2, n, handoffFlight
		cfg.progress("filling tables for 2 workers, %d of 16 hosts at the other", n)
		t, err := s.newTables()
		if err != nil {
			return nil, err
		}
		defer t.Close()
		if rigs[i], err = newRig(s, t, lcore.RoCEToIB, 64); err != nil {
			return nil, err
		}
		defer rigs[i].close()
	}
	cfg.progress("handoff between 2 workers")
	all := make([]readings, len(rigs))
	cfg.Window /= handoffSplit
	for range handoffSplit * cfg.Repetitions {
		for i, r := range rigs {
			ns, err := cfg.together([]loop{r.lanes[0].worker(), r.lanes[1].worker()})
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], ns)
		}
	}
	for i, r := range rigs {
		x := r.datapath.Counters().Direction[lcore.RoCEToIB]
		out[i] = Handoff{Shard: float64(x.Handoffs) / float64(x.Sent), EachNS: slices.Min(all[i])}
		if err := r.verify(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// PrintHandoffs writes a line for each shard.
func PrintHandoffs(w io.Writer, all []Handoff) error {
	for _, h := range all {
		_, err := fmt.Fprintf(w, "RoCE to IB, 64 B, 2 workers, %2.0f %% handed off: %.1f ns each, %.1f Mpps together\n", 100*h.Shard, h.EachNS, 2e3/h.EachNS)
		if err != nil {
			return err
		}
	}
	return nil
}
