// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"math"
	"time"
)

// LossCurve offers a rate, then less in steps of a tenth of it, until two trials in a row lose nothing (RFC 2544
// §26.3).
func LossCurve(ctx context.Context, dev Device, directions []Direction, pps float64, d time.Duration, observe Observer) ([]Step, error) {
	var steps []Step
	quiet := 0
	for tenth := 10; tenth > 0 && quiet < 2; tenth-- {
		l := At(directions, pps*float64(tenth)/10, d)
		o, err := runCalm(ctx, dev, l)
		if err != nil {
			return steps, err
		}
		s := stepOf(l, o, verdictOf(l, o))
		steps = append(steps, s)
		observe.notify("loss", s)
		if s.Loss == 0 {
			quiet++
		} else {
			quiet = 0
		}
	}
	return steps, nil
}

// Burst is the longest burst at full rate without loss (RFC 2544 §26.4, RFC 9004).
type Burst struct {
	Packets   []uint64 `json:"packets"` // found, by repetition
	Mean      float64  `json:"mean"`
	Deviation float64  `json:"stddev"`
	Min       uint64   `json:"min"`
	Max       uint64   `json:"max"`
	Limit     uint64   `json:"limit"`     // longer bursts were not tried
	RatePPS   float64  `json:"burst_pps"` // rate of the longest burst
	// BufferSeconds is the device's buffer time at that rate, corrected for what it forwards meanwhile (RFC 9004 §6.4);
	// 0: the throughput is unknown, or not below the rate.
	BufferSeconds float64 `json:"buffer_seconds"`
	Steps         []Step  `json:"steps"`
}

// FindBurst searches between one packet and limit, repeatedly. Throughput, of each direction, corrects the buffer time;
// 0: unknown.
func FindBurst(ctx context.Context, dev Device, directions []Direction, limit uint64, repetitions int, throughput float64, observe Observer) (Burst, error) {
	b := Burst{Limit: min(limit, maxPackets)}
	for range repetitions {
		n, err := b.search(ctx, dev, directions, observe)
		if err != nil {
			return b, err
		}
		b.Packets = append(b.Packets, n)
	}
	b.summarise(throughput)
	return b, nil
}

func (b *Burst) search(ctx context.Context, dev Device, directions []Direction, observe Observer) (uint64, error) {
	low, high := uint64(0), b.Limit+1 // low passes, high does not
	for n := b.Limit; high-low > max(1, low/200); n = (low + high) / 2 {
		l := At(directions, Flood, 0)
		l.Packets = n
		o, err := dev.Run(ctx, l)
		if err != nil {
			return 0, err
		}
		verdict := Passed
		if o.LossRatio() > 0 {
			verdict = Lossy
		}
		s := stepOf(l, o, verdict)
		b.Steps = append(b.Steps, s)
		observe.notify("burst", s)
		if verdict == Passed {
			low, b.RatePPS = n, s.PPS // the longest so far; nothing was rejected, so the rate was really offered
		} else {
			high = n
		}
	}
	return low, nil
}

func (b *Burst) summarise(throughput float64) {
	if len(b.Packets) == 0 {
		return
	}
	b.Min = math.MaxUint64
	var sum, squares float64
	for _, n := range b.Packets {
		sum += float64(n)
		squares += float64(n) * float64(n)
		b.Min, b.Max = min(b.Min, n), max(b.Max, n)
	}
	n := float64(len(b.Packets))
	b.Mean = sum / n
	b.Deviation = math.Sqrt(max(0, squares/n-b.Mean*b.Mean))
	if b.RatePPS > 0 && throughput > 0 && throughput < b.RatePPS {
		b.BufferSeconds = b.Mean / b.RatePPS * (1 - throughput/b.RatePPS)
	}
}
