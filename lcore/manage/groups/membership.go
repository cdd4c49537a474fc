// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/ask"
	"causeway/tables"
)

// A membership is a group that is wanted or being left. What is wanted and what is there differ for as long as the
// subnet administrator takes: pursue closes the gap, one request after the other.
//
//	wanted ─▶ joined on IB ─▶ in the tables, closed ─▶ its rate, its counters from zero ─▶ open ─▶ reported on RoCE
type membership struct {
	Group
	learned *learned // nil: configured
	gone    bool     // not wanted any more
	worker  int      // receives the group's messages from IB, and sends its reports on Ethernet

	// On the IB side.
	asking     bool               // one request is under way
	asked      ibside.Join        // that request, when cancel is not nil
	cancel     context.CancelFunc // of a join
	joined     bool
	as         ibside.Join // what the port granted
	granted    ibside.Membership
	lost       bool      // the subnet may have dropped the membership: it is joined again
	leaveFirst bool      // a change of keys in place was rejected
	failed     time.Time // since when the tables do not take it; zero: they do

	// In the tables.
	open    bool
	id      int
	entry   tables.Group
	rate    uint64
	sources []netip.Addr // that it is reported with on Ethernet
}

// wants is the membership on the IB side that is wanted.
func (m *membership) wants() ibside.Join {
	return ibside.Join{
		MGID: m.MGID, QKey: m.QKey, PKey: m.PKey, Worker: m.worker, Receive: m.ToRoCE,
		NonMember: m.learned != nil && m.learned.isNonMember(),
	}
}

// isSettled reports whether everything is as it is wanted.
func (m *membership) isSettled() bool {
	return m.open && !m.gone && m.joined && !m.lost && m.as == m.wants() && m.entry.ToIB == m.ToIB && m.entry.ToRoCE == m.ToRoCE &&
		m.entry.Segments == m.Segments && (!m.ToIB || slices.Equal(m.sources, m.Sources))
}

// state describes a group in one word.
func (m *membership) state() string {
	switch {
	case m.gone:
		return "leaving"
	case !m.failed.IsZero():
		return "rejected" // by the tables: they are full
	case m.isSettled():
		return "joined"
	case m.open:
		return "changing"
	}
	return "joining"
}

// pursue takes the next step towards what is wanted of a group. What is not wanted any more ends at once.
func (g *Groups) pursue(m *membership) {
	g.entries.narrow(m)
	want := m.wants()
	switch {
	case g.ask.Running().Err() != nil: // Leave does the rest
	case m.asking:
		if m.cancel != nil && (m.gone || m.asked != want) {
			m.cancel()
		}
	case m.joined && (m.gone || m.leaveFirst || !m.failed.IsZero()):
		g.leave(m)
	case m.gone:
		delete(g.groups, m.MGID)
		g.owners.release(m)
	case !m.failed.IsZero():
	case m.joined && m.as == want && !m.lost:
		if g.entries.open(m); !m.failed.IsZero() {
			g.leave(m)
		}
	case !g.owners.take(m, func() { g.pursue(m) }):
	default:
		g.join(m, want)
	}
}

// join joins on the IB side, and tries until it succeeds or something else is wanted. A change of keys is tried once in
// place: a group that has no other member may take them.
func (g *Groups) join(m *membership, j ibside.Join) {
	ctx, cancel := context.WithCancel(g.ask.Running())
	m.asking, m.asked, m.cancel = true, j, cancel
	renew := m.joined && (m.as.QKey != j.QKey || m.as.PKey != j.PKey)
	spread, ip, level := m.lost, m.IP, slog.LevelWarn
	var slots ask.Slots
	if m.learned != nil {
		slots, level = g.learner.slots, slog.LevelDebug
	}
	g.ask.Go(func() {
		defer cancel()
		if spread {
			ask.Pause(ctx, rand.N(rejoinSpread))
		}
		var got ibside.Membership
		granted, said := false, ""
		g.ask.Persist(ctx, slots, func(asking context.Context) error {
			var err error
			if got, err = g.port.Join(asking, j); err == nil {
				granted = true
				return nil
			}
			if why := err.Error(); why != said {
				said = why
				g.ask.Tell(func() { g.joinFailed(level, ip, j.MGID, why) })
			}
			if renew {
				return nil
			}
			return err
		})
		g.ask.Tell(func() { g.joined(m, got, granted, renew) })
	})
}

