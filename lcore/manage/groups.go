// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/tables"
)

// A membership is a group that is joined on both sides.
type membership struct {
	Group
	worker int // who receives the group's messages from IB, and speaks for it on Ethernet

	announceAt time.Time // when its joining is reported again; zero: not at all
	answerAt   time.Time // when a querier gets its answer; zero: nobody has asked
}

// joinGroups joins every configured group. A group enters the tables, and so is bridged, only when the IB side
// has it; then the RoCE side learns that the bridge listens.
func (l *Loop) joinGroups(ctx context.Context) {
	for _, g := range l.cfg.Groups {
		m := &membership{Group: g, worker: l.workerOf(g.MGID)}
		l.waiting++
		l.ask(ctx, func(asking context.Context) error { return l.join(ctx, asking, m) })
	}
}

// workerOf spreads groups over workers.
func (l *Loop) workerOf(mgid ib.GID) int {
	h := fnv.New32a()
	h.Write(mgid[:])
	return int(h.Sum32() % uint32(len(l.workers)))
}

// join joins on the IB side. The loop does the rest, unless it has ended meanwhile.
func (l *Loop) join(ctx, asking context.Context, m *membership) error {
	got, err := l.door.Join(asking, Join{MGID: m.MGID, QKey: m.QKey, PKey: m.PKey, Worker: m.worker, Receive: m.ToRoCE})
	if err != nil {
		l.log.Warn("join_failed", "group", m.IP, "mgid", m.MGID, "error", err)
		return err
	}
	if !l.later(ctx, func() { l.joined(m, got) }) {
		l.undoJoin(m)
	}
	return nil
}

// undoJoin leaves a group that has been joined on the IB side only.
func (l *Loop) undoJoin(m *membership) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := l.door.Leave(ctx, m.MGID); err != nil {
		l.log.Warn("leave_failed", "group", m.IP, "mgid", m.MGID, "error", err)
	}
}

func (l *Loop) joined(m *membership, got Membership) {
	id, err := l.tables.PutGroup(tables.Group{
		IP: m.IP, MGID: m.MGID, MLID: got.MLID, SL: got.SL, TClass: got.TClass, HopLimit: got.HopLimit,
		QKey: got.QKey, RoCEQKey: m.QKey,
		MTUToIB: min(got.MTU.Bytes(), l.cfg.IBMTU), MTUToRoCE: l.cfg.RoCEMTU,
		VLAN: l.cfg.VLAN, Version: l.cfg.Version,
		ToIB: m.ToIB, ToRoCE: m.ToRoCE, RewriteImm: m.RewriteImm, Policed: m.Rate != 0,
	})
	if err != nil { // the bridge never gets ready, which is what an operator watches
		l.log.Error("group_refused", "group", m.IP, "error", err)
		l.asking.Go(func() { l.undoJoin(m) })
		return
	}
	if m.Rate != 0 {
		l.cfg.Police(int(id), m.Rate)
	}
	l.groups, l.joinedAs = append(l.groups, m), append(l.joinedAs, JoinedGroup{m.IP, int(id)})
	l.waiting--
	l.log.Info("group_joined", "group", m.IP, "mgid", m.MGID, "mlid", got.MLID, "mtu", got.MTU.Bytes(), "worker", m.worker)
	if m.ToIB {
		l.announce(m)
	}
	l.publish()
}

// leaveTimeout bounds the goodbyes on the IB side, all together.
const leaveTimeout = 2 * time.Second

// leaveGroups says goodbye on both sides.
func (l *Loop) leaveGroups() error {
	for _, m := range l.groups {
		if m.ToIB {
			l.report(m, frame.LeaveRecord(m.IP))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	var failed error
	for _, m := range l.groups {
		if err := l.door.Leave(ctx, m.MGID); err != nil {
			failed = fmt.Errorf("manage: leave group %v: %w", m.IP, err)
		}
	}
	return failed
}
