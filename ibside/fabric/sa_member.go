// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"slices"

	"causeway/ibside/ib"
)

// maxGroups limits the number of groups.
const maxGroups = 4096

const (
	joinKeepsGroup = ib.JoinFull | ib.JoinSendOnlyFull // may create a group, and keep it alive
	joinReceives   = ib.JoinFull | ib.JoinNonMember
)

// group is a multicast group: its parameters and its members.
type group struct {
	record  ib.MCMemberFields // PortGID and JoinState are zero
	members map[ib.GID]*member
}

type member struct {
	lid   ib.LID
	state uint8 // Join constants
}

// groupTable has the multicast groups, and programs the switch.
type groupTable struct {
	ports  ports
	prefix uint64 // the subnet's
	sw     interface {
		setMLID(mlid ib.LID, members map[ib.LID]bool)
	}
	notify func(trap uint16, g *ib.MCMemberFields) // of a created or deleted group

	groups   map[ib.GID]*group
	mlids    map[ib.LID]bool // in use
	nextMLID ib.LID
	chosen   uint32 // MGIDs given so far
}

// find returns the group with an MGID, or nil.
func (t *groupTable) find(mgid ib.GID) *group { return t.groups[mgid] }

// isMember reports whether gid is a member of any group.
func (t *groupTable) isMember(gid ib.GID) bool {
	for _, g := range t.groups {
		if g.members[gid] != nil {
			return true
		}
	}
	return false
}

// answer answers an MCMemberRecord request (IBTA vol 1 §15.2.5.17).
func (t *groupTable) answer(r *request) answer {
	rec, _ := ib.AsMCMemberRecord(r.data)
	want := rec.Fields()
	var got ib.MCMemberFields
	var status uint16
	switch r.mad.Method() {
	case ib.MethodSet:
		got, status = t.join(r, want)
	case ib.MethodDelete:
		got, status = t.leave(r, want)
	default:
		return answer{found: t.findMembers(r, want)}
	}
	if status != ib.SAStatusOK {
		return reject(status)
	}
	b := make([]byte, ib.MCMemberRecordLen)
	ib.PutMCMemberRecord(b, got)
	return one(b)
}

// requester checks that a join or leave comes from the port that it is for.
func (t *groupTable) requester(r *request, want ib.MCMemberFields) (PortInfo, uint16) {
	if !r.has(ib.MCMemberPortGID | ib.MCMemberJoinState) {
		return PortInfo{}, ib.SAStatusInsufficientFields
	}
	port, ok := t.ports.portOf(want.PortGID)
	if !ok || port.LID != r.from.LID || want.JoinState == 0 {
		return PortInfo{}, ib.SAStatusRequestInvalid
	}
	return port, ib.SAStatusOK
}

// join adds a port to a group, which it creates if needed and allowed (IBTA vol 1 §15.2.5.17.2).
func (t *groupTable) join(r *request, want ib.MCMemberFields) (ib.MCMemberFields, uint16) {
	port, status := t.requester(r, want)
	if status != ib.SAStatusOK {
		return want, status
	}
	g := t.groups[want.MGID]
	if r.mask&ib.MCMemberMGID == 0 || want.MGID.IsZero() {
		g, want.MGID = nil, ib.GID{}
	} else if g == nil && !validMGID(want.MGID) {
		return want, ib.SAStatusRequestInvalid
	}
	if g == nil {
		g, status = t.newGroup(r.mask, want, port)
	} else {
		status = fits(r, want, &g.record, port)
	}
	if status != ib.SAStatusOK {
		return want, status
	}
	m := g.members[want.PortGID]
	if m == nil {
		m = &member{lid: port.LID}
		g.members[want.PortGID] = m
	}
	m.state |= want.JoinState
	t.program(g)
	return g.recordOf(want.PortGID, m.state), ib.SAStatusOK
}

func (g *group) recordOf(port ib.GID, state uint8) ib.MCMemberFields {
	rec := g.record
	rec.PortGID, rec.JoinState = port, state
	return rec
}

// validMGID reports whether a client may create mgid: a multicast GID with a scope that is not reserved, and not one of
// those that only the administrator assigns (OpenSM validate_requested_mgid).
func validMGID(mgid ib.GID) bool {
	scope := mgid[1] & 0x0f
	return mgid.IsIBMulticast() && mgid[1]&0xe0 == 0 && scope != 0 && scope != 0xf &&
		(scope != ib.ScopeLinkLocal || binary.BigEndian.Uint16(mgid[2:]) != mgidGiven)
}

// mgidGiven is the signature of MGIDs that the administrator assigns.
const mgidGiven = 0xa01b

// newGroup creates a group for a port, or returns the status of the failure.
func (t *groupTable) newGroup(mask uint64, want ib.MCMemberFields, port PortInfo) (*group, uint16) {
	need := ib.MCMemberCreate
	if want.MGID.IsZero() {
		need &^= ib.MCMemberMGID
	}
	rec, ok := groupRecord(mask, want, port)
	switch {
	case want.JoinState&joinKeepsGroup == 0:
		return nil, ib.SAStatusRequestInvalid
	case mask&need != need:
		return nil, ib.SAStatusInsufficientFields
	case !ok:
		return nil, ib.SAStatusRequestInvalid
	case len(t.groups) >= maxGroups:
		return nil, ib.SAStatusNoResources
	}
	if rec.MGID.IsZero() {
		rec.MGID = t.chooseMGID()
		rec.Scope = rec.MGID[1] & 0x0f
	}
	rec.MLID = t.freeMLID()
	t.mlids[rec.MLID] = true
	g := &group{record: rec, members: map[ib.GID]*member{}}
	t.groups[rec.MGID] = g
	t.notify(ib.TrapGroupCreated, &rec)
	return g, ib.SAStatusOK
}

