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

// SA is the subnet administrator: it answers MADs at QP1 of the first port, keeps the multicast groups,
// and programs the switch with them. It knows MCMemberRecord (Set, Delete, Get), PathRecord (Get) and
// ClassPortInfo (Get).
type SA struct {
	hca    *HCA
	fabric *Fabric

	mu       sync.Mutex
	groups   map[ib.GID]*group
	mlids    map[ib.LID]bool // in use
	nextMLID ib.LID
	chosen   uint32 // MGIDs given so far
	counts   Counts
}

func newSA(f *Fabric, h *HCA) *SA {
	a := &SA{
		hca: h, fabric: f, groups: map[ib.GID]*group{}, mlids: map[ib.LID]bool{}, nextMLID: ib.MLIDFirst,
		counts: Counts{},
	}
	h.HandleMAD(ib.ClassSA, a.handle)
	return a
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
	from ib.LID
	mad  ib.MAD
	mask uint64
	data []byte // ib.SADataLen bytes
}

// answer is what becomes of it.
type answer struct {
	status uint16
	data   []byte
}

func refuse(status uint16) answer { return answer{status: status} }

func (a *SA) handle(from MADAddress, b []byte) {
	mad, _ := ib.AsMAD(b)
	sa, _ := ib.AsSAHeader(b[ib.MADHdrLen:])
	if mad.IsResponse() {
		return // nobody was asked
	}
	r := request{from: from.LID, mad: mad, mask: sa.Components(), data: b[ib.MADHdrLen+ib.SAHdrLen:]}
	got := a.answer(&r)
	a.mu.Lock()
	a.counts[statusWord(got.status)]++
	a.mu.Unlock()
	to := MADAddress{LID: from.LID, SL: from.SL}
	if from.GRH != nil {
		to.GRH = &ib.GRHFields{DGID: from.GRH.SGID, HopLimit: from.GRH.HopLimit}
	}
	a.hca.SendMAD(to, reply(mad, r.mask, got))
}

func (a *SA) answer(r *request) answer {
	if !r.mad.IsSA() {
		return refuse(madStatusBadVersion)
	}
	switch m := r.mad.Method(); m {
	case ib.MethodGet, ib.MethodSet, ib.MethodDelete:
	default:
		return refuse(madStatusBadMethod)
	}
	switch method := r.mad.Method(); {
	case r.mad.AttrID() == ib.AttrMCMemberRecord:
		return a.answerMember(r)
	case r.mad.AttrID() == ib.AttrPathRecord && method == ib.MethodGet:
		return a.answerPath(r)
	case r.mad.AttrID() == ib.AttrClassPortInfo && method == ib.MethodGet:
		return answer{data: classPortInfo()}
	}
	return refuse(madStatusBadAttribute)
}

// reply writes the answer to a request: its header with the response bit, its component mask, the record.
func reply(to ib.MAD, mask uint64, a answer) []byte {
	b := make([]byte, ib.MADLen)
	f := to.Fields()
	f.Status = a.status
	f.Method |= ib.MethodResponse
	if to.Method() == ib.MethodSet {
		f.Method = ib.MethodGetResp
	}
	ib.PutMAD(b, f)
	ib.PutSAHeader(b[ib.MADHdrLen:], ib.SAFields{Components: mask, AttrOffsetWords: uint16(len(a.data)+7) / 8})
	copy(b[ib.MADHdrLen+ib.SAHdrLen:], a.data)
	return b
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
