// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"sync"
	"time"

	"causeway/ibside/ib"
)

// MAD statuses of all classes (IBTA vol 1 §13.4.7).
const (
	madStatusBadVersion   = 1 << 2
	madStatusBadMethod    = 2 << 2
	madStatusBadAttribute = 3 << 2
)

// PortRate is the rate of all ports, and of all paths.
const PortRate = ib.Rate(16) // 100 Gb/s

const (
	subnetLife = 18 // 4.096 us * 2^18, about a second: the usual packet lifetime
)

// trustedKey is the SM_Key of a client that may see the members of a group. It is OpenSM's default, so it is not a
// secret.
const trustedKey = 1

// SA is the subnet administrator: it answers MADs at QP1 of the first port, manages multicast groups, and programs the
// switch. It answers as OpenSM does; the conformance tests run against both:
//
//	MCMemberRecord   Set, Delete, Get, GetTable   members of groups
//	PathRecord       Get, GetTable                paths
//	PortInfoRecord   Get, GetTable                LIDs of ports
//	GUIDInfoRecord   Set, Delete, Get, GetTable   alias GUIDs of ports
//	ServiceRecord    Set, Delete, Get, GetTable   what ports offer
//	InformInfo       Set                          subscriptions to notices about groups and ports
//	ClassPortInfo    Get
//
// Unlike with OpenSM, a port may make requests only for itself.
type SA struct {
	hca *HCA

	mu      sync.Mutex // protects the parts too
	closed  bool
	counts  Counts
	groups  groupTable
	guids   *guidTable
	paths   pathFinder
	offered serviceTable
	informs *informTable
	tables  rmppSender
}

// subnet is what the administrator reads of the fabric.
type subnet interface {
	prefix() uint64
	Ports() []PortInfo
	portByLID(lid ib.LID) (PortInfo, bool)
	portByGID(gid ib.GID) (PortInfo, bool)
}

// ports are the subnet's ports with their aliases.
type ports interface {
	Ports() []PortInfo
	portByLID(lid ib.LID) (PortInfo, bool)
	portOf(gid ib.GID) (PortInfo, bool)
}

// madSender sends a MAD from QP1.
type madSender interface {
	SendMAD(to MADAddress, mad []byte) (drop string)
}

// madID identifies an exchange of several MADs with a port.
type madID struct {
	lid ib.LID
	tid uint64
}

func newSA(f *Fabric, h *HCA) *SA {
	a := &SA{hca: h, counts: Counts{}}
	a.guids = newGUIDTable(f, a.groups.isMember)
	a.informs = newInformTable(&a.mu, a.guids, h)
	a.groups = groupTable{
		ports: a.guids, prefix: f.cfg.Prefix, sw: f.sw, notify: a.informs.notifyOfGroup,
		groups: map[ib.GID]*group{}, mlids: map[ib.LID]bool{}, nextMLID: ib.MLIDFirst,
	}
	a.paths = pathFinder{ports: a.guids, groups: &a.groups}
	a.offered.now = time.Now
	a.tables = rmppSender{mu: &a.mu, mads: h, transfers: map[madID]*transfer{}}
	h.handleMAD(ib.ClassSA, a.handle)
	return a
}

// close ends all exchanges and closes the adapter.
func (a *SA) close() error {
	a.mu.Lock()
	a.closed, a.informs.closed = true, true
	a.endExchanges(func(ib.LID) bool { return true })
	a.mu.Unlock()
	return a.hca.Close()
}

// endExchanges ends the exchanges with some ports.
func (a *SA) endExchanges(with func(ib.LID) bool) {
	a.informs.endReports(with)
	a.tables.endTransfers(with)
}

// HCA returns the adapter of the administrator.
func (a *SA) HCA() *HCA { return a.hca }

// Requests counts requests by result: "ok", or a name of the status of the answer.
func (a *SA) Requests() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := Counts{}
	c.add(a.counts)
	return c
}

// Reports returns the counters of reports.
func (a *SA) Reports() ReportCounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.informs.reportCounts()
}

// Subscriptions returns the number of subscriptions.
func (a *SA) Subscriptions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.informs.subscriptions)
}

