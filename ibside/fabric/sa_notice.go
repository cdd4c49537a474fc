// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"time"

	"causeway/ibside/ib"
)

const (
	reportTries = 4
	// The limits of the response time that a subscriber announces.
	shortestReportWait = 100 * time.Millisecond
	longestReportWait  = 2 * time.Second

	noticeSubnetManagement = 3 // a notice type (IBTA vol 1 §13.4.8.2)
	noticeGID              = 6 // offset of the GID in the data of traps 64 to 67
)

// notifyOfGroup sends a notice about a created or deleted group to ports that may be members of it (IBTA vol 1
// §13.4.11).
func (t *informTable) notifyOfGroup(trap uint16, g *ib.MCMemberFields) {
	t.notify(trap, g.MGID, func(p PortInfo) bool { return slices.ContainsFunc(p.PKeys, g.PKey.Matches) })
}

// notifyOfPort sends a notice about a port to other ports that share a partition with it.
func (t *informTable) notifyOfPort(trap uint16, about PortInfo) {
	t.notify(trap, about.GID, func(p PortInfo) bool { return p.LID != about.LID && sharesPKey(p.PKeys, about.PKeys) })
}

// notify sends a notice to the subscribers that may know it.
func (t *informTable) notify(trap uint16, about ib.GID, mayKnow func(PortInfo) bool) {
	n := ib.NoticeFields{
		IsGeneric: true, Type: noticeSubnetManagement, Producer: ib.ProducerSM, Trap: trap, IssuerLID: t.issuer.LID, IssuerGID: t.issuer.GID,
		Toggle: t.toggle,
	}
	copy(n.Data[noticeGID:], about[:])
	t.toggle = !t.toggle
	for s, to := range t.subscriptions {
		if !s.wants(&n) {
			continue
		}
		if p, ok := t.ports.portByLID(s.lid); ok && mayKnow(p) {
			t.report(&s, to, &n)
		}
	}
}

// report sends a notice to one subscriber, with retries until it is confirmed.
func (t *informTable) report(s *subscription, to MADAddress, n *ib.NoticeFields) {
	if t.closed || len(t.reports) >= maxReports || t.waiting[s.lid] >= reportsPerPort {
		t.counts.NoRoom++
		return
	}
	t.nextTID = (t.nextTID + 1) & 0xffffffff // other transports do not preserve the upper 32 bits
	x := madID{s.lid, t.nextTID}
	mad := make([]byte, ib.MADLen)
	ib.PutMAD(mad, ib.MADFields{
		Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodReport, TID: x.tid, AttrID: ib.AttrNotice,
	})
	ib.PutNotice(mad[ib.MADHdrLen+ib.SAHdrLen:], *n)
	wait := 4096 * time.Nanosecond << s.info.RespTime
	r := &report{to: to, mad: mad, wait: min(max(wait, shortestReportWait), longestReportWait)}
	r.again = time.AfterFunc(r.wait, func() { t.repeatReport(x, r) })
	t.reports[x] = r
	t.waiting[x.lid]++
	t.counts.Reports++
	t.sendReport(r)
}

func (t *informTable) sendReport(r *report) {
	r.tries++
	t.mads.SendMAD(r.to, r.mad)
	r.again.Reset(r.wait)
}

// repeatReport retries a report that was not confirmed in time. A silent subscriber keeps its subscription, as with
// OpenSM, until its port leaves.
func (t *informTable) repeatReport(x madID, r *report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.reports[x] != r:
	case r.tries >= reportTries:
		t.end(x)
		t.counts.GivenUp++
	default:
		t.counts.Again++
		t.sendReport(r)
	}
}

// confirmed processes a subscriber's answer to a report.
func (t *informTable) confirmed(x madID) {
	if t.reports[x] != nil {
		t.end(x)
		t.counts.Confirmed++
	}
}