// groupRecord completes the record of a new group; false when it is not valid.
func groupRecord(mask uint64, want ib.MCMemberFields, port PortInfo) (ib.MCMemberFields, bool) {
	rec := want
	rec.PortGID, rec.JoinState, rec.ProxyJoin = ib.GID{}, 0, false
	rec.PKey |= 0x8000 // a group's P_Key is a full member's
	rec.Scope = want.MGID[1] & 0x0f
	var mtuOK, rateOK bool
	rec.MTU, mtuOK = chooseMTU(mask, want, port.MTU)
	rec.Rate, rateOK = chooseRate(mask, want)
	rec.MTUSelector, rec.RateSelector, rec.LifeSelector = ib.SelectExactly, ib.SelectExactly, ib.SelectExactly
	if mask&ib.MCMemberLife == 0 {
		rec.Life = subnetLife
	}
	if mask&ib.MCMemberHopLimit == 0 {
		rec.HopLimit = 0
	}
	scopeOK := mask&ib.MCMemberScope == 0 || want.MGID.IsZero() || want.Scope == rec.Scope
	return rec, mtuOK && rateOK && scopeOK && slices.ContainsFunc(port.PKeys, rec.PKey.Matches)
}

// chooseMTU returns the MTU of a new group: the port's unless the creator wants another.
func chooseMTU(mask uint64, want ib.MCMemberFields, largest ib.MTU) (ib.MTU, bool) {
	if mask&ib.MCMemberMTUSelector == 0 || mask&ib.MCMemberMTU == 0 {
		return largest, true
	}
	switch want.MTUSelector {
	case ib.SelectExactly:
		return want.MTU, want.MTU.Valid() && want.MTU <= largest
	case ib.SelectLess:
		m := min(want.MTU-1, largest)
		return m, want.MTU > ib.MTU256 && m.Valid()
	case ib.SelectGreater:
		return largest, largest > want.MTU
	}
	return largest, true
}

// chooseRate is chooseMTU for the rate: the subnet's unless the creator wants exactly another.
func chooseRate(mask uint64, want ib.MCMemberFields) (ib.Rate, bool) {
	if mask&ib.MCMemberRateSelector == 0 || mask&ib.MCMemberRate == 0 {
		return PortRate, true
	}
	most := PortRate.Mbps()
	switch asked := want.Rate.Mbps(); want.RateSelector {
	case ib.SelectExactly:
		return want.Rate, asked > 0 && asked <= most
	case ib.SelectLess:
		return PortRate, asked > most
	case ib.SelectGreater:
		return PortRate, asked < most
	}
	return PortRate, true
}

// fits reports whether a join agrees with the group that is there: what it names must be the group's.
func fits(r *request, want ib.MCMemberFields, g *ib.MCMemberFields, port PortInfo) uint16 {
	if !agrees(r, want, g) || port.MTU < g.MTU || !slices.ContainsFunc(port.PKeys, g.PKey.Matches) {
		return ib.SAStatusRequestInvalid
	}
	return ib.SAStatusOK
}

// agrees compares what a request names with a group.
func agrees(r *request, want ib.MCMemberFields, g *ib.MCMemberFields) bool {
	return !(r.differs(ib.MCMemberQKey, want.QKey == g.QKey) ||
		r.differs(ib.MCMemberTClass, want.TClass == g.TClass) ||
		r.differs(ib.MCMemberPKey, want.PKey|0x8000 == g.PKey) ||
		r.differs(ib.MCMemberSL, want.SL == g.SL) ||
		r.differs(ib.MCMemberFlowLabel, want.FlowLabel == g.FlowLabel) ||
		r.differs(ib.MCMemberHopLimit, want.HopLimit == g.HopLimit) ||
		r.differs(ib.MCMemberScope, want.Scope == g.Scope) ||
		r.differs(ib.MCMemberMTU, selected(want.MTUSelector, int(want.MTU), int(g.MTU))) ||
		r.differs(ib.MCMemberRate, selected(want.RateSelector, want.Rate.Mbps(), g.Rate.Mbps())))
}

// selected reports whether a group's value is what a selector asks for.
func selected(s ib.Selector, asked, is int) bool {
	switch s {
	case ib.SelectGreater:
		return is > asked
	case ib.SelectLess:
		return is < asked
	case ib.SelectExactly:
		return is == asked
	}
	return true
}

// freeMLID takes MLIDs in turn; maxGroups makes sure that there is one.
func (t *groupTable) freeMLID() ib.LID {
	for t.mlids[t.nextMLID] {
		t.nextMLID = nextMLID(t.nextMLID)
	}
	mlid := t.nextMLID
	t.nextMLID = nextMLID(mlid)
	return mlid
}

func nextMLID(l ib.LID) ib.LID {
	if l >= ib.MLIDLast {
		return ib.MLIDFirst
	}
	return l + 1
}

// chooseMGID assigns an MGID to a group that was created without one: ff12:a01b:<subnet prefix>:<number>.
func (t *groupTable) chooseMGID() ib.GID {
	g := ib.GID{0xff, 0x10 | ib.ScopeLinkLocal, mgidGiven >> 8, mgidGiven & 0xff}
	binary.BigEndian.PutUint64(g[4:], t.prefix)
	t.chosen++
	binary.BigEndian.PutUint32(g[12:], t.chosen)
	return g
}