// Groups lists the multicast groups, in no order.
func (a *SA) Groups() []GroupInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.groups.infos()
}

// request is one parsed SA MAD.
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

// differs reports whether the request names a component that does not match.
func (r *request) differs(component uint64, equal bool) bool { return r.mask&component != 0 && !equal }

// answer is the result of a request.
type answer struct {
	status uint16
	found  *records // nil with a status
}

func reject(status uint16) answer { return answer{status: status} }

// one is an answer with one record.
func one(b []byte) answer {
	found := &records{}
	found.add(b)
	return answer{found: found}
}

func (a *SA) handle(from MADAddress, b []byte) {
	from.LID = from.LID.Base(a.hca.own().LMC) // by which all registrations are kept
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
		a.tables.acknowledged(madID{from.LID, mad.TID()}, sa)
	default:
		a.respond(&r, a.conclude(&r, a.answer(&r)))
	}
}

func (a *SA) answer(r *request) answer {
	method := r.mad.Method()
	switch {
	case !r.mad.IsSA():
		return reject(madStatusBadVersion)
	case method != ib.MethodGet && method != ib.MethodGetTable && method != ib.MethodSet && method != ib.MethodDelete:
		return reject(madStatusBadMethod)
	}
	asks := method == ib.MethodGet || method == ib.MethodGetTable
	switch attr := r.mad.AttrID(); {
	case attr == ib.AttrMCMemberRecord:
		return a.groups.answer(r)
	case attr == ib.AttrGUIDInfoRecord:
		return a.guids.answer(r)
	case attr == ib.AttrServiceRecord:
		from, _ := a.guids.portByLID(r.from.LID)
		return a.offered.answer(r, from)
	case attr == ib.AttrPathRecord && asks:
		return a.paths.answer(r)
	case attr == ib.AttrPortInfoRecord && asks:
		return a.paths.answerPort(r)
	case attr == ib.AttrInformInfo && method == ib.MethodSet:
		return a.informs.answer(r)
	case attr == ib.AttrClassPortInfo && method == ib.MethodGet:
		return one(classPortInfo())
	}
	return reject(madStatusBadAttribute)
}

// conclude checks the number of records that were found: all methods except GetTable return exactly one.
func (a *SA) conclude(r *request, got answer) answer {
	switch {
	case got.status != ib.SAStatusOK:
	case got.found.full:
		return reject(ib.SAStatusNoResources)
	case r.mad.Method() == ib.MethodGetTable:
	case got.found.n == 0:
		return reject(ib.SAStatusNoRecords)
	case got.found.n > 1:
		return reject(ib.SAStatusTooManyRecords)
	}
	return got
}

// respond sends the answer.
func (a *SA) respond(r *request, got answer) {
	if got.status == ib.SAStatusOK && r.mad.Method() == ib.MethodGetTable {
		var begun bool
		if got.status, begun = a.tables.transfer(r, got.found); begun {
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

// back returns the address for the answer.
func (r *request) back() MADAddress {
	to := MADAddress{LID: r.from.LID, SL: r.from.SL}
	if r.from.GRH != nil {
		to.GRH = &ib.GRHFields{DGID: r.from.GRH.SGID, HopLimit: r.from.GRH.HopLimit}
	}
	return to
}

// reply makes the answer to a request, without a record.
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

// portGone removes the registrations of a port that left the subnet, and sends notices. Its caller holds mu.
func (a *SA) portGone(p PortInfo) {
	a.informs.removePort(p.LID)
	a.endExchanges(func(lid ib.LID) bool { return lid == p.LID })
	a.groups.removePort(p.LID)
	a.guids.removePort(p.LID)
	a.informs.notifyOfPort(ib.TrapGIDOutOfService, p)
}

// portCame sends notices about a new port. Its caller holds mu.
func (a *SA) portCame(p PortInfo) {
	a.informs.notifyOfPort(ib.TrapGIDInService, p)
}

// classPortInfo returns a ClassPortInfo (IBTA vol 1 §13.4.8.1) that announces SendOnlyFullMember joins.
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

// statusWord returns the name of a MAD status.
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
