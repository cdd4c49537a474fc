// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"time"

	"causeway/ibside/ib"
	"causeway/tables"
)

// A membership is a group that is wanted, or one that is being left. What is wanted and what is there may differ for as
// long as the subnet administrator takes: pursue closes the gap, one question after the other.
//
//	wanted ─▶ joined on IB ─▶ on the shelves, shut ─▶ its rate, its counts from zero ─▶ open ─▶ reported on RoCE
type membership struct {
	Group
	learned *learned // nil: configured
	gone    bool     // not wanted any more
	worker  int      // who receives the group's messages from IB, and speaks for it on Ethernet

	// On the IB side.
	asking     bool               // one question is under way
	asked      Join               // that question, when cancel is not nil
	cancel     context.CancelFunc // of a join
	joined     bool
	as         Join // what the door granted
	granted    Membership
	forgotten  bool      // by the subnet, perhaps: it is joined again
	leaveFirst bool      // a change of keys was refused in place
	failed     time.Time // since when the tables do not take it; zero: they do

	// On the shelves.
	open  bool
	id    int
	entry tables.Group
	rate  uint64
}

// wants is the membership on the IB side that fits.
func (m *membership) wants() Join {
	return Join{
		MGID: m.MGID, QKey: m.QKey, PKey: m.PKey, Worker: m.worker, Receive: m.ToRoCE,
		Guest: m.learned != nil && m.learned.isGuest(),
	}
}

// isSettled reports whether all is as it is wanted.
func (m *membership) isSettled() bool {
	return m.open && !m.gone && m.joined && !m.forgotten && m.as == m.wants() && m.entry.ToIB == m.ToIB && m.entry.ToRoCE == m.ToRoCE
}

// workerOf spreads groups over workers.
func (l *Loop) workerOf(mgid ib.GID) int {
	h := fnv.New32a()
	h.Write(mgid[:])
	return int(h.Sum32() % uint32(len(l.workers)))
}

// pursue does the next thing to have a group as it is wanted. What is not wanted any more ends at once.
func (l *Loop) pursue(m *membership) {
	l.narrow(m)
	want := m.wants()
	switch {
	case l.running.Err() != nil: // leaveGroups does the rest
	case m.asking:
		if m.cancel != nil && (m.gone || m.asked != want) {
			m.cancel()
		}
	case m.joined && (m.gone || m.leaveFirst || !m.failed.IsZero()):
		l.askLeave(m)
	case m.gone:
		delete(l.groups, m.MGID)
	case !m.failed.IsZero():
	case m.joined && m.as == want && !m.forgotten:
		l.openGroup(m)
	default:
		l.askJoin(m, want)
	}
}

// askJoin joins on the IB side, again and again until it succeeds or something else is wanted. A membership with
// other keys is tried once in place: a group that has no other member may take them.
func (l *Loop) askJoin(m *membership, j Join) {
	ctx, cancel := context.WithCancel(l.running)
	m.asking, m.asked, m.cancel = true, j, cancel
	renew := m.joined && (m.as.QKey != j.QKey || m.as.PKey != j.PKey)
	spread, ip, slots, level := m.forgotten, m.IP, l.together, slog.LevelWarn
	if m.learned != nil {
		slots, level = l.togetherLearned, slog.LevelDebug
	}
	l.asking.Go(func() {
		defer cancel()
		if spread {
			pause(ctx, rand.N(rejoinSpread))
		}
		var got Membership
		granted := false
		l.persist(ctx, slots, func(asking context.Context) error {
			var err error
			if got, err = l.door.Join(asking, j); err == nil {
				granted = true
				return nil
			}
			l.log.Log(asking, level, "join_failed", "group", ip, "mgid", j.MGID, "error", err)
			if renew {
				return nil
			}
			return err
		})
		l.work.Tell(l.running, func() { l.answered(m, got, granted, renew) })
	})
}

// rejoinSpread is the time over which groups join again that were lost together.
const rejoinSpread = 500 * time.Millisecond

// answered takes what a join brought.
func (l *Loop) answered(m *membership, got Membership, granted, renew bool) {
	m.asking, m.cancel = false, nil
	switch {
	case granted:
		m.joined, m.forgotten, m.as, m.granted = true, false, m.asked, got
	case renew && !m.gone && m.asked == m.wants() && l.running.Err() == nil:
		l.closeGroup(m)
		m.leaveFirst = true
	}
	l.pursue(m)
	l.changed = true
}

// askLeave leaves on the IB side. A leave that fails is not repeated: what the subnet administrator still believes does
// no harm, because the group is on no shelf.
func (l *Loop) askLeave(m *membership) {
	m.asking, m.cancel = true, nil
	l.asking.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		if err := l.door.Leave(ctx, m.MGID); err != nil {
			l.log.Warn("leave_failed", "mgid", m.MGID, "error", err)
		}
		l.work.Tell(l.running, func() {
			m.asking, m.joined, m.leaveFirst = false, false, false
			l.pursue(m)
			l.changed = true
		})
	})
}

// Rejoin has all groups join again, spread over half a second: the subnet may have forgotten them, or know them by other
// MLIDs. Meanwhile they stay as they are. Any goroutine may call it.
func (l *Loop) Rejoin(ctx context.Context) error {
	return l.work.Do(ctx, func() error {
		for _, m := range l.groups {
			l.rejoin(m)
		}
		return nil
	})
}

// rejoin joins a group again that the subnet may have forgotten. It stays open meanwhile: at worst its messages go nowhere.
func (l *Loop) rejoin(m *membership) {
	if m.joined && !m.gone {
		m.forgotten = true
		l.pursue(m)
	}
}

// leaveTimeout bounds the goodbyes on the IB side at the end, all together, and one at any other time.
const leaveTimeout = 2 * time.Second

// leaveGroups says goodbye on both sides.
func (l *Loop) leaveGroups() error {
	l.listener.LeaveAll(time.Now())
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	var failed error
	for _, m := range l.groups {
		if !m.joined {
			continue
		}
		if err := l.door.Leave(ctx, m.MGID); err != nil {
			failed = fmt.Errorf("manage: leave group %v: %w", m.IP, err)
		}
	}
	return failed
}
