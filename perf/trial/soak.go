// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Soak is a long load, in pieces. It shows leaks, slow drift and rare faults.
type Soak struct {
	PPS     float64           `json:"pps"`
	Seconds float64           `json:"seconds"`
	Counts  map[string]Counts `json:"counts"`
	Foreign uint64            `json:"foreign"`
	Faults  string            `json:"faults,omitempty"`
	Latency []Latency         `json:"latency"` // of all pieces together
	Pieces  []SoakPiece       `json:"pieces"`
}

// SoakPiece is one piece of a soak.
type SoakPiece struct {
	At   float64 `json:"at_seconds"`
	Loss float64 `json:"loss_ratio"`
	P50  int64   `json:"p50_ns"` // of the slower direction
	P99  int64   `json:"p99_ns"`

	Verdict string `json:"verdict,omitempty"`
}

// RunSoak offers a rate for a time, in pieces. It ends early at a fault.
func RunSoak(ctx context.Context, dev Device, directions []Direction, pps float64, d, piece time.Duration, observe Observer) (Soak, error) {
	s := Soak{PPS: pps, Counts: map[string]Counts{}}
	var all [Directions]*hdrhistogram.Histogram
	for elapsed := time.Duration(0); elapsed < d && s.Faults == ""; {
		l := At(directions, pps, min(piece, d-elapsed))
		o, err := dev.Run(ctx, l)
		if err != nil {
			return s, err
		}
		verdict := verdictOf(l, o)
		observe.notify("soak", stepOf(l, o, verdict))
		elapsed += l.Duration
		s.take(o, directions, elapsed, &all)
		s.Pieces[len(s.Pieces)-1].Verdict = verdict
	}
	for _, dir := range directions {
		x := summary(all[dir])
		x.Direction, x.Part, x.PPS = dir.String(), 1, pps
		s.Latency = append(s.Latency, x)
	}
	return s, nil
}

func (s *Soak) take(o Outcome, directions []Direction, at time.Duration, all *[Directions]*hdrhistogram.Histogram) {
	p := SoakPiece{At: at.Seconds(), Loss: o.LossRatio()}
	for _, d := range directions {
		c := s.Counts[d.String()]
		c.Add(o.Counts[d])
		s.Counts[d.String()] = c
		if h := o.Latency[d]; h != nil {
			p.P50, p.P99 = max(p.P50, h.ValueAtQuantile(50)), max(p.P99, h.ValueAtQuantile(99))
			if all[d] == nil {
				all[d] = h
			} else {
				all[d].Merge(h)
			}
		}
	}
	s.Seconds += o.Elapsed.Seconds()
	s.Foreign += o.Foreign
	s.Faults = faults(o)
	s.Pieces = append(s.Pieces, p)
}
