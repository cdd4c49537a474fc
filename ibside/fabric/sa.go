// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"sync"

	"causeway/ibside/ib"
)

// MAD statuses that are not the SA's own (IBTA vol 1 §13.4.7).
const (
	madStatusBadVersion   = 1 << 2
	madStatusBadMethod    = 2 << 2
	madStatusBadAttribute = 3 << 2
)

const (
	subnetRate = ib.Rate(16) // 100 Gb/s: what the SA says every path has
	subnetLife = 18          // 4.096 us * 2^18, about a second: the usual packet lifetime
)

// trustedKey is the SM_Key of a client that may see who is in a group. It is what OpenSM has when it is given none, so
// it keeps no secret: as there, it is a way to ask.
const trustedKey = 1

// SA is the subnet administrator: it answers MADs at QP1 of the first port, keeps the multicast groups, and programs the
// switch with them. What it is asked, it answers as OpenSM does, and tests hold it to the same cases:
//
//	MCMemberRecord   Set, Delete, Get, GetTable   who is in which group
//	PathRecord       Get, GetTable                how to send to whom
//	GUIDInfoRecord   Set, Delete, Get, GetTable   alias GUIDs of ports
//	ServiceRecord    Set, Delete, Get, GetTable   who offers what
//	InformInfo       Set                          who is told of groups and ports that come and go
//	ClassPortInfo    Get
//
// Other than there, a port asks for itself alone.
type SA struct {
	hca    *HCA
	fabric *Fabric

	mu        sync.Mutex
	closed    bool
	groups    map[ib.GID]*group
	mlids     map[ib.LID]bool // in use
	nextMLID  ib.LID
	chosen    uint32 // MGIDs given so far
	guids     guidBook
	services  map[serviceKey]*service
	informs   informBook
	transfers map[madID]*transfer
	counts    Counts
}

// madID tells an exchange of several MADs with a port from others.
type madID struct {
	lid ib.LID
	tid uint64
}

func newSA(f *Fabric, h *HCA) *SA {
	a := &SA{
		hca: h, fabric: f, groups: map[ib.GID]*group{}, mlids: map[ib.LID]bool{}, nextMLID: ib.MLIDFirst,
		guids: newGUIDBook(), services: map[serviceKey]*service{}, informs: newInformBook(), transfers: map[madID]*transfer{},
		counts: Counts{},
	}
	h.HandleMAD(ib.ClassSA, a.handle)
	return a
}

// close ends what is under way, and then the adapter.
func (a *SA) close() error {
	a.mu.Lock()
	a.closed = true
	a.endExchanges(func(ib.LID) bool { return true })
	a.mu.Unlock()
	return a.hca.Close()
}

// endExchanges ends what is under way with some ports.
func (a *SA) endExchanges(with func(ib.LID) bool) {
	for x := range a.informs.reports {
		if with(x.lid) {
			a.informs.end(x)
			a.informs.counts.Gone++
		}
	}
	for x := range a.transfers {
		if with(x.lid) {
			a.endTransfer(x)
		}
	}
}

// HCA returns the adapter that the administrator sits at.
func (a *SA) HCA() *HCA { return a.hca }

// Requests counts requests by outcome: "ok", or a word for the status of the answer.
func (a *SA) Requests() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := Counts{}
	c.add(a.counts)
	return c
}

// request is one SA MAD, taken apart.
type request struct {
	from MADAddress
	mad  ib.MAD
	key  uint64 // the SM_Key
	mask uint64
	data []byte // ib.SADataLen bytes
}

func (r *request) isTrusted() bool { return r.key == trustedKey }

// has reports whether the request names all these components.
func (r *request) has(components uint64) bool { return r.mask&components == components }

// differs reports whether the request names a component that is not as it should be.
func (r *request) differs(component uint64, equal bool) bool { return r.mask&component != 0 && !equal }

// answer is what becomes of it.
type answer struct {
	status uint16
	found  *records // nil with a status
}

func refuse(status uint16) answer { return answer{status: status} }

// one is an answer of one record, whatever was asked.
func one(b []byte) answer {
	found := &records{}
	found.add(b)
	return answer{found: found}
}

func (a *SA) handle(from MADAddress, b []byte) {
	mad, _ := ib.AsMAD(b)
	sa, _ := ib.AsSAHeader(b[ib.MADHdrLen:])
	r := request{from: from, mad: mad, key: sa.SMKey(), mask: sa.Components(), data: b[ib.MADHdrLen+ib.SAHdrLen:]}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
	case mad.IsResponse():
		if mad.IsSA() && mad.Method() == ib.MethodReportResp {
			a.informs.confirmed(madID{from.LID, mad.TID()})
		}
	case mad.IsSA() && sa.RMPPFlags()&ib.RMPPFlagActive != 0 && sa.RMPPType() != ib.RMPPTypeData:
		a.acknowledged(madID{from.LID, mad.TID()}, sa)
	default:
		a.respond(&r, a.conclude(&r, a.answer(&r)))
	}
}

