// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// Limits of the services that are offered at a time.
const (
	maxServices     = 1024
	servicesPerPort = 64
)

// serviceKey tells one offer from another.
type serviceKey struct {
	id   ib.ServiceID
	gid  ib.GID
	pkey ib.PKey
}

// service is an offer of a port.
type service struct {
	record ib.ServiceFields
	lid    ib.LID
	until  time.Time // zero: the lease does not end
}

func (s *service) hasEnded(now time.Time) bool { return !s.until.IsZero() && !now.Before(s.until) }

// answerService answers a ServiceRecord request (IBTA vol 1 §15.2.5.14).
func (a *SA) answerService(r *request) answer {
	rec, _ := ib.AsServiceRecord(r.data)
	want := rec.Fields()
	now := time.Now()
	for key, s := range a.services {
		if s.hasEnded(now) {
			delete(a.services, key)
		}
	}
	asker, ok := a.fabric.portByLID(r.from.LID)
	if !ok {
		return refuse(ib.SAStatusRequestInvalid)
	}
	if m := r.mad.Method(); m == ib.MethodGet || m == ib.MethodGetTable {
		return answer{found: a.findServices(r, want, asker, now)}
	}
	owner, ok := a.portOf(want.GID)
	switch {
	case !r.has(ib.ServiceRecordWhich):
		return refuse(ib.SAStatusInsufficientFields)
	case !ok || owner.LID != r.from.LID || want.PKey.Valid() && !slices.ContainsFunc(owner.PKeys, want.PKey.Matches):
		return refuse(ib.SAStatusRequestInvalid)
	case r.mad.Method() == ib.MethodDelete:
		return a.withdraw(r, want, now)
	}
	return a.offer(r, want, now)
}

// offer keeps a service, or renews it. What only a key may change, another key does not.
func (a *SA) offer(r *request, want ib.ServiceFields, now time.Time) answer {
	key := serviceKey{want.ID, want.GID, want.PKey}
	old := a.services[key]
	switch {
	case old != nil && old.record.Key != want.Key:
		return refuse(ib.SAStatusDenied)
	case old == nil && (len(a.services) >= maxServices || a.servicesOf(r.from.LID) >= servicesPerPort):
		return refuse(ib.SAStatusNoResources)
	}
	s := &service{record: want, lid: r.from.LID}
	if r.mask&ib.ServiceRecordLease == 0 {
		s.record.LeaseSeconds = ib.ServiceLeaseForever
	}
	if s.record.LeaseSeconds != ib.ServiceLeaseForever {
		s.until = now.Add(time.Duration(s.record.LeaseSeconds) * time.Second)
	}
	a.services[key] = s
	found := &records{}
	found.addService(r, s, now)
	return answer{found: found}
}

func (a *SA) withdraw(r *request, want ib.ServiceFields, now time.Time) answer {
	key := serviceKey{want.ID, want.GID, want.PKey}
	s := a.services[key]
	found := &records{}
	switch {
	case s == nil:
	case s.record.Key != want.Key:
		return refuse(ib.SAStatusDenied)
	default:
		delete(a.services, key)
		found.addService(r, s, now)
	}
	return answer{found: found}
}

func (a *SA) servicesOf(lid ib.LID) int {
	n := 0
	for _, s := range a.services {
		if s.lid == lid {
			n++
		}
	}
	return n
}

// findServices finds those in partitions of who asks.
func (a *SA) findServices(r *request, want ib.ServiceFields, asker PortInfo, now time.Time) *records {
	found := &records{}
	for _, s := range a.services {
		f := &s.record
		switch {
		case f.PKey.Valid() && !slices.ContainsFunc(asker.PKeys, f.PKey.Matches),
			r.differs(ib.ServiceRecordID, want.ID == f.ID), r.differs(ib.ServiceRecordGID, want.GID == f.GID),
			r.differs(ib.ServiceRecordPKey, want.PKey == f.PKey), r.differs(ib.ServiceRecordKey, want.Key == f.Key),
			r.differs(ib.ServiceRecordName, want.NameBytes == f.NameBytes), !sameWords(r.mask, &want.Data, &f.Data):
		default:
			found.addService(r, s, now)
		}
	}
	return found
}

// sameWords compares those words of a service's data that a query names: 16 of 1 byte, 8 of 2, 4 of 4, 2 of 8.
func sameWords(mask uint64, want, is *[ib.ServiceDataLen]byte) bool {
	component, at := ib.ServiceRecordName<<1, 0 // the first word's comes after the name's
	for width := 1; width <= 8; width *= 2 {
		for range 16 / width {
			if mask&component != 0 && !bytes.Equal(want[at:at+width], is[at:at+width]) {
				return false
			}
			at += width
			component <<= 1
		}
	}
	return true
}

// addService adds an offer. Who is not trusted does not see its key; of the lease, what is left is told.
func (f *records) addService(r *request, s *service, now time.Time) {
	rec := s.record
	if !r.isTrusted() {
		clear(rec.Key[:])
	}
	if !s.until.IsZero() {
		rec.LeaseSeconds = uint32(max(0, s.until.Sub(now).Round(time.Second)/time.Second))
	}
	b := make([]byte, ib.ServiceRecordLen)
	ib.PutServiceRecord(b, rec)
	f.add(b)
}
