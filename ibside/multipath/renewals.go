// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"slices"
	"sync"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// renewals follows what the members' subnets change. A group that is granted anew is corrected here; management only
// learns of what concerns it.
type renewals struct {
	*state
	*ibside.News
	nodes   *nodes
	groups  *groups
	notices chan ibside.Notice

	presentMu sync.Mutex
	present   map[ib.GID]uint8 // the members on whose fabrics a group exists
}

func newRenewals(s *state) *renewals {
	return &renewals{state: s, News: ibside.NewNews(), notices: make(chan ibside.Notice), present: map[ib.GID]uint8{}}
}

// follow starts to follow all members.
func (r *renewals) follow(ended *sync.WaitGroup) {
	for i, m := range r.cfg.Members {
		if port, ok := m.Port.(ibside.Renewer); ok {
			ended.Go(func() { r.followChanges(i, port) })
		}
		if port, ok := m.Port.(ibside.Notifier); ok && port.Notices() != nil {
			ended.Go(func() { r.followNotices(i, port) })
		}
	}
}

func (r *renewals) followChanges(member int, port ibside.Renewer) {
	for {
		select {
		case <-port.Changed():
			r.take(member, port.Renewed())
		case <-r.ctx.Done():
			return
		}
	}
}

// take takes what one subnet has changed.
func (r *renewals) take(member int, n ibside.Renewals) {
	r.mu.Lock()
	for mgid, m := range n.Groups {
		if d := r.byGID[r.mgidFrom(member, mgid)]; d != nil && d.view.group && !d.left {
			_ = r.groups.joined(d, member, mgid, m) // it has its room
		}
	}
	if n.LIDs {
		r.nodes.lidsMoved(member)
	}
	var ports []ib.GID
	for _, gid := range n.Ports {
		ports = append(ports, gid)
		for _, d := range r.nodes.nodesWith(member, gid) {
			r.nodes.forgetLIDs(d, member, nil)
			ports = append(ports, d.view.gid)
		}
	}
	if n.Back {
		r.retrySoon(member)
	}
	r.mu.Unlock()
	r.Add(func(p *ibside.Renewals) {
		p.Paths = p.Paths || n.Paths || n.LIDs
		p.Back = p.Back || n.Back
		for _, gid := range ports {
			if !slices.Contains(p.Ports, gid) {
				p.Ports = append(p.Ports, gid)
			}
		}
	})
}

// retrySoon has failed joins on a member repeated at once. The caller holds the lock.
func (r *renewals) retrySoon(member int) {
	for _, d := range r.byGID {
		d.joins[member].again, d.joins[member].tries = time.Time{}, 0
	}
}

// group tells management of a membership that has changed.
func (r *renewals) group(mgid ib.GID, m ibside.Membership) {
	r.Add(func(p *ibside.Renewals) {
		if p.Groups == nil {
			p.Groups = map[ib.GID]ibside.Membership{}
		}
		p.Groups[mgid] = m
	})
}

// Notices implements ibside.Notifier. A group is there as long as it is on one fabric.
func (r *renewals) Notices() <-chan ibside.Notice { return r.notices }

func (r *renewals) followNotices(member int, port ibside.Notifier) {
	for {
		select {
		case n, ok := <-port.Notices():
			if !ok {
				return
			}
			n.MGID = r.mgidFrom(member, n.MGID)
			if !r.isNews(member, n) {
				continue
			}
			select {
			case r.notices <- n:
			case <-r.ctx.Done():
				return
			}
		case <-r.ctx.Done():
			return
		}
	}
}

// isNews notes where a group is, and reports whether it came first there or has gone last.
func (r *renewals) isNews(member int, n ibside.Notice) bool {
	r.presentMu.Lock()
	defer r.presentMu.Unlock()
	was := r.present[n.MGID]
	now := was | bit(member)
	if n.Deleted {
		now = was &^ bit(member)
	}
	if r.present[n.MGID] = now; now == 0 {
		delete(r.present, n.MGID)
	}
	return (was == 0) != (now == 0) || !n.Deleted && was == now
}

// Refresh asks all subnet administrators again for all that they have said.
func (r *renewals) Refresh() {
	for _, m := range r.cfg.Members {
		if port, ok := m.Port.(interface{ Refresh() }); ok {
			port.Refresh()
		}
	}
}
