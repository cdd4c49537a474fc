// SPDX-License-Identifier: Apache-2.0

package verbs

// #include "sidr.h"
import "C"

import (
	"net/netip"
	"unsafe"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// cmID is an rdma_cm_id that listens or sends a request.
type cmID struct {
	ch    *channel
	token uint64 // 0: a request's id has none of its own
	c     *C.struct_rdma_cm_id
}

func (id *cmID) accept(qpn ib.QPN, private []byte) error {
	return errno(C.verbs_sidr_accept(id.c, C.uint32_t(qpn), bytesOf(private), C.uint8_t(len(private))))
}

func (id *cmID) reject(private []byte) error {
	return errno(C.verbs_sidr_reject(id.c, bytesOf(private), C.uint8_t(len(private))))
}

// destroy waits until nextCM has acknowledged the id's events, which it does at once.
func (id *cmID) destroy() {
	id.ch.unregister(id.token)
	if id.c != nil {
		C.rdma_destroy_id(id.c)
		id.c = nil
	}
}

// bytesOf returns the address of b for a call of C.
func bytesOf(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }

// open begins to listen.
func (l *listener) open(port uint16) error {
	id := &cmID{ch: l.sidr.cm}
	l.id = id
	id.token = id.ch.register(l)
	err := errno(C.verbs_sidr_listen(id.ch.c, C.uint64_t(id.token), C.uint16_t(port), &id.c))
	if err != nil {
		id.destroy()
	}
	return err
}

// handleCM takes a request.
func (l *listener) handleCM(_ *Port, ev *C.struct_verbs_cm_event) {
	s := &ev.sidr
	if s.request == nil {
		return
	}
	id := &cmID{ch: l.sidr.cm, c: s.request}
	s.request = nil // taken
	l.take(ibside.ServiceRequest{
		From: addrOf(&s.peer), To: addrOf(&s.local), SrcPort: uint16(s.peer.port), Port: uint16(s.local.port),
		PKey: ib.PKey(s.pkey), Private: privateOf(s),
	}, id, l.sidr.isHere(s))
}

// isHere reports whether an id is on the Port's port.
func (s *sidrPorts) isHere(c *C.struct_verbs_sidr) bool {
	return C.GoString(&c.device[0]) == s.cfg.Device && int(c.device_port) == s.cfg.Port
}

func privateOf(s *C.struct_verbs_sidr) []byte {
	return C.GoBytes(unsafe.Pointer(&s.data[0]), C.int(s.len))
}

func addrOf(a *C.struct_verbs_address) netip.Addr { return gidOf(&a.ip).Addr().Unmap() }

func setAddress(a *C.struct_verbs_address, to netip.AddrPort, scope uint32) {
	gidTo(&a.ip, ib.GIDFromAddr(to.Addr()))
	a.port, a.scope = C.uint16_t(to.Port()), C.uint32_t(scope)
}

// connecting is a connection under way.
type connecting struct {
	cmID
	events chan connectEvent
}

// resolveAddress begins to connect, with the look-up of the peer's address.
func (s *sidrPorts) resolveAddress(from, to netip.Addr, port uint16, info *PortInfo) (*connecting, error) {
	id := &connecting{cmID: cmID{ch: s.cm}, events: make(chan connectEvent, 8)} // one for each step; others are lost
	id.token = s.cm.register(id)
	var src, dst C.struct_verbs_address
	source := &src
	if from.IsValid() {
		setAddress(&src, netip.AddrPortFrom(from, 0), scopeOf(info.GIDs, from))
	} else {
		source = nil
	}
	setAddress(&dst, netip.AddrPortFrom(to, port), scopeOf(info.GIDs, to))
	err := errno(C.verbs_sidr_resolve(s.cm.c, C.uint64_t(id.token), source, &dst, C.uint(resolveTimeout.Milliseconds()), &id.c))
	if err != nil {
		id.destroy()
		return nil, err
	}
	return id, nil
}

func (id *connecting) resolveRoute() error {
	return errno(C.verbs_sidr_route(id.c, C.uint(resolveTimeout.Milliseconds())))
}

func (id *connecting) connect(private []byte) error {
	return errno(C.verbs_sidr_connect(id.c, bytesOf(private), C.uint8_t(len(private))))
}

var connectSteps = map[C.int32_t]connectStep{
	C.RDMA_CM_EVENT_ADDR_RESOLVED: stepAddress, C.RDMA_CM_EVENT_ROUTE_RESOLVED: stepRoute, C.RDMA_CM_EVENT_ESTABLISHED: stepEstablished,
	C.RDMA_CM_EVENT_ADDR_ERROR: stepNoPeer, C.RDMA_CM_EVENT_ROUTE_ERROR: stepNoPeer, C.RDMA_CM_EVENT_UNREACHABLE: stepRejected,
	C.RDMA_CM_EVENT_REJECTED: stepRejected, C.RDMA_CM_EVENT_CONNECT_ERROR: stepRejected, C.RDMA_CM_EVENT_DEVICE_REMOVAL: stepNoDevice,
}

// handleCM passes an event to connectOnce.
func (id *connecting) handleCM(p *Port, ev *C.struct_verbs_cm_event) {
	s := &ev.sidr
	out := connectEvent{
		step: connectSteps[ev._type], name: eventName(ev._type), status: int(ev.status), here: p.sidr.isHere(s), pkey: ib.PKey(s.pkey),
		ServiceAnswer: ibside.ServiceAnswer{QPN: ib.QPN(s.qpn), QKey: ib.QKey(ev.qkey), Private: privateOf(s)},
	}
	select {
	case id.events <- out:
	default:
	}
}

func eventName(t C.int32_t) string { return C.GoString(C.rdma_event_str(uint32(t))) }
