// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"time"

	"causeway/ibside/ib"
)

// Limits of what subscribers can make the administrator remember.
const (
	maxSubscriptions     = 1024
	subscriptionsPerPort = 64
	maxReports           = 4096 // not yet confirmed
	reportsPerPort       = 256
)

// informBook is who wants to be told of what, and what has been told and not yet confirmed.
type informBook struct {
	subscriptions map[subscription]MADAddress
	reports       map[madID]*report
	waiting       map[ib.LID]int // reports, by port
	nextTID       uint64
	toggle        bool
	counts        ReportCounts
}

// subscription is what tells one from another: the port, and all that it has said of what it wants.
type subscription struct {
	lid  ib.LID
	info ib.InformInfoFields
}

// report is a notice that a subscriber has not confirmed.
type report struct {
	to    MADAddress
	mad   []byte
	wait  time.Duration
	tries int
	again *time.Timer
}

// ReportCounts counts notices by what became of them. Reports = Confirmed + GivenUp + Gone + Waiting, always.
type ReportCounts struct {
	Reports   uint64 // one for each subscriber of each notice
	Again     uint64 // repetitions
	Confirmed uint64
	GivenUp   uint64 // the subscriber answered none of the repetitions
	Gone      uint64 // with their port, or with the subnet
	NoRoom    uint64 // not sent: too many wait
	Waiting   int
}

func newInformBook() informBook {
	return informBook{subscriptions: map[subscription]MADAddress{}, reports: map[madID]*report{}, waiting: map[ib.LID]int{}}
}

// Reports counts what subscribers were told.
func (a *SA) Reports() ReportCounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.informs.counts
	c.Waiting = len(a.informs.reports)
	return c
}

// Subscriptions returns how many there are.
func (a *SA) Subscriptions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.informs.subscriptions)
}

// answerInform begins or ends a subscription (IBTA vol 1 §13.4.8.3). The answer is the request's own words.
func (a *SA) answerInform(r *request) answer {
	h, _ := ib.AsInformInfo(r.data)
	port, ok := a.fabric.portByLID(r.from.LID)
	key := subscription{r.from.LID, h.Fields()}
	key.info.Subscribe, key.info.QPN = true, ib.QP1 // of a port that subscribes its QP1 is told, whatever it says
	if !key.info.GID.IsZero() {
		key.info.LIDBegin, key.info.LIDEnd = 0, 0
	}
	_, known := a.informs.subscriptions[key]
	switch subscribe := h[informSubscribeByte]; {
	case !ok || subscribe > 1 || subscribe == 0 && !known:
		return refuse(ib.SAStatusRequestInvalid)
	case subscribe == 0:
		delete(a.informs.subscriptions, key)
	case !a.mayInform(port, &key.info):
		return refuse(ib.SAStatusRequestInvalid)
	case !known && (len(a.informs.subscriptions) >= maxSubscriptions || a.informs.of(r.from.LID) >= subscriptionsPerPort):
		return refuse(ib.SAStatusNoResources)
	default:
		a.informs.subscriptions[key] = r.back()
	}
	return one(slices.Clone(h))
}

// informSubscribeByte is where an InformInfo says whether to begin (1) or to end (0); other values mean nothing.
const informSubscribeByte = 23

// mayInform reports whether a subscription names ports that there are, and that the subscriber may talk with.
func (a *SA) mayInform(port PortInfo, f *ib.InformInfoFields) bool {
	if !f.GID.IsZero() {
		p, ok := a.portOf(f.GID)
		return ok && sharesPKey(port.PKeys, p.PKeys)
	}
	if f.LIDBegin == ib.InformAllLIDs {
		return true
	}
	end := max(f.LIDEnd, f.LIDBegin)
	return !slices.ContainsFunc(a.fabric.Ports(), func(p PortInfo) bool {
		return f.LIDBegin <= p.LID && p.LID <= end && !sharesPKey(port.PKeys, p.PKeys)
	})
}

func sharesPKey(a, b []ib.PKey) bool {
	_, ok := sharedPKey(a, b, 0, false)
	return ok
}

// of counts the subscriptions of a port.
func (b *informBook) of(lid ib.LID) int {
	n := 0
	for s := range b.subscriptions {
		if s.lid == lid {
			n++
		}
	}
	return n
}

// wants reports whether a notice is one of those that were subscribed to.
func (s *subscription) wants(n *ib.NoticeFields) bool {
	f := &s.info
	switch {
	case f.IsGeneric != n.IsGeneric,
		f.Type != ib.InformAllTypes && f.Type != uint16(n.Type),
		f.Trap != allTraps && f.Trap != n.Trap,
		f.Producer != ib.InformAllProducers && f.Producer != n.Producer:
		return false
	case !f.GID.IsZero():
		return f.GID == n.IssuerGID
	}
	return f.LIDBegin == ib.InformAllLIDs || f.LIDBegin <= n.IssuerLID && n.IssuerLID <= max(f.LIDEnd, f.LIDBegin)
}

// allTraps, as a trap, means each.
const allTraps = 0xffff

// forgetPort ends what a port has subscribed to.
func (b *informBook) forgetPort(lid ib.LID) {
	for s := range b.subscriptions {
		if s.lid == lid {
			delete(b.subscriptions, s)
		}
	}
}

// end ends a report.
func (b *informBook) end(x madID) {
	b.reports[x].again.Stop()
	delete(b.reports, x)
	if b.waiting[x.lid]--; b.waiting[x.lid] == 0 {
		delete(b.waiting, x.lid)
	}
}
