// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"

	"causeway/lcore"
)

// Handed says what a packet costs each of two workers when a share of those that either receives is from the other's
// stand-ins, and so handed over.
type Handed struct {
	Share  float64 `json:"share"`
	EachNS float64 `json:"ns"`
}

// handedFlight is few enough packets for those of both lanes to fit between two workers: one of them may be kept from its
// CPU for long.
const handedFlight = 256

// shorter readings, and as many more: of workers that wait for each other the least counts. When one is kept from its CPU,
// the other runs out of packets, and the more often the longer one looks.
const shorter = 16

// HandedOver measures packets of 64 B from Ethernet in turn with so many sixteenths of all stand-ins at the other worker. A
// packet is where its last stand-in was: of x sixteenths, 2x(1-x) are handed over. It needs two lcores.
func HandedOver(cfg Config, sixteenths []int) ([]Handed, error) {
	rigs := make([]*rig, len(sixteenths))
	out := make([]Handed, len(sixteenths))
	for i, n := range sixteenths {
		s := square(Medium)
		s.lanes, s.foreign, s.flight = 2, n, handedFlight
		cfg.progress("filling tables for 2 workers, %d of 16 packets to be handed over", n)
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
	cfg.progress("handing over")
	all := make([]readings, len(rigs))
	cfg.Window /= shorter
	for range shorter * cfg.Repetitions {
		for i, r := range rigs {
			ns, err := cfg.together([]loop{r.lanes[0].worker(), r.lanes[1].worker()})
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], ns)
		}
	}
	for i, r := range rigs {
		x := r.bench.Counters().Direction[lcore.RoCEToIB]
		out[i] = Handed{Share: float64(x.HandedOver) / float64(x.Sent), EachNS: slices.Min(all[i])}
		if err := r.verify(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// TwoWorkers measures how two workers scale with packets of 64 B, which are handed over never: by direction.
func TwoWorkers(cfg Config) (out [2]Scaling, err error) {
	s := square(Medium)
	s.lanes = 2
	cfg.progress("filling tables for 2 workers")
	t, err := s.newTables()
	if err != nil {
		return out, err
	}
	defer t.Close()
	for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
		cfg.progress("%s, 1 and 2 workers", directions[d])
		if out[d], err = scaling(&cfg, s, t, d, 64); err != nil {
			return out, err
		}
	}
	return out, nil
}
