// SPDX-License-Identifier: Apache-2.0

package fabric

import "causeway/ibside/ib"

// leave takes join states from a port. The group goes with the last member that keeps it alive.
func (a *SA) leave(r *request, want ib.MCMemberFields) (ib.MCMemberFields, uint16) {
	if r.mask&ib.MCMemberMGID == 0 {
		return want, ib.SAStatusInsufficientFields
	}
	if _, status := a.requester(r, want); status != ib.SAStatusOK {
		return want, status
	}
	g := a.groups[want.MGID]
	if g == nil {
		return want, ib.SAStatusRequestInvalid
	}
	m := g.members[want.PortGID]
	if m == nil || m.state&want.JoinState != want.JoinState {
		return want, ib.SAStatusRequestInvalid
	}
	m.state &^= want.JoinState
	rec := g.recordOf(want.PortGID, m.state)
	a.settle(g)
	return rec, ib.SAStatusOK
}

// portGone ends all memberships of a port that left the subnet.
func (a *SA) portGone(gid ib.GID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.groups {
		if m := g.members[gid]; m != nil {
			m.state = 0
			a.settle(g)
		}
	}
}

// settle forgets members without a state, then the group when nobody keeps it alive (IBTA vol 1 §15.2.5.17.3), and
// tells the switch.
func (a *SA) settle(g *group) {
	alive := false
	for gid, m := range g.members {
		if m.state == 0 {
			delete(g.members, gid)
		}
		alive = alive || m.state&joinKeepsGroup != 0
	}
	if !alive {
		clear(g.members)
		delete(a.groups, g.record.MGID)
		delete(a.mlids, g.record.MLID)
	}
	a.program(g)
}

// program writes the group's members into the switch.
func (a *SA) program(g *group) {
	members := map[ib.LID]bool{}
	for _, m := range g.members {
		members[m.lid] = m.state&joinReceives != 0
	}
	a.fabric.sw.setMLID(g.record.MLID, members)
}

// findMember answers a Get: exactly one record must match. Without a port it is the group's.
func (a *SA) findMember(mask uint64, want ib.MCMemberFields) (ib.MCMemberFields, uint16) {
	var found []ib.MCMemberFields
	for _, g := range a.groups {
		if mask&ib.MCMemberMGID != 0 && want.MGID != g.record.MGID ||
			mask&ib.MCMemberMLID != 0 && want.MLID != g.record.MLID {
			continue
		}
		if mask&ib.MCMemberPortGID == 0 {
			found = append(found, g.record)
		} else if m := g.members[want.PortGID]; m != nil {
			found = append(found, g.recordOf(want.PortGID, m.state))
		}
	}
	switch len(found) {
	case 0:
		return want, ib.SAStatusNoRecords
	case 1:
		return found[0], ib.SAStatusOK
	}
	return want, ib.SAStatusTooManyRecords
}

// GroupInfo is one multicast group as the administrator knows it.
type GroupInfo struct {
	Record  ib.MCMemberFields // PortGID and JoinState are zero
	Members map[ib.GID]uint8  // join states by port
}

// Groups lists the multicast groups, in no order.
func (a *SA) Groups() []GroupInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []GroupInfo
	for _, g := range a.groups {
		info := GroupInfo{Record: g.record, Members: map[ib.GID]uint8{}}
		for gid, m := range g.members {
			info.Members[gid] = m.state
		}
		all = append(all, info)
	}
	return all
}
