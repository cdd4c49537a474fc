// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"time"

	"causeway/ibside/ib"
)

const (
	reportTries = 4
	// A subscriber says how long it may take to answer; it is believed between these.
	shortestReportWait = 100 * time.Millisecond
	longestReportWait  = 2 * time.Second

	noticeSubnetManagement = 3 // of a notice's types (IBTA vol 1 §13.4.8.2)
	noticeGID              = 6 // where in a notice's data traps 64 to 67 say whom they are about
)

// notifyOfGroup tells of a group that was created or deleted who may be a member of it (IBTA vol 1 §13.4.11).
func (a *SA) notifyOfGroup(trap uint16, g *ib.MCMemberFields) {
	a.notify(trap, g.MGID, func(p PortInfo) bool { return slices.ContainsFunc(p.PKeys, g.PKey.Matches) })
}

// notifyOfPort tells of a port that came or went who may talk with it, but not the port itself.
func (a *SA) notifyOfPort(trap uint16, about PortInfo) {
	a.notify(trap, about.GID, func(p PortInfo) bool { return p.LID != about.LID && sharesPKey(p.PKeys, about.PKeys) })
}

// notify sends a notice to all that have subscribed to it, and may know.
func (a *SA) notify(trap uint16, about ib.GID, mayKnow func(PortInfo) bool) {
	own := a.hca.Info()
	n := ib.NoticeFields{
		IsGeneric: true, Type: noticeSubnetManagement, Producer: ib.ProducerSM, Trap: trap, IssuerLID: own.LID, IssuerGID: own.GID,
		Toggle: a.informs.toggle,
	}
	copy(n.Data[noticeGID:], about[:])
	a.informs.toggle = !a.informs.toggle
	for s, to := range a.informs.subscriptions {
		if !s.wants(&n) {
			continue
		}
		if p, ok := a.fabric.portByLID(s.lid); ok && mayKnow(p) {
			a.report(&s, to, &n)
		}
	}
}

// report sends a notice to one subscriber, again and again until it is confirmed.
func (a *SA) report(s *subscription, to MADAddress, n *ib.NoticeFields) {
	b := &a.informs
	if a.closed || len(b.reports) >= maxReports || b.waiting[s.lid] >= reportsPerPort {
		b.counts.NoRoom++
		return
	}
	b.nextTID = (b.nextTID + 1) & 0xffffffff // more is not left unchanged by other transports
	x := madID{s.lid, b.nextTID}
	mad := make([]byte, ib.MADLen)
	ib.PutMAD(mad, ib.MADFields{
		Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodReport, TID: x.tid, AttrID: ib.AttrNotice,
	})
	ib.PutNotice(mad[ib.MADHdrLen+ib.SAHdrLen:], *n)
	wait := 4096 * time.Nanosecond << s.info.RespTime
	r := &report{to: to, mad: mad, wait: min(max(wait, shortestReportWait), longestReportWait)}
	r.again = time.AfterFunc(r.wait, func() { a.repeatReport(x, r) })
	b.reports[x] = r
	b.waiting[x.lid]++
	b.counts.Reports++
	a.sendReport(r)
}

func (a *SA) sendReport(r *report) {
	r.tries++
	a.hca.SendMAD(r.to, r.mad)
	r.again.Reset(r.wait)
}

// repeatReport is told that a report was not confirmed in time. A subscriber that stays silent keeps its subscription,
// as with OpenSM: it ends with the port.
func (a *SA) repeatReport(x madID, r *report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch b := &a.informs; {
	case b.reports[x] != r:
	case r.tries >= reportTries:
		b.end(x)
		b.counts.GivenUp++
	default:
		b.counts.Again++
		a.sendReport(r)
	}
}

// confirmed takes a subscriber's answer to a report.
func (b *informBook) confirmed(x madID) {
	if b.reports[x] != nil {
		b.end(x)
		b.counts.Confirmed++
	}
}
