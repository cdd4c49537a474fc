// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"causeway/fleet/lease"
	"causeway/fleet/shards"
)

// ErrNoFleet is returned by what only a member of a fleet can do.
var ErrNoFleet = errors.New("this bridge is in no fleet: [fleet] is not in its configuration")

// DrainFleet leaves all of the fleet's shards to other members, and returns when they may have them. When these have not within three
// leases, the error says whether the bridge goes on, or goes on trying.
func (m *membership) DrainFleet(ctx context.Context) error {
	if m == nil {
		return ErrNoFleet
	}
	m.leave(drained)
	ctx, end := context.WithTimeout(ctx, 3*m.cfg.Lease)
	defer end()
	if left := m.awaitNone(ctx); left > 0 {
		if s, err := m.member.Snapshot(context.WithoutCancel(ctx)); err == nil && m.passing(&s) > 0 {
			return fmt.Errorf("%d shards have not passed to other members, which would lose messages now: this bridge goes on with them, and tries again; "+
				"see show fleet. \"fleet pass\" has them pass with a loss, \"fleet resume\" has them stay", left)
		}
		m.leave("")
		return fmt.Errorf("no other member takes the %d shards: this bridge goes on; see show fleet", left)
	}
	return nil
}

// passing counts the shards that the bridge has and is to pass to others.
func (m *membership) passing(s *lease.Snapshot) (n int) {
	if s.Assignment == nil {
		return 0
	}
	for x := range shards.Shard(shards.Count) {
		if s.Assignment.Passing[x] && s.Assignment.OwnerOf(x) == m.name {
			n++
		}
	}
	return n
}

// PassShards has the bridge's shards that are to pass to others do so now, with a loss where they cannot without.
func (m *membership) PassShards(ctx context.Context) error {
	if m == nil {
		return ErrNoFleet
	}
	ctx, end := context.WithTimeout(ctx, 3*m.cfg.Lease)
	defer end()
	s, err := m.member.Snapshot(ctx)
	if err != nil {
		return err
	}
	if m.passing(&s) == 0 {
		return errors.New("no shards of this bridge wait to pass to another member; see show fleet")
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for m.member.PassAnyhow(ctx); m.passing(&s) > 0; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d shards have not passed: etcd does not answer, or the assignment changes all the time; see show fleet", m.passing(&s))
		}
		if later, err := m.member.Snapshot(ctx); err == nil {
			s = later
		}
	}
	return nil
}

// awaitNone waits until the bridge has no shards, and returns how many it still has when ctx is done.
func (m *membership) awaitNone(ctx context.Context) int {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		p := m.part()
		if p.Hosts+p.Groups == 0 {
			return 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return p.Hosts + p.Groups
		}
	}
}

// yield leaves the shards to other members, if there are any, before the bridge ends. Nobody waits for that for longer than a
// lease.
func (m *membership) yield(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, m.cfg.Lease)
	defer end()
	seen, err := m.member.Snapshot(ctx)
	if err != nil || !slices.ContainsFunc(seen.Members, func(s lease.Seen) bool {
		return s.Member != m.name && s.Weight > 0 && !s.Silent && !s.Ended
	}) {
		return
	}
	m.leave(ending)
	m.awaitNone(ctx)
}

// ResumeFleet takes part again.
func (m *membership) ResumeFleet(context.Context) error {
	if m == nil {
		return ErrNoFleet
	}
	m.leave("")
	return nil
}

// SetFleetWeight changes the bridge's part beside that of other members, until it ends.
func (m *membership) SetFleetWeight(weight float64) error {
	if m == nil {
		return ErrNoFleet
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	m.weight = weight
	return nil
}

// ChangeShards gives the fleet the assignment that change makes of the one it has.
func (m *membership) ChangeShards(ctx context.Context, change func(*shards.Assignment) (*shards.Assignment, error)) error {
	if m == nil {
		return ErrNoFleet
	}
	ctx, end := context.WithTimeout(ctx, 3*m.cfg.Lease)
	defer end()
	err := m.member.Change(ctx, change)
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("etcd does not answer, or the assignment changes all the time; see show fleet")
	}
	return err
}

// Why a bridge leaves its shards to others.
const drained, ending = "it is drained", "it is ending"

func (m *membership) leave(why string) {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.left = why
}

func (m *membership) leaves() (why string) {
	m.changing.Lock()
	defer m.changing.Unlock()
	return m.left
}

// errFleetDrain is why one of a fleet is not drained as one that is alone.
var errFleetDrain = errors.New(`this bridge is one of a fleet: say "fleet drain" and "fleet resume"`)