func (a *SA) answer(r *request) answer {
	method := r.mad.Method()
	switch {
	case !r.mad.IsSA():
		return refuse(madStatusBadVersion)
	case method != ib.MethodGet && method != ib.MethodGetTable && method != ib.MethodSet && method != ib.MethodDelete:
		return refuse(madStatusBadMethod)
	}
	asks := method == ib.MethodGet || method == ib.MethodGetTable
	switch attr := r.mad.AttrID(); {
	case attr == ib.AttrMCMemberRecord:
		return a.answerMember(r)
	case attr == ib.AttrGUIDInfoRecord:
		return a.answerGUIDs(r)
	case attr == ib.AttrServiceRecord:
		return a.answerService(r)
	case attr == ib.AttrPathRecord && asks:
		return a.answerPath(r)
	case attr == ib.AttrInformInfo && method == ib.MethodSet:
		return a.answerInform(r)
	case attr == ib.AttrClassPortInfo && method == ib.MethodGet:
		return one(classPortInfo())
	}
	return refuse(madStatusBadAttribute)
}

// conclude makes of what was found what the method lets be answered: one record, but for a table.
func (a *SA) conclude(r *request, got answer) answer {
	switch {
	case got.status != ib.SAStatusOK:
	case got.found.full:
		return refuse(ib.SAStatusNoResources)
	case r.mad.Method() == ib.MethodGetTable:
	case got.found.n == 0:
		return refuse(ib.SAStatusNoRecords)
	case got.found.n > 1:
		return refuse(ib.SAStatusTooManyRecords)
	}
	return got
}

// respond sends the answer.
func (a *SA) respond(r *request, got answer) {
	if got.status == ib.SAStatusOK && r.mad.Method() == ib.MethodGetTable {
		var begun bool
		if got.status, begun = a.transfer(r, got.found); begun {
			a.counts[statusWord(got.status)]++
			return
		}
	}
	a.counts[statusWord(got.status)]++
	b := reply(r, got.status)
	if got.status == ib.SAStatusOK {
		ib.PutSAHeader(b[ib.MADHdrLen:], ib.SAFields{SMKey: r.key, Components: r.mask, AttrOffsetWords: got.found.offsetWords()})
		copy(b[ib.MADHdrLen+ib.SAHdrLen:], got.found.data)
	}
	a.hca.SendMAD(r.back(), b)
}

// back is where the answer goes.
func (r *request) back() MADAddress {
	to := MADAddress{LID: r.from.LID, SL: r.from.SL}
	if r.from.GRH != nil {
		to.GRH = &ib.GRHFields{DGID: r.from.GRH.SGID, HopLimit: r.from.GRH.HopLimit}
	}
	return to
}

// reply begins the answer to a request: its header with the response bit, its component mask, and no record.
func reply(r *request, status uint16) []byte {
	b := make([]byte, ib.MADLen)
	f := r.mad.Fields()
	f.Status = status
	f.Method |= ib.MethodResponse
	if r.mad.Method() == ib.MethodSet {
		f.Method = ib.MethodGetResp
	}
	ib.PutMAD(b, f)
	ib.PutSAHeader(b[ib.MADHdrLen:], ib.SAFields{SMKey: r.key, Components: r.mask})
	return b
}

// portOf finds the port that a GID is of: its own, or an alias.
func (a *SA) portOf(gid ib.GID) (PortInfo, bool) {
	if p, ok := a.fabric.portByGID(gid); ok {
		return p, true
	}
	if lid, ok := a.guids.owner[gid.GUID()]; ok && gid.Prefix() == a.fabric.cfg.Prefix {
		return a.fabric.portByLID(lid)
	}
	return PortInfo{}, false
}

// portGone ends all that is registered for a port that left the subnet, and tells the others.
func (a *SA) portGone(p PortInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.informs.forgetPort(p.LID)
	a.endExchanges(func(lid ib.LID) bool { return lid == p.LID })
	for _, g := range a.groups {
		a.settleWithout(g, p.LID)
	}
	a.guids.forgetPort(p.LID)
	for key, s := range a.services {
		if s.lid == p.LID {
			delete(a.services, key)
		}
	}
	a.notifyOfPort(ib.TrapGIDOutOfService, p)
}

// portCame tells others of a port.
func (a *SA) portCame(p PortInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notifyOfPort(ib.TrapGIDInService, p)
}

// classPortInfo returns a ClassPortInfo (IBTA vol 1 §13.4.8.1) that offers SendOnlyFullMember joins.
func classPortInfo() []byte {
	const (
		sendOnlyFull = 1 << 12 // of CapabilityMask2, 27 bits
		respTime     = 8       // 4.096 us * 2^8, about a millisecond
	)
	b := make([]byte, 72)
	b[0], b[1] = 1, ib.ClassVersionSA
	binary.BigEndian.PutUint32(b[4:], sendOnlyFull<<5|respTime)
	return b
}

// statusWord names a MAD status.
func statusWord(status uint16) string {
	switch status {
	case ib.SAStatusOK:
		return "ok"
	case ib.MADStatusBusy:
		return "busy"
	case madStatusBadVersion:
		return "bad_version"
	case madStatusBadMethod:
		return "bad_method"
	case madStatusBadAttribute:
		return "bad_attribute"
	case ib.SAStatusNoResources:
		return "no_resources"
	case ib.SAStatusRequestInvalid:
		return "request_invalid"
	case ib.SAStatusNoRecords:
		return "no_records"
	case ib.SAStatusTooManyRecords:
		return "too_many_records"
	case ib.SAStatusInvalidGID:
		return "invalid_gid"
	case ib.SAStatusInsufficientFields:
		return "insufficient_fields"
	case ib.SAStatusDenied:
		return "denied"
	}
	return "other"
}
