// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"causeway/fleet/shares"
)

// ErrNoFleet is returned by what only a member of a fleet can do.
var ErrNoFleet = errors.New("this bridge is in no fleet: [fleet] is not in its configuration")

// DrainFleet leaves all of the fleet's shares to other members, and returns when they may have them. When no other takes
// them within three rights, the bridge goes on, and the error says so.
func (m *membership) DrainFleet(ctx context.Context) error {
	if m == nil {
		return ErrNoFleet
	}
	m.setDrained(true)
	ctx, end := context.WithTimeout(ctx, 3*m.cfg.Right)
	defer end()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		p, _ := m.Part()
		if p.Hosts+p.Groups == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.setDrained(false)
			return fmt.Errorf("no other member takes the %d shares: this bridge goes on; see show fleet", p.Hosts+p.Groups)
		}
	}
}

// ResumeFleet takes part again.
func (m *membership) ResumeFleet(context.Context) error {
	if m == nil {
		return ErrNoFleet
	}
	m.setDrained(false)
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

// ChangeShares gives the fleet the assignment that change makes of the one it has.
func (m *membership) ChangeShares(ctx context.Context, change func(*shares.Assignment) (*shares.Assignment, error)) error {
	if m == nil {
		return ErrNoFleet
	}
	ctx, end := context.WithTimeout(ctx, 3*m.cfg.Right)
	defer end()
	err := m.member.Change(ctx, change)
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("etcd does not answer, or the assignment changes all the time; see show fleet")
	}
	return err
}

func (m *membership) setDrained(drained bool) {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.drained = drained
}

func (m *membership) isDrained() bool {
	m.changing.Lock()
	defer m.changing.Unlock()
	return m.drained
}

// errFleetDrain is why one of a fleet is not drained as one that is alone.
var errFleetDrain = errors.New(`this bridge is one of a fleet: say "fleet drain" and "fleet resume"`)
