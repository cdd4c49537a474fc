// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/tables"
)

// A membership is a group that is joined on both sides.
type membership struct {
	Group
	worker int // who receives the group's messages from IB, and speaks for it on Ethernet
}

// joinGroups joins every configured group, a few at a time. A group enters the tables, and so is bridged,
// only when the IB side has it; then the RoCE side learns that the bridge listens.
func (l *Loop) joinGroups(ctx context.Context) {
	const together = 16
	tokens := make(chan struct{}, together)
	for _, g := range l.cfg.Groups {
		m := &membership{g, l.workerOf(g.MGID)}
		l.waiting++
		go func() {
			tokens <- struct{}{}
			defer func() { <-tokens }()
			retry(ctx, func() error { return l.join(ctx, m) })
		}()
	}
}

// workerOf spreads groups over workers.
func (l *Loop) workerOf(mgid ib.GID) int {
	h := fnv.New32a()
	h.Write(mgid[:])
	return int(h.Sum32() % uint32(len(l.workers)))
}

func (l *Loop) join(ctx context.Context, m *membership) error {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	got, err := l.door.Join(asking, Join{MGID: m.MGID, QKey: m.QKey, PKey: m.PKey, Worker: m.worker, Receive: m.ToRoCE})
	if err != nil {
		l.log.Warn("join_failed", "group", m.IP, "mgid", m.MGID, "error", err)
		return err
	}
	l.later(ctx, func() { l.joined(ctx, m, got) })
	return nil
}

func (l *Loop) joined(ctx context.Context, m *membership, got Membership) {
	_, err := l.tables.PutGroup(tables.Group{
		IP: m.IP, MGID: m.MGID, MLID: got.MLID, SL: got.SL, TClass: got.TClass, HopLimit: got.HopLimit,
		QKey: got.QKey, RoCEQKey: m.QKey,
		MTUToIB: min(got.MTU.Bytes(), l.cfg.IBMTU), MTUToRoCE: l.cfg.RoCEMTU,
		VLAN: l.cfg.VLAN, Version: l.cfg.Version,
		ToIB: m.ToIB, ToRoCE: m.ToRoCE, RewriteImm: m.RewriteImm,
	})
	if err != nil {
		l.log.Error("group_refused", "group", m.IP, "error", err)
		return
	}
	l.groups = append(l.groups, m)
	l.waiting--
	l.log.Info("group_joined", "group", m.IP, "mgid", m.MGID, "mlid", got.MLID, "mtu", got.MTU.Bytes(), "worker", m.worker)
	if m.ToIB {
		l.announce(ctx, m)
	}
	l.publish()
}

// announce reports membership to the switches of the RoCE side, twice, a second apart at most, because a
// report may be lost (RFC 3376 §8.11, RFC 3810 §9.11: robustness 2, unsolicited report interval 1 s).
func (l *Loop) announce(ctx context.Context, m *membership) {
	l.report(m, frame.JoinRecord(m.IP))
	again := time.Duration(rand.Int64N(int64(time.Second)))
	time.AfterFunc(again, func() {
		l.later(ctx, func() { l.report(m, frame.JoinRecord(m.IP)) })
	})
}

// report sends one membership record.
func (l *Loop) report(m *membership, r frame.GroupRecord) {
	var b []byte
	if m.IP.Is4() {
		src, ok := l.own4()
		if !ok {
			return // check refuses such a configuration
		}
		b = frame.AppendIGMPv3Report(nil, l.link, src, r)
	} else {
		b = frame.AppendMLDv2Report(nil, l.link, l.cfg.MAC.LinkLocal(), r)
	}
	l.count.GroupReports++
	l.send(l.workers[m.worker], b)
}

func (l *Loop) own4() (netip.Addr, bool) {
	for _, p := range l.cfg.Addresses {
		if p.Addr().Is4() {
			return p.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// handleMembership answers queries after a random part of the time that they allow (RFC 3376 §5.2).
// Reports of others are their business.
func (l *Loop) handleMembership(p frame.Membership, fault frame.Fault) {
	if fault != "" {
		l.malformed(fault.Counter())
		return
	}
	if p.Query == nil {
		l.count.NotForUs++
		return
	}
	l.count.GroupQueries++
	const most = 10 * time.Second
	within := min(max(p.Query.MaxResp, time.Millisecond), most)
	for _, m := range l.groups {
		asked := !p.Query.Group.IsMulticast() || p.Query.Group == m.IP
		if !m.ToIB || !asked || p.Query.Group.Is4() != m.IP.Is4() {
			continue
		}
		time.AfterFunc(time.Duration(rand.Int64N(int64(within))), func() {
			select {
			case l.do <- func() { l.report(m, frame.GroupRecord{Type: frame.ModeIsExclude, Group: m.IP}) }:
			default: // the loop is busy or gone; the querier asks again
			}
		})
	}
}

// leaveGroups says goodbye on both sides.
func (l *Loop) leaveGroups() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var failed error
	for _, m := range l.groups {
		if m.ToIB {
			l.report(m, frame.LeaveRecord(m.IP))
		}
		if err := l.door.Leave(ctx, m.MGID); err != nil {
			failed = fmt.Errorf("manage: leave group %v: %w", m.IP, err)
		}
	}
	return failed
}

func (n Node) addrs() []netip.Addr {
	var a []netip.Addr
	for _, ip := range []netip.Addr{n.IP4, n.IP6} {
		if ip.IsValid() {
			a = append(a, ip)
		}
	}
	return a
}
