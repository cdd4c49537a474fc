// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"slices"
	"time"

	"causeway/ibside/ib"
)

// Limits of registered services.
const (
	maxServices     = 1024
	servicesPerPort = 64
)

// serviceKey identifies a service record.
type serviceKey struct {
	id   ib.ServiceID
	gid  ib.GID
	pkey ib.PKey
}

// service is a registered service of a port.
type service struct {
	record ib.ServiceFields
	lid    ib.LID
	until  time.Time // zero: the lease does not end
}

func (s *service) hasEnded(now time.Time) bool { return !s.until.IsZero() && !now.Before(s.until) }

// serviceTable has the registered services.
type serviceTable struct {
	ports    ports
	services map[serviceKey]*service
}

// removePort removes a port's services.
func (t *serviceTable) removePort(lid ib.LID) {
	for key, s := range t.services {
		if s.lid == lid {
			delete(t.services, key)
		}
	}
}

// answer answers a ServiceRecord request (IBTA vol 1 §15.2.5.14).
func (t *serviceTable) answer(r *request) answer {
	rec, _ := ib.AsServiceRecord(r.data)
	want := rec.Fields()
	now := time.Now()
	for key, s := range t.services {
		if s.hasEnded(now) {
			delete(t.services, key)
		}
	}
	asker, ok := t.ports.portByLID(r.from.LID)
	if !ok {
		return reject(ib.SAStatusRequestInvalid)
	}
	if m := r.mad.Method(); m == ib.MethodGet || m == ib.MethodGetTable {
		return answer{found: t.find(r, want, asker, now)}
	}
	owner, ok := t.ports.portOf(want.GID)
	switch {
	case !r.has(ib.ServiceRecordWhich):
		return reject(ib.SAStatusInsufficientFields)
	case !ok || owner.LID != r.from.LID || want.PKey.Valid() && !slices.ContainsFunc(owner.PKeys, want.PKey.Matches):
		return reject(ib.SAStatusRequestInvalid)
	case r.mad.Method() == ib.MethodDelete:
		return t.withdraw(r, want, now)
	}
	return t.offer(r, want, now)
}

// offer registers a service or renews it. A change requires the same service key.
func (t *serviceTable) offer(r *request, want ib.ServiceFields, now time.Time) answer {
	key := serviceKey{want.ID, want.GID, want.PKey}
	old := t.services[key]
	switch {
	case old != nil && old.record.Key != want.Key:
		return reject(ib.SAStatusDenied)
	case old == nil && (len(t.services) >= maxServices || t.of(r.from.LID) >= servicesPerPort):
		return reject(ib.SAStatusNoResources)
	}
	s := &service{record: want, lid: r.from.LID}
	if r.mask&ib.ServiceRecordLease == 0 {
		s.record.LeaseSeconds = ib.ServiceLeaseForever
	}
	if s.record.LeaseSeconds != ib.ServiceLeaseForever {
		s.until = now.Add(time.Duration(s.record.LeaseSeconds) * time.Second)
	}
	t.services[key] = s
	found := &records{}
	found.addService(r, s, now)
	return answer{found: found}
}

func (t *serviceTable) withdraw(r *request, want ib.ServiceFields, now time.Time) answer {
	key := serviceKey{want.ID, want.GID, want.PKey}
	s := t.services[key]
	found := &records{}
	switch {
	case s == nil:
	case s.record.Key != want.Key:
		return reject(ib.SAStatusDenied)
	default:
		delete(t.services, key)
		found.addService(r, s, now)
	}
	return answer{found: found}
}

// of counts the services of a port.
func (t *serviceTable) of(lid ib.LID) int {
	n := 0
	for _, s := range t.services {
		if s.lid == lid {
			n++
		}
	}
	return n
}

// find finds services in the partitions of the requester.
func (t *serviceTable) find(r *request, want ib.ServiceFields, asker PortInfo, now time.Time) *records {
	found := &records{}
	for _, s := range t.services {
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

// sameWords compares the words of a service's data that a query names: 16 of 1 byte, 8 of 2, 4 of 4, 2 of 8.
func sameWords(mask uint64, want, is *[ib.ServiceDataLen]byte) bool {
	component, at := ib.ServiceRecordName<<1, 0 // the component after the name
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

// addService adds a record, with the remaining lease, and without the key if the client is not trusted.
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
