// SPDX-License-Identifier: Apache-2.0

package fabric

import "causeway/ibside/ib"

// leave removes join states of a port. The group ends with the last member that keeps it alive.
func (t *groupTable) leave(r *request, want ib.MCMemberFields) (ib.MCMemberFields, uint16) {
	if r.mask&ib.MCMemberMGID == 0 {
		return want, ib.SAStatusInsufficientFields
	}
	if _, status := t.requester(r, want); status != ib.SAStatusOK {
		return want, status
	}
	g := t.groups[want.MGID]
	if g == nil {
		return want, ib.SAStatusRequestInvalid
	}
	m := g.members[want.PortGID]
	if m == nil || m.state&want.JoinState != want.JoinState {
		return want, ib.SAStatusRequestInvalid
	}
	m.state &^= want.JoinState
	rec := g.recordOf(want.PortGID, m.state)
	t.settle(g)
	return rec, ib.SAStatusOK
}

// removePort ends the memberships of a port, including those of its aliases.
func (t *groupTable) removePort(lid ib.LID) {
	for _, g := range t.groups {
		left := false
		for _, m := range g.members {
			if m.lid == lid {
				m.state, left = 0, true
			}
		}
		if left {
			t.settle(g)
		}
	}
}

// settle removes members without a join state, then the group if no member keeps it alive (IBTA vol 1 §15.2.5.17.3),
// and programs the switch.
func (t *groupTable) settle(g *group) {
	alive := false
	for gid, m := range g.members {
		if m.state == 0 {
			delete(g.members, gid)
		}
		alive = alive || m.state&joinKeepsGroup != 0
	}
	if !alive {
		clear(g.members)
		delete(t.groups, g.record.MGID)
		delete(t.mlids, g.record.MLID)
		t.notify(ib.TrapGroupDeleted, &g.record)
	}
	t.program(g)
}

// program sets the group's members in the switch. A port may be a member by its own GID and by aliases.
func (t *groupTable) program(g *group) {
	members := map[ib.LID]bool{}
	for _, m := range g.members {
		members[m.lid] = members[m.lid] || m.state&joinReceives != 0
	}
	t.sw.setMLID(g.record.MLID, members)
}

// findMembers answers a Get. A trusted client gets a record for each member; others get the group, and whether a port
// that they name is a member.
func (t *groupTable) findMembers(r *request, want ib.MCMemberFields) *records {
	found := &records{}
	for _, g := range t.groups {
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

// matches reports whether a group matches a query.
func matches(r *request, want ib.MCMemberFields, g *ib.MCMemberFields) bool {
	return !r.differs(ib.MCMemberMGID, want.MGID == g.MGID) && !r.differs(ib.MCMemberMLID, want.MLID == g.MLID) &&
		agrees(r, want, g)
}

// GroupInfo is one multicast group as the administrator knows it.
type GroupInfo struct {
	Record  ib.MCMemberFields // PortGID and JoinState are zero
	Members map[ib.GID]uint8  // join states by port
}

// infos lists the multicast groups, in no order.
func (t *groupTable) infos() []GroupInfo {
	var all []GroupInfo
	for _, g := range t.groups {
		info := GroupInfo{Record: g.record, Members: map[ib.GID]uint8{}}
		for gid, m := range g.members {
			info.Members[gid] = m.state
		}
		all = append(all, info)
	}
	return all
}
