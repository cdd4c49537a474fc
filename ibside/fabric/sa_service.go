// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"time"

	"causeway/ibside/ib"
)

// maxServices is how many records there may be, and servicesPerPort how many of one port.
const (
	maxServices     = 1024
	servicesPerPort = 16
)

// serviceTable has what ports offer. As at OpenSM, a record ends with its lease, not with its port.
type serviceTable struct {
	records []service // in the order in which they came
	now     func() time.Time
}

type service struct {
	ib.ServiceRecordFields
	until time.Time // zero: for ever
}

// names reports whether a record is that of a Set or Delete: its number, port and partition.
func (s *service) names(f *ib.ServiceRecordFields) bool {
	return s.ID == f.ID && s.GID == f.GID && s.PKey == f.PKey
}

// answer answers a ServiceRecord request (IBTA vol 1 §15.2.5.14) of a port.
func (t *serviceTable) answer(r *request, from PortInfo) answer {
	rec, _ := ib.AsServiceRecord(r.data)
	want := rec.Fields()
	t.endLeases()
	switch method := r.mad.Method(); {
	case method == ib.MethodGet, method == ib.MethodGetTable:
		return answer{found: t.find(r, &want)}
	case !r.has(ib.ServiceRecordID | ib.ServiceRecordGID):
		return reject(ib.SAStatusInsufficientFields)
	case want.GID != from.GID:
		return reject(ib.SAStatusRequestInvalid)
	case method == ib.MethodDelete:
		return t.remove(&want)
	}
	return t.put(want)
}

func (t *serviceTable) endLeases() {
	now := t.now()
	t.records = slices.DeleteFunc(t.records, func(s service) bool { return !s.until.IsZero() && now.After(s.until) })
}

func (t *serviceTable) find(r *request, want *ib.ServiceRecordFields) *records {
	found := &records{}
	for i := range t.records {
		s := &t.records[i]
		if r.differs(ib.ServiceRecordID, s.ID == want.ID) || r.differs(ib.ServiceRecordGID, s.GID == want.GID) ||
			r.differs(ib.ServiceRecordPKey, s.PKey == want.PKey) || r.differs(ib.ServiceRecordName, s.Name == want.Name) {
			continue
		}
		found.add(serviceBytes(&s.ServiceRecordFields))
	}
	return found
}

func (t *serviceTable) put(f ib.ServiceRecordFields) answer {
	s := service{ServiceRecordFields: f}
	if f.Lease != ib.ServiceLeaseForever {
		s.until = t.now().Add(time.Duration(f.Lease) * time.Second)
	}
	mine := 0
	for i := range t.records {
		if t.records[i].names(&f) {
			t.records[i] = s
			return one(serviceBytes(&f))
		}
		if t.records[i].GID == f.GID {
			mine++
		}
	}
	if len(t.records) >= maxServices || mine >= servicesPerPort {
		return reject(ib.SAStatusNoResources)
	}
	t.records = append(t.records, s)
	return one(serviceBytes(&f))
}

func (t *serviceTable) remove(f *ib.ServiceRecordFields) answer {
	i := slices.IndexFunc(t.records, func(s service) bool { return s.names(f) })
	if i < 0 {
		return reject(ib.SAStatusNoRecords)
	}
	was := t.records[i].ServiceRecordFields
	t.records = slices.Delete(t.records, i, i+1)
	return one(serviceBytes(&was))
}

func serviceBytes(f *ib.ServiceRecordFields) []byte {
	b := make([]byte, ib.ServiceRecordLen)
	ib.PutServiceRecord(b, *f)
	return b
}
