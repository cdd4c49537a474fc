// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"sync"
	"time"

	"causeway/ibside/ib"
)

// Limits of subscriptions and reports.
const (
	maxSubscriptions     = 1024
	subscriptionsPerPort = 64
	maxReports           = 4096 // not yet confirmed
	reportsPerPort       = 256
)

// informTable has the subscriptions, and the reports that are not yet confirmed. Its callers hold mu.
type informTable struct {
	mu     *sync.Mutex // the administrator's, for the reports' timers
	ports  ports
	mads   madSender
	issuer PortInfo // of notices
	closed bool     // sends no more reports

	subscriptions map[subscription]MADAddress
	reports       map[madID]*report
	waiting       map[ib.LID]int // reports, by port
	nextTID       uint64
	toggle        bool
	counts        ReportCounts
}

// subscription identifies a subscription: the port and the whole InformInfo.
type subscription struct {
	lid  ib.LID
	info ib.InformInfoFields
}

// report is a notice to one subscriber, not yet confirmed.
type report struct {
	to    MADAddress
	mad   []byte
	wait  time.Duration
	tries int
	again *time.Timer
}

// ReportCounts counts notices by result. Reports = Confirmed + GivenUp + Gone + Waiting, always.
type ReportCounts struct {
	Reports   uint64 // one for each subscriber of each notice
	Again     uint64 // retries
	Confirmed uint64
	GivenUp   uint64 // the subscriber answered none of the retries
	Gone      uint64 // the port or the subnet was closed
	NoRoom    uint64 // not sent: too many reports
	Waiting   int
}

func newInformTable(mu *sync.Mutex, p ports, h *HCA) *informTable {
	return &informTable{
		mu: mu, ports: p, mads: h, issuer: h.Info(),
		subscriptions: map[subscription]MADAddress{}, reports: map[madID]*report{}, waiting: map[ib.LID]int{},
	}
}

// reportCounts returns the counters of reports.
func (t *informTable) reportCounts() ReportCounts {
	c := t.counts
	c.Waiting = len(t.reports)
	return c
}

// answer begins or ends a subscription (IBTA vol 1 §13.4.8.3). The answer repeats the request's data.
func (t *informTable) answer(r *request) answer {
	h, _ := ib.AsInformInfo(r.data)
	port, ok := t.ports.portByLID(r.from.LID)
	key := subscription{r.from.LID, h.Fields()}
	key.info.Subscribe, key.info.QPN = true, ib.QP1 // notices go to QP1, whatever the request says
	if !key.info.GID.IsZero() {
		key.info.LIDBegin, key.info.LIDEnd = 0, 0
	}
	_, known := t.subscriptions[key]
	switch subscribe := h[informSubscribeByte]; {
	case !ok || subscribe > 1 || subscribe == 0 && !known:
		return reject(ib.SAStatusRequestInvalid)
	case subscribe == 0:
		delete(t.subscriptions, key)
	case !t.mayInform(port, &key.info):
		return reject(ib.SAStatusRequestInvalid)
	case !known && (len(t.subscriptions) >= maxSubscriptions || t.of(r.from.LID) >= subscriptionsPerPort):
		return reject(ib.SAStatusNoResources)
	default:
		t.subscriptions[key] = r.back()
	}
	return one(slices.Clone(h))
}

// informSubscribeByte is the offset of Subscribe in an InformInfo: 1 begins, 0 ends; other values are invalid.
const informSubscribeByte = 23

// mayInform reports whether a subscription names existing ports that share a partition with the subscriber.
func (t *informTable) mayInform(port PortInfo, f *ib.InformInfoFields) bool {
	if !f.GID.IsZero() {
		p, ok := t.ports.portOf(f.GID)
		return ok && sharesPKey(port.PKeys, p.PKeys)
	}
	if f.LIDBegin == ib.InformAllLIDs {
		return true
	}
	end := max(f.LIDEnd, f.LIDBegin)
	return !slices.ContainsFunc(t.ports.Ports(), func(p PortInfo) bool {
		return f.LIDBegin <= p.LID && p.LID <= end && !sharesPKey(port.PKeys, p.PKeys)
	})
}

func sharesPKey(a, b []ib.PKey) bool {
	_, ok := sharedPKey(a, b, 0, false)
	return ok
}

// of counts the subscriptions of a port.
func (t *informTable) of(lid ib.LID) int {
	n := 0
	for s := range t.subscriptions {
		if s.lid == lid {
			n++
		}
	}
	return n
}

// wants reports whether a notice matches the subscription.
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

// allTraps is the wildcard of trap numbers.
const allTraps = 0xffff

// removePort ends a port's subscriptions.
func (t *informTable) removePort(lid ib.LID) {
	for s := range t.subscriptions {
		if s.lid == lid {
			delete(t.subscriptions, s)
		}
	}
}

// endReports ends the reports to some ports.
func (t *informTable) endReports(with func(ib.LID) bool) {
	for x := range t.reports {
		if with(x.lid) {
			t.end(x)
			t.counts.Gone++
		}
	}
}

// end ends a report.
func (t *informTable) end(x madID) {
	t.reports[x].again.Stop()
	delete(t.reports, x)
	if t.waiting[x.lid]--; t.waiting[x.lid] == 0 {
		delete(t.waiting, x.lid)
	}
}
