// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"net/netip"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/igmp"
)

// igmpPort is what the loop's ends of IGMP and MLD send by.
func (l *Loop) igmpPort() igmp.Port {
	return igmp.Port{
		Link: l.link,
		IPv4: l.own(func(p netip.Prefix) bool { return p.Addr().Is4() }, netip.Addr{}),
		Send: func(worker int, b []byte) bool { return l.send(l.workers[worker], b) },
	}
}

// handleMembership takes IGMP and MLD: queries are answered, and groups are learnt from reports.
func (l *Loop) handleMembership(f frame.Frame, p frame.Membership, fault frame.Fault) {
	switch {
	case fault == frame.IGMPType || fault == frame.MLDType: // of routers among themselves
		l.count.NotForUs++
		return
	case fault != "":
		l.malformed(fault.Counter())
		return
	case f.Eth.Src() == l.cfg.MAC: // an echo of the bridge's own
		l.count.NotForUs++
		return
	case p.Query == nil:
		l.reported(f.Src(), p.Records)
		return
	}
	l.count.GroupQueries++
	now := time.Now()
	l.listener.Queried(p, now)
	l.querier.Heard(f.Src(), p.Query.Group, now)
}
