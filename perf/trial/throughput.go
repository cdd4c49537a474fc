// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"time"
)

// Search is how to search for a throughput.
type Search struct {
	Directions []Direction
	MaxPPS     float64       // of each direction; 0: what a flood shows
	Trial      time.Duration // of each trial
	Resolution float64       // of the result, as a part of the upper end of the search
	// Retries: a rate fails only when this many further trials of it fail, too (binary search with loss verification,
	// TST009 §12.3.3): on a shared machine, messages are lost that the device would not lose.
	Retries int
	// Patience: up to this many failed trials of a rate do not count if other programs used the CPUs meanwhile.
	Patience int
	// Confirm: this many further trials of the rate found must pass, each with its retries; else the search continues
	// below.
	Confirm int
	// Shortfall is the part of a load that the generator may miss for the trial to count.
	Shortfall float64
}

// Throughput is the largest rate with no more than the allowed loss.
type Throughput struct {
	Allowed   float64 `json:"allowed_loss"` // ratio
	PPS       float64 `json:"pps"`          // of each direction
	TotalPPS  float64 `json:"total_pps"`    // of all together
	Limit     string  `json:"limited_by"`
	Confirmed int     `json:"confirmed"` // trials at this rate that passed
	Faults    string  `json:"faults,omitempty"`
	Steps     []Step  `json:"steps"`
}

// What limits a throughput.
const (
	ByDevice    = "device"
	ByGenerator = "generator" // the device can do more than the generator
	ByMaximum   = "maximum"   // the search was limited to it
	ByMachine   = "machine"   // other programs used the CPUs in every trial above
)

// search is a search in progress.
type search struct {
	Search
	dev     Device
	observe Observer
	what    string
	result  Throughput
	bound   string // why rates above low have failed
}

// Find finds the throughput at an allowed loss ratio, between low, which is known to pass, and the maximum. What is the
// name of the search for the observer.
func (s Search) Find(ctx context.Context, dev Device, what string, allowed, low float64, observe Observer) (Throughput, error) {
	x := &search{Search: s, dev: dev, observe: observe, what: what, bound: ByMaximum}
	x.result.Allowed = allowed
	err := x.run(ctx, low)
	x.result.TotalPPS = x.result.PPS * float64(len(s.Directions))
	return x.result, err
}

func (x *search) run(ctx context.Context, low float64) error {
	high := x.MaxPPS
	if high == 0 {
		var err error
		if high, err = x.ceiling(ctx); err != nil {
			return err
		}
		high = max(high, low) // the machine may have been slower than when low passed
	}
	low = min(low, high)
	known := low
	// The maximum may pass; a flood may have shown too little.
	for {
		ok, err := x.passes(ctx, high)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		low = high
		if x.MaxPPS > 0 {
			break
		}
		high *= margin
	}
	unit := high * x.Resolution
	for high-low > unit {
		middle := (low + high) / 2
		ok, err := x.passes(ctx, middle)
		if err != nil {
			return err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	if err := x.confirm(ctx, low, unit); err != nil {
		return err
	}
	x.result.PPS = max(x.result.PPS, known)
	return nil
}

// margin is the factor by which a flood may show too little, and by which the search goes beyond it.
const margin = 1.25

// ceiling floods the device. Its throughput is at most what it forwards then, with a margin for the effects of
// flooding, and at most what the generator offers.
func (x *search) ceiling(ctx context.Context) (float64, error) {
	o, err := x.trial(ctx, At(x.Directions, Flood, x.Trial), Informs)
	if err != nil {
		return 0, err
	}
	var high float64
	for _, d := range x.Directions {
		high = max(high, min(o.Rate(d)*margin, o.OfferedRate(d)))
	}
	return max(high, 1), nil
}

func (x *search) trial(ctx context.Context, l Load, verdict string) (Outcome, error) {
	o, err := x.dev.Run(ctx, l)
	if err != nil {
		return o, err
	}
	if verdict == "" {
		verdict = x.judge(l, o)
	}
	if f := faults(o); f != "" {
		x.result.Faults = f
	}
	s := stepOf(l, o, verdict)
	x.result.Steps = append(x.result.Steps, s)
	x.observe.notify(x.what, s)
	return o, nil
}

// judge returns the verdict on a trial.
func (x *search) judge(l Load, o Outcome) string {
	switch {
	case faults(o) != "":
		return Faulty
	case o.LossRatio() > x.result.Allowed:
		return unlessDisturbed(o, Lossy)
	}
	for _, d := range x.Directions {
		if o.OfferedRate(d) < l.PPS[d]*(1-x.Shortfall) {
			return unlessDisturbed(o, TooSlow)
		}
	}
	return Passed
}

// unlessDisturbed is a failed trial's verdict: Disturbed if other programs used the CPUs for long.
func unlessDisturbed(o Outcome, verdict string) string {
	const least, part = 200 * time.Microsecond, 1000
	if o.Disturbed > max(least, o.Elapsed/part) {
		return Disturbed
	}
	return verdict
}

// passes tries a rate, with retries. Faults are final.
func (x *search) passes(ctx context.Context, pps float64) (bool, error) {
	patience := x.Patience
	for tries := 1 + x.Retries; tries > 0; tries-- {
		if _, err := x.trial(ctx, At(x.Directions, pps, x.Trial), ""); err != nil {
			return false, err
		}
		switch x.last() {
		case Passed:
			return true, nil
		case Disturbed:
			x.bound = ByMachine
			if patience > 0 {
				patience--
				tries++
			}
		case TooSlow:
			x.bound = ByGenerator
		case Lossy:
			x.bound = ByDevice
		case Faulty:
			x.bound = ByDevice
			return false, nil
		}
	}
	return false, nil
}

func (x *search) last() string { return x.result.Steps[len(x.result.Steps)-1].Verdict }

// confirm repeats the rate found, and lowers it in growing steps until it passes.
func (x *search) confirm(ctx context.Context, pps, unit float64) error {
	for ; pps > 0; pps, unit = pps-unit, 2*unit {
		held := 0
		for ; held < x.Confirm; held++ {
			ok, err := x.passes(ctx, pps)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
		}
		if held == x.Confirm {
			x.result.PPS, x.result.Limit, x.result.Confirmed = pps, x.bound, held
			return nil
		}
	}
	x.result.PPS, x.result.Limit = 0, x.bound
	return nil
}
