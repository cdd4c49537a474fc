// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// A ServiceRecord says that a port offers a service. The SA keeps it for a lease, and lists it to who asks.
const (
	ServiceRecordLen = 176
	ServiceNameLen   = 64
	ServiceDataLen   = 64
)

// ServiceName is a name, with zeros behind it.
type ServiceName [ServiceNameLen]byte

// ServiceNameOf returns s as a name, cut to what fits.
func ServiceNameOf(s string) (n ServiceName) {
	copy(n[:], s)
	return n
}

// ServiceLeaseForever is a lease without an end.
const ServiceLeaseForever = 0xffffffff

// Components of a ServiceRecord (OpenSM ib_types.h). Those of ServiceData count by its elements, of four widths.
const (
	ServiceRecordID uint64 = 1 << iota
	ServiceRecordGID
	ServiceRecordPKey
	_
	ServiceRecordLease
	ServiceRecordKey
	ServiceRecordName
	serviceRecordData0

	ServiceRecordData = (1<<30 - 1) * serviceRecordData0 // all elements
)

const (
	serviceRecordID    = 0
	serviceRecordGID   = 8
	serviceRecordPKey  = 24 // then reserved 16
	serviceRecordLease = 28
	serviceRecordKey   = 32
	serviceRecordName  = 48
	serviceRecordData  = 112
)

// ServiceRecord is a view of an SA ServiceRecord (IBTA vol 1 §15.2.5.14), in wire order. It aliases its packet.
type ServiceRecord []byte

// AsServiceRecord returns the first ServiceRecordLen bytes of b; false when b is too short.
func AsServiceRecord(b []byte) (ServiceRecord, bool) {
	if len(b) < ServiceRecordLen {
		return nil, false
	}
	return ServiceRecord(b[:ServiceRecordLen:ServiceRecordLen]), true
}

// ID returns the service's number. With GID and P_Key, it names the record.
func (r ServiceRecord) ID() ServiceID { return ServiceID(binary.BigEndian.Uint64(r[serviceRecordID:])) }

// GID returns the port that offers the service.
func (r ServiceRecord) GID() GID { return GID(r[serviceRecordGID:serviceRecordPKey]) }

// PKey returns the partition in which it is offered.
func (r ServiceRecord) PKey() PKey { return PKey(binary.BigEndian.Uint16(r[serviceRecordPKey:])) }

// Lease returns for how many seconds the SA keeps the record, or ServiceLeaseForever.
func (r ServiceRecord) Lease() uint32 { return binary.BigEndian.Uint32(r[serviceRecordLease:]) }

// Name returns the service's name.
func (r ServiceRecord) Name() ServiceName { return ServiceName(r[serviceRecordName:serviceRecordData]) }

// Data returns what the service tells; its meaning is the service's.
func (r ServiceRecord) Data() [ServiceDataLen]byte {
	return [ServiceDataLen]byte(r[serviceRecordData:])
}

// ServiceRecordFields is a ServiceRecord in host order. The key, which protects a record, is always zero.
type ServiceRecordFields struct {
	ID    ServiceID
	GID   GID
	PKey  PKey
	Lease uint32
	Name  ServiceName
	Data  [ServiceDataLen]byte
}

// Fields returns all that PutServiceRecord writes.
func (r ServiceRecord) Fields() ServiceRecordFields {
	return ServiceRecordFields{ID: r.ID(), GID: r.GID(), PKey: r.PKey(), Lease: r.Lease(), Name: r.Name(), Data: r.Data()}
}

// PutServiceRecord writes f into the first ServiceRecordLen bytes of b and returns the view.
func PutServiceRecord(b []byte, f ServiceRecordFields) ServiceRecord {
	r := ServiceRecord(b[:ServiceRecordLen:ServiceRecordLen])
	clear(r)
	binary.BigEndian.PutUint64(r[serviceRecordID:], uint64(f.ID))
	copy(r[serviceRecordGID:], f.GID[:])
	binary.BigEndian.PutUint16(r[serviceRecordPKey:], uint16(f.PKey))
	binary.BigEndian.PutUint32(r[serviceRecordLease:], f.Lease)
	copy(r[serviceRecordName:], f.Name[:])
	copy(r[serviceRecordData:], f.Data[:])
	return r
}
