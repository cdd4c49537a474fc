// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"bytes"
	"encoding/binary"
)

// Lengths of a ServiceRecord and of its larger fields.
const (
	ServiceRecordLen = 176
	ServiceKeyLen    = 16
	ServiceNameLen   = 64
	ServiceDataLen   = 64
)

// ServiceLeaseForever is a lease that does not end.
const ServiceLeaseForever uint32 = 0xffffffff

// Components of a ServiceRecord (IBTA vol 1 §15.2.5.14). The data has one for each of its words: 16 of 8 bits, 8 of 16,
// 4 of 32 and 2 of 64.
const (
	ServiceRecordID uint64 = 1 << iota
	ServiceRecordGID
	ServiceRecordPKey
	_
	ServiceRecordLease
	ServiceRecordKey
	ServiceRecordName

	ServiceRecordData uint64 = (1<<30 - 1) << 7

	// ServiceRecordWhich identifies a record.
	ServiceRecordWhich = ServiceRecordID | ServiceRecordGID | ServiceRecordPKey
)

const (
	serviceID    = 0
	serviceGID   = 8
	servicePKey  = 24 // then reserved 16
	serviceLease = 28
	serviceKey   = 32
	serviceName  = 48
	serviceData  = 112
)

// ServiceRecord is a view of an SA ServiceRecord (IBTA vol 1 §15.2.5.14), in wire order: a service and the port that
// offers it. It aliases its packet.
type ServiceRecord []byte

// AsServiceRecord returns the first ServiceRecordLen bytes of b; false when b is too short.
func AsServiceRecord(b []byte) (ServiceRecord, bool) {
	if len(b) < ServiceRecordLen {
		return nil, false
	}
	return ServiceRecord(b[:ServiceRecordLen:ServiceRecordLen]), true
}

// ID returns the service ID.
func (r ServiceRecord) ID() ServiceID { return ServiceID(binary.BigEndian.Uint64(r[serviceID:])) }

// GID returns the port that offers the service.
func (r ServiceRecord) GID() GID { return GID(r[serviceGID:servicePKey]) }

// PKey returns the partition.
func (r ServiceRecord) PKey() PKey { return PKey(binary.BigEndian.Uint16(r[servicePKey:])) }

// LeaseSeconds returns how long the record is kept, ServiceLeaseForever for ever.
func (r ServiceRecord) LeaseSeconds() uint32 { return binary.BigEndian.Uint32(r[serviceLease:]) }

// Key returns the key that a change of the record requires.
func (r ServiceRecord) Key() [ServiceKeyLen]byte { return [ServiceKeyLen]byte(r[serviceKey:]) }

// NameBytes returns the whole field of the name; bytes after the first zero byte are not part of the name.
func (r ServiceRecord) NameBytes() [ServiceNameLen]byte { return [ServiceNameLen]byte(r[serviceName:]) }

// Data returns the service's own data.
func (r ServiceRecord) Data() [ServiceDataLen]byte { return [ServiceDataLen]byte(r[serviceData:]) }

// ServiceFields is a ServiceRecord in host order; Data stays as it is on the wire.
type ServiceFields struct {
	ID           ServiceID
	GID          GID
	PKey         PKey
	LeaseSeconds uint32
	Key          [ServiceKeyLen]byte
	NameBytes    [ServiceNameLen]byte // see ServiceName
	Data         [ServiceDataLen]byte
}

// ServiceName returns the field of a name, truncated to fit with a terminating zero byte.
func ServiceName(s string) (name [ServiceNameLen]byte) {
	copy(name[:ServiceNameLen-1], s)
	return name
}

// Name returns the name, up to its first zero byte.
func (f *ServiceFields) Name() string {
	name, _, _ := bytes.Cut(f.NameBytes[:], []byte{0})
	return string(name)
}

// Fields returns all that PutServiceRecord writes.
func (r ServiceRecord) Fields() ServiceFields {
	return ServiceFields{
		ID: r.ID(), GID: r.GID(), PKey: r.PKey(), LeaseSeconds: r.LeaseSeconds(), Key: r.Key(), NameBytes: r.NameBytes(),
		Data: r.Data(),
	}
}

// PutServiceRecord writes f into the first ServiceRecordLen bytes of b and returns the view.
func PutServiceRecord(b []byte, f ServiceFields) ServiceRecord {
	r := ServiceRecord(b[:ServiceRecordLen:ServiceRecordLen])
	clear(r)
	binary.BigEndian.PutUint64(r[serviceID:], uint64(f.ID))
	copy(r[serviceGID:], f.GID[:])
	binary.BigEndian.PutUint16(r[servicePKey:], uint16(f.PKey))
	binary.BigEndian.PutUint32(r[serviceLease:], f.LeaseSeconds)
	copy(r[serviceKey:], f.Key[:])
	copy(r[serviceName:], f.NameBytes[:])
	copy(r[serviceData:], f.Data[:])
	return r
}
