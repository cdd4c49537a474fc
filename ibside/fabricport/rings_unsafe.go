// SPDX-License-Identifier: Apache-2.0

package fabricport

// #cgo pkg-config: libdpdk
// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
// #include "rings.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside/ib"
)

// burst is how many messages cross to C or back at once.
const burst = 64

// slotLen is the largest payload of a datagram.
const slotLen = 4096

// end is one worker's end, and the space in which its messages cross.
type end struct {
	c *C.struct_port_end

	takeMu    sync.Mutex // one consumer of the sends
	sent      [burst]C.struct_port_sent
	sentBytes []byte // burst slots

	deliverMu sync.Mutex // one producer of the receives
	recv      [burst]C.struct_port_received
	recvBytes []byte // burst slots and GRH areas
}

func newEnd(pool *dpdk.Mempool, worker, depth int, lcore uint) (*end, error) {
	c, err := C.port_new((*C.struct_rte_mempool)(pool.Pointer()), C.uint(worker), C.uint(depth), C.uint(lcore))
	if c == nil {
		return nil, fmt.Errorf("fabricport: rings of %d messages for worker %d: no memory in the EAL (%v)", depth, worker, err)
	}
	return &end{c: c, sentBytes: make([]byte, burst*slotLen), recvBytes: make([]byte, burst*(areaLen+slotLen))}, nil
}

// checkPool makes sure that a descriptor and a message fit the pool's mbufs; it returns the largest payload.
func checkPool(pool *dpdk.Mempool) (int, error) {
	p := (*C.struct_rte_mempool)(pool.Pointer())
	if priv := int(C.port_pool_priv(p)); priv < C.PORT_PRIV_SIZE {
		return 0, fmt.Errorf("fabricport: the mempool gives its mbufs %d private bytes; make it with %d", priv, C.PORT_PRIV_SIZE)
	}
	const tail = 3 + ib.ICRCLen // the worker writes pad and ICRC behind the payload
	room := int(C.port_pool_room(p)) - areaLen - tail
	if room < ib.MTU256.Bytes() {
		return 0, fmt.Errorf("fabricport: the mempool's mbufs hold %d bytes of payload; the smallest MTU is 256", room)
	}
	return min(room, slotLen), nil
}

func (e *end) pointer() unsafe.Pointer { return unsafe.Pointer(&e.c.ib_port) }

func (e *end) free() {
	C.port_free(e.c)
	e.c = nil
}

func (e *end) pendingSends() int { return int(C.port_pending_sends(e.c)) }

func (e *end) pendingReceives() int { return int(C.port_pending_recvs(e.c)) }

func (e *end) postedFD() uintptr { return uintptr(e.c.sent.fd) }

func (e *end) armSends() { C.port_arm_sends(e.c) }

func (e *end) disarmSends() { C.port_disarm_sends(e.c) }

// take fills at most burst messages into to.
func (e *end) take(to []Sent) int {
	n := int(C.port_take(e.c, &e.sent[0], C.uint(min(len(to), burst)), (*C.uint8_t)(&e.sentBytes[0]), slotLen))
	total := 0
	for i := range n {
		total += min(int(e.sent[i].len), slotLen)
	}
	slab := make([]byte, 0, total)
	for i := range n {
		from := len(slab)
		slot := e.sentBytes[i*slotLen:]
		slab = append(slab, slot[:min(int(e.sent[i].len), slotLen)]...)
		to[i] = sentOf(&e.sent[i], slab[from:len(slab):len(slab)])
	}
	return n
}

func sentOf(s *C.struct_port_sent, payload []byte) Sent {
	out := Sent{
		QP: uint32(s.qp), DLID: ib.LID(s.ah.dlid), SL: ib.SL(s.ah.sl), Source: uint8(s.ah.source),
		HopLimit: uint8(s.ah.hop_limit), TClass: uint8(s.ah.tclass), FlowLabel: uint32(s.ah.flow_label), Rate: ib.Rate(s.ah.static_rate),
		DestQP: ib.QPN(s.dest_qpn), QKey: ib.QKey(s.dest_qkey), Imm: uint32(s.imm),
		HasImm: s.flags&C.IB_SEND_IMM != 0, Solicited: s.flags&C.IB_SEND_SOLICITED != 0,
		HasGRH: s.flags&C.IB_SEND_GRH != 0, FECN: s.flags&C.IB_SEND_FECN != 0,
		Len: int(s.len), Payload: payload,
	}
	for i := range out.DGID {
		out.DGID[i] = byte(s.ah.dgid[i])
	}
	return out
}

// deliver hands at most burst messages to the worker, and says what stopped it.
func (e *end) deliver(msgs []Received) (int, string) {
	msgs = msgs[:min(len(msgs), burst)]
	if len(msgs) == 0 {
		return 0, ""
	}
	at := 0
	for i := range msgs {
		n := copy(e.recvBytes[at:], msgs[i].GRH[:])
		n += copy(e.recvBytes[at+n:], msgs[i].Payload)
		e.recv[i] = receivedOf(&msgs[i], at, n)
		at += n
	}
	var why C.uint
	n := C.port_deliver(e.c, &e.recv[0], C.uint(len(msgs)), (*C.uint8_t)(&e.recvBytes[0]), &why)
	switch why {
	case C.PORT_RING_FULL:
		return int(n), DropRingFull
	case C.PORT_NO_MBUF:
		return int(n), DropNoMbuf
	}
	return int(n), ""
}

func receivedOf(r *Received, offset, length int) C.struct_port_received {
	out := C.struct_port_received{
		offset: C.uint32_t(offset), len: C.uint32_t(length), qpn: C.uint32_t(r.QPN), src_qpn: C.uint32_t(r.SrcQP),
		imm: C.uint32_t(r.Imm), slid: C.uint16_t(r.SLID), sl: C.uint8_t(r.SL),
	}
	flag := func(is bool, bit C.uint8_t) {
		if is {
			out.flags |= bit
		}
	}
	flag(r.HasImm, C.IB_RECV_IMM)
	flag(r.HasGRH, C.IB_RECV_GRH)
	flag(r.Solicited, C.IB_RECV_SOLICITED)
	flag(r.FECN, C.IB_RECV_FECN)
	return out
}

// Pointer returns the struct ib_port of a worker, for its C. It is valid until Close.
func (r *Rings) Pointer(worker int) unsafe.Pointer { return r.ends[worker].pointer() }

// Pointer implements ibside.OpenPort.
func (p *Port) Pointer(worker int) unsafe.Pointer { return p.rings.Pointer(worker) }
