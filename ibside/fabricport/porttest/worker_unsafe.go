// SPDX-License-Identifier: Apache-2.0

// Package porttest acts as a worker: it calls a struct ib_port (ibside/port.h) as the datapath does, from Go. It is for
// tests only, and is a package because a _test.go file cannot use cgo.
package porttest

// #cgo pkg-config: libdpdk
// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
// #include <rte_mbuf.h>
// #include "../../port.h"
// static unsigned port_post(struct ib_port *d, const struct ib_send *s, unsigned n) { return d->post(d->self, s, n); }
// static unsigned port_poll(struct ib_port *d, struct ib_recv *r, unsigned n) { return d->poll(d->self, r, n); }
// static uint8_t port_arrived(struct ib_port *d, const struct ib_recv *r)
// {
// 	return r->flags & IB_RECV_ASK ? d->arrived(d->self, r) : IB_ARRIVAL_TAKEN;
// }
// static void port_arm(struct ib_port *d) { d->arm(d->self); }
// static void port_disarm(struct ib_port *d) { d->disarm(d->self); }
// static void port_free_completed(struct ib_port *d) { d->free(d->self); }
import "C"

import (
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside/ib"
)

// Flags of Send and Recv, as in port.h.
const (
	SendImm       = C.IB_SEND_IMM
	SendSolicited = C.IB_SEND_SOLICITED
	SendGRH       = C.IB_SEND_GRH
	SendFECN      = C.IB_SEND_FECN
	SendImmQPN    = C.IB_SEND_IMM_QPN

	RecvImm       = C.IB_RECV_IMM
	RecvGRH       = C.IB_RECV_GRH
	RecvSolicited = C.IB_RECV_SOLICITED
	RecvFECN      = C.IB_RECV_FECN
)

// What a port of several says of a message.
const (
	Taken     = C.IB_ARRIVAL_TAKEN
	Standby   = C.IB_ARRIVAL_STANDBY
	Duplicate = C.IB_ARRIVAL_DUPLICATE
)

// Send is struct ib_send.
type Send struct {
	Mbuf      dpdk.Mbuf
	DGID      ib.GID
	DLID      ib.LID
	SL        ib.SL
	HopLimit  uint8
	TClass    uint8
	Source    uint8
	Rate      ib.Rate
	FlowLabel uint32
	QP        uint32
	DestQP    ib.QPN
	QKey      ib.QKey
	Imm       uint32
	Flags     uint16
}

// Recv is struct ib_recv.
type Recv struct {
	Mbuf  dpdk.Mbuf
	QPN   ib.QPN
	SrcQP ib.QPN
	Imm   uint32
	SLID  ib.LID
	SL    ib.SL
	Flags uint8

	Arrival uint8 // Taken, Standby or Duplicate
}

// Post calls post. The mbufs of the sends it took are the port's.
func Post(ibPort unsafe.Pointer, sends []Send) int {
	if len(sends) == 0 {
		return 0
	}
	c := make([]C.struct_ib_send, len(sends))
	for i, s := range sends {
		c[i] = C.struct_ib_send{
			mbuf: (*C.struct_rte_mbuf)(s.Mbuf.Pointer()), qp: C.uint32_t(s.QP), dest_qpn: C.uint32_t(s.DestQP),
			dest_qkey: C.uint32_t(s.QKey), imm: C.uint32_t(s.Imm), flags: C.uint16_t(s.Flags),
			ah: C.struct_ib_ah{
				dlid: C.uint16_t(s.DLID), sl: C.uint8_t(s.SL), hop_limit: C.uint8_t(s.HopLimit),
				tclass: C.uint8_t(s.TClass), source: C.uint8_t(s.Source), static_rate: C.uint8_t(s.Rate), flow_label: C.uint32_t(s.FlowLabel),
			},
		}
		for k, b := range s.DGID {
			c[i].ah.dgid[k] = C.uint8_t(b)
		}
	}
	return int(C.port_post((*C.struct_ib_port)(ibPort), &c[0], C.uint(len(c))))
}

// Poll calls poll for up to n messages, and arrived for each, as if all would cross. Their mbufs are the caller's.
func Poll(ibPort unsafe.Pointer, n int) []Recv {
	if n == 0 {
		return nil
	}
	c := make([]C.struct_ib_recv, n)
	got := int(C.port_poll((*C.struct_ib_port)(ibPort), &c[0], C.uint(n)))
	out := make([]Recv, got)
	for i, r := range c[:got] {
		out[i] = Recv{
			Arrival: uint8(C.port_arrived((*C.struct_ib_port)(ibPort), &c[i])),
			Mbuf:    mbufOf(r.mbuf), QPN: ib.QPN(r.qpn), SrcQP: ib.QPN(r.src_qpn), Imm: uint32(r.imm),
			SLID: ib.LID(r.slid), SL: ib.SL(r.sl), Flags: uint8(r.flags),
		}
	}
	return out
}

// mbufOf is the dpdk.Mbuf of a struct rte_mbuf: it has no other field than the pointer.
func mbufOf(m *C.struct_rte_mbuf) dpdk.Mbuf { return *(*dpdk.Mbuf)(unsafe.Pointer(&m)) }

// Free calls free, as a worker does once a loop.
func Free(ibPort unsafe.Pointer) { C.port_free_completed((*C.struct_ib_port)(ibPort)) }

// Arm calls arm, and returns the descriptors that then wake the worker.
func Arm(ibPort unsafe.Pointer) (wakes []int) {
	p := (*C.struct_ib_port)(ibPort)
	C.port_arm(p)
	for _, fd := range p.wake {
		if fd >= 0 {
			wakes = append(wakes, int(fd))
		}
	}
	return wakes
}

// Disarm calls disarm.
func Disarm(ibPort unsafe.Pointer) { C.port_disarm((*C.struct_ib_port)(ibPort)) }

// Chain makes tail a further segment of head, which owns it from then on.
func Chain(head, tail dpdk.Mbuf) bool {
	return C.rte_pktmbuf_chain((*C.struct_rte_mbuf)(head.Pointer()), (*C.struct_rte_mbuf)(tail.Pointer())) == 0
}
