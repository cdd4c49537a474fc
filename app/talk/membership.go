// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// reportsWithin is when a report is told once more, because one may be lost (RFC 3376 §8.11).
const reportsWithin = time.Second

// Join makes the host a member of a group, and tells the switches by IGMPv3 or MLDv2. Who only sends need not be a member
// on Ethernet.
func (e *packetEnd) Join(_ context.Context, g Group, listens bool) (Way, error) {
	if g.Form != "" || g.Port != 0 {
		return nil, fmt.Errorf("packet:%s: group %v: -mgid, -scope and -port say what the group is called on InfiniBand; on RoCE it is its address alone: leave them out",
			e.nic.name, g.Addr)
	}
	if isMGID(ib.GIDFromAddr(g.Addr)) {
		return nil, fmt.Errorf("packet:%s: group %v is a name on InfiniBand; on RoCE use the group's IP address", e.nic.name, g.Addr)
	}
	from, err := e.source(g.Addr)
	if err != nil {
		return nil, err
	}
	qkey := g.QKey
	if qkey == 0 {
		qkey = ib.QKeyRDMAUDP
	}
	way := e.way(from.Addr(), g.Addr, nil, ib.QPMulticast, qkey)
	if !listens {
		return way, nil
	}
	if err := e.nic.accept(frame.GroupMAC(g.Addr)); err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.groups[g.Addr] = qkey
	e.mu.Unlock()
	time.AfterFunc(rand.N(reportsWithin), func() {
		select {
		case <-e.closing:
		default:
			_ = e.report(frame.JoinRecord(g.Addr)) // the second time
		}
	})
	return way, e.report(frame.JoinRecord(g.Addr))
}

// report tells the switches of a group.
func (e *packetEnd) report(r frame.GroupRecord) error {
	if r.Group.Is6() {
		return e.write(frame.AppendMLDv2Report(nil, e.link, e.link.MAC.LinkLocal(), r))
	}
	from, err := e.source(r.Group)
	if err != nil {
		return err
	}
	return e.write(frame.AppendIGMPv3Report(nil, e.link, from.Addr(), r))
}

// queried answers a query, of whichever version, after a random part of the time that it allows.
func (e *packetEnd) queried(p frame.Membership) {
	if p.Query == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reports != nil {
		e.reports.Stop()
	}
	e.reports = time.AfterFunc(rand.N(max(p.Query.MaxResp, time.Millisecond)), func() {
		select {
		case <-e.closing:
			return
		default:
		}
		for _, g := range e.joined() {
			_ = e.report(frame.GroupRecord{Type: frame.ModeIsExclude, Group: g}) // the next query finds out
		}
	})
}

func (e *packetEnd) joined() (groups []netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for g := range e.groups {
		groups = append(groups, g)
	}
	return groups
}

// leave tells the switches that the host listens no more. One that does not hear it finds out by its next query.
func (e *packetEnd) leave() {
	for _, g := range e.joined() {
		_ = e.report(frame.LeaveRecord(g))
	}
}
