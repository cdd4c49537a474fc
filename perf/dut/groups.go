// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"fmt"
	"time"

	"causeway/perf/gen"
	"causeway/perf/trial"
)

// setJoined puts exactly the first n groups into the tables.
func (d *DUT) setJoined(n int) error {
	t := &d.cfg.Traffic
	if n > t.Groups {
		return fmt.Errorf("dut: %d groups; the device was built for at most %d", n, t.Groups)
	}
	for ; d.joined > n; d.joined-- {
		if err := d.tables.Groups.Delete(t.group(d.joined - 1).IP); err != nil {
			return err
		}
	}
	d.tables.Reclaim()
	for ; d.joined < n; d.joined++ {
		if _, err := d.tables.Groups.Put(t.group(d.joined)); err != nil {
			return err
		}
	}
	return nil
}

// SetGroups implements trial.Groups.
func (d *DUT) SetGroups(n int) error { return d.SetShare(n, 1) }

// SetShare implements trial.Groups.
func (d *DUT) SetShare(n int, share float64) error {
	if err := d.setJoined(n); err != nil {
		return err
	}
	d.share = share
	d.setOrder(n, share)
	return nil
}

// Missing implements trial.Groups.
func (d *DUT) Missing() int {
	t := &d.cfg.Traffic
	got := make([]bool, d.joined)
	for _, p := range d.pairs {
		for i := range got {
			for _, flow := range []int{2*t.Flows + i, 2*t.Flows + t.Groups + i} {
				if n, _, _ := p.flows.Seen(flow); n > 0 {
					got[i] = true
				}
			}
		}
	}
	missing := 0
	for _, x := range got {
		if !x {
			missing++
		}
	}
	return missing
}

// Join implements trial.Groups: the time from the call that puts the group into the tables to the arrival of its first
// message. Every second message goes to the group.
func (d *DUT) Join(ctx context.Context, l trial.Load, group int) (time.Duration, error) {
	t := &d.cfg.Traffic
	if _, _, there := d.tables.Groups.Find(t.group(group).IP); there {
		return 0, fmt.Errorf("dut: join group %d: it is joined already", group)
	}
	flow := d.sendTo(l, group)
	for range attempts {
		var asked uint64
		_, err := d.runWith(ctx, l, func() error {
			asked = gen.Now()
			_, err := d.tables.Groups.Put(t.group(group))
			return err
		})
		if err != nil {
			return 0, err
		}
		if n, first, _ := d.seen(flow); n > 0 && asked > 0 {
			return gen.Since(asked, first), nil
		}
		if asked > 0 {
			if err := d.tables.Groups.Delete(t.group(group).IP); err != nil {
				return 0, err
			}
			d.tables.Reclaim()
		}
	}
	return 0, fmt.Errorf("dut: join group %d: none of its messages arrived in %d trials", group, attempts)
}

// attempts: on a busy machine a trial may end before this goroutine has run.
const attempts = 10

// Leave implements trial.Groups: the time from the call that removes the group to the arrival of its last message.
func (d *DUT) Leave(ctx context.Context, l trial.Load, group int) (time.Duration, error) {
	t := &d.cfg.Traffic
	flow := d.sendTo(l, group)
	for range attempts {
		var asked uint64
		_, err := d.runWith(ctx, l, func() error {
			asked = gen.Now()
			return d.tables.Groups.Delete(t.group(group).IP)
		})
		d.tables.Reclaim()
		if err != nil {
			return 0, err
		}
		if n, _, last := d.seen(flow); n > 0 && asked > 0 {
			return gen.Since(asked, last), nil
		}
		if asked > 0 {
			if _, err := d.tables.Groups.Put(t.group(group)); err != nil {
				return 0, err
			}
		}
	}
	return 0, fmt.Errorf("dut: leave group %d: none of its messages arrived before, in %d trials", group, attempts)
}

// sendTo has every second message go to the group, and the others to the groups before it. It returns the group's flow.
func (d *DUT) sendTo(l trial.Load, group int) int {
	t := &d.cfg.Traffic
	first := 2 * t.Flows
	if l.PPS[trial.RoCEToIB] == 0 {
		first += t.Groups
	}
	order := []int{first + group}
	for i := range min(group, 64) {
		order = append(order, first+i, first+group)
	}
	d.setFlows(order)
	return first + group
}

func (d *DUT) seen(flow int) (n, first, last uint64) {
	return d.pairs[d.cfg.Traffic.owner(flow, len(d.pairs))].flows.Seen(flow)
}
