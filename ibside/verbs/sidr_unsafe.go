// SPDX-License-Identifier: Apache-2.0

package verbs

// #include "sidr.h"
import "C"

import (
	"net/netip"
	"unsafe"

	"causeway/ibside/ib"
)

// cmID is an rdma_cm_id that listens or asks.
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

// destroy waits for the events of the id that nextCM has in hand, which gives them back at once.
func (id *cmID) destroy() {
	id.ch.forget(id.token)
	if id.c != nil {
		C.rdma_destroy_id(id.c)
		id.c = nil
	}
}

// bytesOf is where C finds b, for the time of a call.
func bytesOf(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }

// open begins to listen.
func (l *Listener) open(port uint16) error {
	id := &cmID{ch: l.d.cm}
	l.id = id
	id.token = id.ch.register(l)
	err := errno(C.verbs_sidr_listen(id.ch.c, C.uint64_t(id.token), C.uint16_t(port), &id.c))
	if err != nil {
		id.destroy()
	}
	return err
}

// happened takes a request.
func (l *Listener) happened(d *Door, ev *C.struct_verbs_cm_event) {
	s := &ev.sidr
	if s.request == nil {
		return
	}
	id := &cmID{ch: d.cm, c: s.request}
	s.request = nil // taken
	l.take(Request{
		Peer: addrPort(&s.peer), Local: addrPort(&s.local).Addr(), Port: uint16(s.local.port),
		PeerGID: gidOf(&s.dgid), LocalGID: gidOf(&s.sgid), PKey: ib.PKey(s.pkey), Private: privateOf(s),
	}, id, d.isHere(s))
}

// isHere reports whether an id is on the door's port.
func (d *Door) isHere(s *C.struct_verbs_sidr) bool {
	return C.GoString(&s.device[0]) == d.cfg.Device && int(s.device_port) == d.cfg.Port
}

func privateOf(s *C.struct_verbs_sidr) []byte {
	return C.GoBytes(unsafe.Pointer(&s.data[0]), C.int(s.len))
}

func addrPort(a *C.struct_verbs_address) netip.AddrPort {
	return netip.AddrPortFrom(gidOf(&a.ip).Addr(), uint16(a.port))
}

func setAddress(a *C.struct_verbs_address, to netip.AddrPort, scope uint32) {
	gidTo(&a.ip, ib.GIDFromAddr(to.Addr()))
	a.port, a.scope = C.uint16_t(to.Port()), C.uint32_t(scope)
}

// connecting is a connection on its way.
type connecting struct {
	cmID
	events chan connectEvent
}

// resolveAddress begins to connect, with the look-up of the peer's address.
func (d *Door) resolveAddress(from, to netip.Addr, port uint16, p *PortInfo) (*connecting, error) {
	id := &connecting{cmID: cmID{ch: d.cm}, events: make(chan connectEvent, 8)} // one for each step; others are lost
	id.token = d.cm.register(id)
	var src, dst C.struct_verbs_address
	source := &src
	if from.IsValid() {
		setAddress(&src, netip.AddrPortFrom(from, 0), scopeOf(p.GIDs, from))
	} else {
		source = nil
	}
	setAddress(&dst, netip.AddrPortFrom(to, port), scopeOf(p.GIDs, to))
	err := errno(C.verbs_sidr_resolve(d.cm.c, C.uint64_t(id.token), source, &dst, C.uint(resolveTimeout.Milliseconds()), &id.c))
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
	C.RDMA_CM_EVENT_ADDR_ERROR: stepNoPeer, C.RDMA_CM_EVENT_ROUTE_ERROR: stepNoPeer, C.RDMA_CM_EVENT_UNREACHABLE: stepRefused,
	C.RDMA_CM_EVENT_REJECTED: stepRefused, C.RDMA_CM_EVENT_CONNECT_ERROR: stepRefused, C.RDMA_CM_EVENT_DEVICE_REMOVAL: stepNoDevice,
}

// happened passes an event to whoever waits for it.
func (id *connecting) happened(d *Door, ev *C.struct_verbs_cm_event) {
	s := &ev.sidr
	out := connectEvent{
		step: connectSteps[ev._type], name: eventName(ev._type), status: int(ev.status), here: d.isHere(s),
		Connection: Connection{QPN: ib.QPN(s.qpn), QKey: ib.QKey(ev.qkey), Private: privateOf(s), Route: Route{
			SGID: gidOf(&s.sgid), DGID: gidOf(&s.dgid), HasGRH: s.is_global != 0, DLID: ib.LID(ev.lid), SL: ib.SL(ev.sl), MTU: ib.MTU(s.mtu),
			HopLimit: uint8(ev.hop_limit), TClass: uint8(ev.tclass), FlowLabel: uint32(ev.flow_label),
		}},
	}
	select {
	case id.events <- out:
	default:
	}
}

func eventName(t C.int32_t) string { return C.GoString(C.rdma_event_str(uint32(t))) }
