// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"fmt"
	"time"

	"causeway/perf/gen"
	"causeway/perf/trial"
)

// setJoined has exactly the first n groups on the shelves.
func (b *Bridge) setJoined(n int) error {
	t := &b.cfg.Traffic
	if n > t.Groups {
		return fmt.Errorf("dut: %d groups; the device was built for %d", n, t.Groups)
	}
	for ; b.joined > n; b.joined-- {
		if err := b.tables.DeleteGroup(t.group(b.joined - 1).IP); err != nil {
			return err
		}
	}
	b.tables.Reclaim()
	for ; b.joined < n; b.joined++ {
		if _, err := b.tables.PutGroup(t.group(b.joined)); err != nil {
			return err
		}
	}
	return nil
}

// SetGroups implements trial.Groups.
func (b *Bridge) SetGroups(n int) error { return b.SetShare(n, 1) }

// SetShare implements trial.Groups.
func (b *Bridge) SetShare(n int, share float64) error {
	if err := b.setJoined(n); err != nil {
		return err
	}
	b.share = share
	b.setOrder(n, share)
	return nil
}

// Missing implements trial.Groups.
func (b *Bridge) Missing() int {
	t := &b.cfg.Traffic
	got := make([]bool, b.joined)
	for _, p := range b.pairs {
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

// Join implements trial.Groups: the time from the request to put the group on the shelves to the first message of it at
// the other side. Every second message goes to the group.
func (b *Bridge) Join(ctx context.Context, l trial.Load, group int) (time.Duration, error) {
	t := &b.cfg.Traffic
	if _, _, there := b.tables.FindGroup(t.group(group).IP); there {
		return 0, fmt.Errorf("dut: join group %d: it is joined", group)
	}
	flow := b.sendTo(l, group)
	for range attempts {
		var asked uint64
		_, err := b.runWith(ctx, l, func() error {
			asked = gen.Now()
			_, err := b.tables.PutGroup(t.group(group))
			return err
		})
		if err != nil {
			return 0, err
		}
		if n, first, _ := b.seen(flow); n > 0 && asked > 0 {
			return gen.Since(asked, first), nil
		}
		if asked > 0 {
			if err := b.tables.DeleteGroup(t.group(group).IP); err != nil {
				return 0, err
			}
			b.tables.Reclaim()
		}
	}
	return 0, fmt.Errorf("dut: join group %d: none of its messages crossed in %d trials", group, attempts)
}

// attempts: on a busy machine a trial may be over before this goroutine has its turn.
const attempts = 10

// Leave implements trial.Groups: the time from the request to the last message of the group at the other side.
func (b *Bridge) Leave(ctx context.Context, l trial.Load, group int) (time.Duration, error) {
	t := &b.cfg.Traffic
	flow := b.sendTo(l, group)
	for range attempts {
		var asked uint64
		_, err := b.runWith(ctx, l, func() error {
			asked = gen.Now()
			return b.tables.DeleteGroup(t.group(group).IP)
		})
		b.tables.Reclaim()
		if err != nil {
			return 0, err
		}
		if n, _, last := b.seen(flow); n > 0 && asked > 0 {
			return gen.Since(asked, last), nil
		}
		if asked > 0 {
			if _, err := b.tables.PutGroup(t.group(group)); err != nil {
				return 0, err
			}
		}
	}
	return 0, fmt.Errorf("dut: leave group %d: none of its messages crossed before, in %d trials", group, attempts)
}

// sendTo has every second message go to the group, the others to those before it; it returns the group's flow.
func (b *Bridge) sendTo(l trial.Load, group int) int {
	t := &b.cfg.Traffic
	first := 2 * t.Flows
	if l.PPS[trial.RoCEToIB] == 0 {
		first += t.Groups
	}
	order := []int{first + group}
	for i := range min(group, 64) {
		order = append(order, first+i, first+group)
	}
	b.setFlows(order)
	return first + group
}

func (b *Bridge) seen(flow int) (n, first, last uint64) {
	return b.pairs[b.cfg.Traffic.owner(flow, len(b.pairs))].flows.Seen(flow)
}
