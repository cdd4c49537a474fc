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

// settleWithout ends the memberships of a port, those under aliases included.
func (a *SA) settleWithout(g *group, lid ib.LID) {
	left := false
	for _, m := range g.members {
		if m.lid == lid {
			m.state, left = 0, true
		}
	}
	if left {
		a.settle(g)
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
		a.notifyOfGroup(ib.TrapGroupDeleted, &g.record)
	}
	a.program(g)
}

// program writes the group's members into the switch. A port may be one by its own GID and by aliases.
func (a *SA) program(g *group) {
	members := map[ib.LID]bool{}
	for _, m := range g.members {
		members[m.lid] = members[m.lid] || m.state&joinReceives != 0
	}
	a.fabric.sw.setMLID(g.record.MLID, members)
}

// findMembers answers a Get. Who is trusted sees each member in a record of its own; others see the group, and whether a
// port that they name is in it.
func (a *SA) findMembers(r *request, want ib.MCMemberFields) *records {
	found := &records{}
	for _, g := range a.groups {
		switch m := g.members[want.PortGID]; {
		case !matches(r, want, &g.record) || found.full:
		case r.mask&ib.MCMemberPortGID != 0:
			if m != nil {
				found.addMember(r, want, g.recordOf(want.PortGID, m.state))
			}
		case r.isTrusted():
			for gid, m := range g.members {
				found.addMember(r, want, g.recordOf(gid, m.state))
			}
		default:
			found.addMember(r, want, g.record)
		}
	}
	return found
}

func (f *records) addMember(r *request, want, rec ib.MCMemberFields) {
	if r.differs(ib.MCMemberJoinState, want.JoinState == rec.JoinState) {
		return
	}
	if !r.isTrusted() {
		rec.PortGID = ib.GID{}
	}
	b := make([]byte, ib.MCMemberRecordLen)
	ib.PutMCMemberRecord(b, rec)
	f.add(b)
}

// matches reports whether a group is what a query names.
func matches(r *request, want ib.MCMemberFields, g *ib.MCMemberFields) bool {
	return !r.differs(ib.MCMemberMGID, want.MGID == g.MGID) && !r.differs(ib.MCMemberMLID, want.MLID == g.MLID) &&
		agrees(r, want, g)
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
