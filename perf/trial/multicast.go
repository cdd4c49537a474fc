// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"time"
)

// Groups is a device that bridges multicast groups, which are numbered from 0.
type Groups interface {
	Device
	// SetGroups makes the device bridge exactly the first n groups, and all traffic go to them.
	SetGroups(n int) error
	// SetShare makes the device bridge n groups, and a share of the messages, 0 to 1, go to them.
	SetShare(n int, share float64) error
	// Join and Leave measure the time from joining or leaving a group, under load, to the arrival of the group's first
	// or last message.
	Join(ctx context.Context, l Load, group int) (time.Duration, error)
	Leave(ctx context.Context, l Load, group int) (time.Duration, error)
	// Missing is how many groups received no message in the last trial.
	Missing() int
}

// Multicast has the tests of RFC 3918 that apply to a bridge with two ports.
type Multicast struct {
	Capacity  Capacity  `json:"group_capacity"` // §7.1
	Mixed     []Mixed   `json:"mixed"`          // §4.1: throughput by the share of multicast
	Join      Delays    `json:"join"`           // §6.1
	Leave     Delays    `json:"leave"`          // §6.2
	Steps     []Step    `json:"steps"`
	Direction string    `json:"direction"`
	Latency   []Latency `json:"latency"` // §5.1: of multicast alone
}

// Capacity is how many groups are forwarded without loss.
type Capacity struct {
	Groups int     `json:"groups"`
	Limit  int     `json:"limit"` // more were not tried
	PPS    float64 `json:"pps"`
}

// Mixed is the throughput at a share of multicast.
type Mixed struct {
	Share      float64    `json:"share"`
	Throughput Throughput `json:"throughput"`
}

// Delays are the delays of repeated joins or leaves.
type Delays struct {
	N   int           `json:"n"`
	Min time.Duration `json:"min_ns"`
	Avg time.Duration `json:"avg_ns"`
	Max time.Duration `json:"max_ns"`
}

// MulticastPlan is what to measure.
type MulticastPlan struct {
	Direction   Direction
	MaxGroups   int
	CapacityPPS float64 // rate of the capacity test; 0: a tenth of the least throughput
	Shares      []float64
	Repetitions int // of joins and leaves
	Allowed     float64
	Search      Search
	LatencyPart float64
}

// Run measures mixed throughput, capacity, latency and delays.
func (p MulticastPlan) Run(ctx context.Context, dev Groups, observe Observer) (Multicast, error) {
	m := Multicast{Direction: p.Direction.String()}
	p.Search.Directions = []Direction{p.Direction}
	for _, f := range []func(context.Context, Groups, *Multicast, Observer) error{p.mixed, p.capacity, p.latency, p.delays} {
		if err := f(ctx, dev, &m, observe); err != nil {
			return m, err
		}
	}
	return m, nil
}

const mixedGroups = 16 // for mixed throughput and latency

func (p *MulticastPlan) groups() int { return min(mixedGroups, p.MaxGroups) }

func (p *MulticastPlan) mixed(ctx context.Context, dev Groups, m *Multicast, observe Observer) error {
	for _, share := range p.Shares {
		if err := dev.SetShare(p.groups(), share); err != nil {
			return err
		}
		t, err := p.Search.Find(ctx, dev, fmt.Sprintf("%.0f %% multicast", share*100), p.Allowed, 0, observe)
		if err != nil {
			return err
		}
		m.Mixed = append(m.Mixed, Mixed{share, t})
	}
	return nil
}

// reference is a rate that the device forwards easily.
func (p *MulticastPlan) reference(m *Multicast) float64 {
	if p.CapacityPPS > 0 || len(m.Mixed) == 0 {
		return max(p.CapacityPPS, 1000)
	}
	least := m.Mixed[0].Throughput.PPS
	for _, x := range m.Mixed {
		least = min(least, x.Throughput.PPS)
	}
	return max(least/10, 1000)
}

// capacity doubles the number of groups until one receives nothing or messages are lost, then searches between.
func (p *MulticastPlan) capacity(ctx context.Context, dev Groups, m *Multicast, observe Observer) error {
	m.Capacity = Capacity{Limit: p.MaxGroups, PPS: p.reference(m)}
	low, high := 0, p.MaxGroups+1
	for n := min(16, p.MaxGroups); high-low > max(1, low/50); {
		ok, err := p.forwards(ctx, dev, n, m, observe)
		if err != nil {
			return err
		}
		if ok {
			low = n
		} else {
			high = n
		}
		if high > p.MaxGroups && low > 0 {
			n = min(2*low, p.MaxGroups)
		} else {
			n = (low + high) / 2
		}
		if n == low {
			break
		}
	}
	m.Capacity.Groups = low
	return nil
}

func (p *MulticastPlan) forwards(ctx context.Context, dev Groups, n int, m *Multicast, observe Observer) (bool, error) {
	if err := dev.SetGroups(n); err != nil {
		return false, err
	}
	for range 1 + p.Search.Retries {
		l := At([]Direction{p.Direction}, m.Capacity.PPS, p.Search.Trial)
		l.Duration = max(l.Duration, time.Duration(float64(4*n)/m.Capacity.PPS*1e9)) // a few messages to each group
		if _, sliced := dev.(SlicedGroups); sliced {
			l.Packets, l.Duration = uint64(4*n), 0 // one slice: Missing is of the last one
		}
		o, err := dev.Run(ctx, l)
		if err != nil {
			return false, err
		}
		verdict := Passed
		if dev.Missing() > 0 || o.LossRatio() > p.Allowed {
			verdict = unlessDisturbed(o, Lossy)
		}
		s := stepOf(l, o, verdict)
		m.Steps = append(m.Steps, s)
		observe.notify(fmt.Sprintf("%d groups", n), s)
		if verdict == Passed {
			return true, nil
		}
	}
	return false, nil
}

func (p *MulticastPlan) latency(ctx context.Context, dev Groups, m *Multicast, observe Observer) error {
	if err := dev.SetGroups(p.groups()); err != nil {
		return err
	}
	lat, steps, err := LatencyAt(ctx, dev, []Direction{p.Direction}, p.reference(m)*10, []float64{p.LatencyPart}, p.Search.Trial, observe)
	m.Latency, m.Steps = lat, append(m.Steps, steps...)
	return err
}

// delayTrial is much longer than a join or leave.
const delayTrial = 100 * time.Millisecond

func (p *MulticastPlan) delays(ctx context.Context, dev Groups, m *Multicast, _ Observer) error {
	if err := dev.SetGroups(p.groups()); err != nil {
		return err
	}
	l := At([]Direction{p.Direction}, m.Capacity.PPS, delayTrial)
	for range p.Repetitions {
		leave, err := dev.Leave(ctx, l, p.groups()-1)
		if err != nil {
			return err
		}
		join, err := dev.Join(ctx, l, p.groups()-1)
		if err != nil {
			return err
		}
		m.Leave.add(leave)
		m.Join.add(join)
	}
	return nil
}

func (d *Delays) add(x time.Duration) {
	if d.N == 0 || x < d.Min {
		d.Min = x
	}
	d.Max = max(d.Max, x)
	d.Avg = (d.Avg*time.Duration(d.N) + x) / time.Duration(d.N+1)
	d.N++
}

// SlicedGroups is Sliced for a device with groups.
type SlicedGroups struct {
	Groups
	Sliced Sliced
}

// Run implements Device.
func (s SlicedGroups) Run(ctx context.Context, l Load) (Outcome, error) {
	return s.Sliced.Run(ctx, l)
}