// joinFailedLines is how many lines a second tell of joins that failed: an SM that is away fails them all.
const joinFailedLines = 10

// joinFailed logs why a join failed, once until the reason is another.
func (g *Groups) joinFailed(level slog.Level, ip netip.Addr, mgid ib.GID, why string) {
	if g.log.Allow("join_failed", joinFailedLines) {
		g.log.Log(g.ask.Running(), level, "join_failed", "group", ip, "mgid", mgid, "error", why)
	}
}

// rejoinSpread is the time over which groups that were lost together join again.
const rejoinSpread = 500 * time.Millisecond

// joined takes the result of a join.
func (g *Groups) joined(m *membership, got ibside.Membership, granted, renew bool) {
	m.asking, m.cancel = false, nil
	switch {
	case granted:
		m.joined, m.lost, m.as, m.granted = true, false, m.asked, got
	case renew && !m.gone && m.asked == m.wants() && g.ask.Running().Err() == nil:
		g.entries.close(m)
		m.leaveFirst = true
	}
	g.pursue(m)
	g.entries.changed = true
}

const (
	// leaveTimeout bounds one leave, and at the end all of them together.
	leaveTimeout = 2 * time.Second
	// lastLeaveTimeout bounds each leave at the end: a subnet administrator that does not answer is not waited for twice.
	lastLeaveTimeout = 300 * time.Millisecond
)

// leave leaves on the IB side. A leave that fails is not repeated: a stale record of the subnet administrator's does no
// harm, because the group is in no table.
func (g *Groups) leave(m *membership) {
	m.asking, m.cancel = true, nil
	g.ask.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		if err := g.port.Leave(ctx, m.MGID); err != nil {
			g.log.Warn("leave_failed", "mgid", m.MGID, "error", err)
		}
		g.ask.Tell(func() {
			m.asking, m.joined, m.leaveFirst = false, false, false
			g.pursue(m)
			g.entries.changed = true
		})
	})
}

// rejoin joins a group again whose membership the subnet may have dropped. It stays open meanwhile: at worst its
// messages are lost.
func (g *Groups) rejoin(m *membership) {
	if m.joined && !m.gone {
		m.lost = true
		g.pursue(m)
	}
}

// Leave leaves all groups on both sides, when nothing is under way any more. It ends with the first leave that is not
// answered: the subnet drops the memberships of a port whose administrator is away.
func (g *Groups) Leave(now time.Time) {
	g.host.LeaveAll(now)
	all, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	for _, m := range g.groups {
		if !m.joined {
			continue
		}
		ctx, cancel := context.WithTimeout(all, lastLeaveTimeout)
		err := g.port.Leave(ctx, m.MGID)
		late := ctx.Err() != nil
		cancel()
		if err != nil {
			g.log.Warn("leave_failed", "group", m.IP, "mgid", m.MGID, "error", err)
		}
		if late {
			return
		}
	}
}

// Renew takes the memberships that the subnet has changed. One whose group has a request under way waits for its
// answer, which may be older.
func (g *Groups) Renew(changed map[ib.GID]ibside.Membership) {
	for mgid, got := range changed {
		g.renewed[mgid] = got
	}
	for mgid, got := range g.renewed {
		if g.renew(g.groups[mgid], got) {
			delete(g.renewed, mgid)
		}
	}
}

// renew takes a changed membership. It reports false while a request is under way.
func (g *Groups) renew(m *membership, got ibside.Membership) bool {
	if m == nil || m.gone {
		return true
	}
	if m.asking {
		return false
	}
	if !m.joined || m.granted == got {
		return true
	}
	g.log.Info("group_renewed", "group", m.IP, "mgid", m.MGID, "mlid", got.MLID, "was", m.granted.MLID)
	m.granted = got
	g.pursue(m)
	return true
}
