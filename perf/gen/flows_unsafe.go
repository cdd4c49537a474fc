// SPDX-License-Identifier: Apache-2.0

package gen

// #include <stdlib.h>
// #include "gen.h"
// static struct gen_flow *new_flows(unsigned n)
// {
//	void *p = aligned_alloc(64, n * sizeof(struct gen_flow));
//	return p ? memset(p, 0, n * sizeof(struct gen_flow)) : p;
// }
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"causeway/lcore"
)

// Flows are what generators send, in C memory until Free.
type Flows struct {
	c     *C.struct_gen_flow
	n     int
	seen  *C.struct_gen_seen
	order [C.GEN_SIDES]**C.struct_gen_flow
	many  [C.GEN_SIDES]int // entries of order
	sizes map[int]*C.struct_gen_size
}

// NewFlows makes flows, which are numbered by their index. Those of a side are sent in turn, in order.
func NewFlows(flows []Flow) (*Flows, error) {
	if len(flows) == 0 {
		return nil, errors.New("gen: no flows; there is nothing to send")
	}
	lcore.ICRCVersion() // chooses and links the ICRC, which make.c and receive.c call
	f := &Flows{n: len(flows), c: C.new_flows(C.unsigned(len(flows))), sizes: map[int]*C.struct_gen_size{}}
	f.seen = (*C.struct_gen_seen)(C.calloc(C.size_t(len(flows)), C.sizeof_struct_gen_seen))
	for side := range f.order {
		f.order[side] = (**C.struct_gen_flow)(C.calloc(C.size_t(len(flows)), C.size_t(unsafe.Sizeof(uintptr(0)))))
		if f.order[side] == nil {
			f.Free()
			return nil, errors.New("gen: no memory for flows")
		}
	}
	if f.c == nil || f.seen == nil {
		f.Free()
		return nil, errors.New("gen: no memory for flows")
	}
	c := f.all()
	for i := range flows {
		if err := flows[i].check(); err != nil {
			f.Free()
			return nil, fmt.Errorf("gen: flow %d: %w", i, err)
		}
		f.put(&c[i], &flows[i], i)
	}
	f.SetOrder(nil)
	return f, nil
}

func (f *Flows) all() []C.struct_gen_flow { return unsafe.Slice(f.c, f.n) }

func (f *Flows) put(c *C.struct_gen_flow, flow *Flow, id int) {
	for i, b := range flow.Head {
		c.head[i] = C.uint8_t(b)
	}
	c.head_len, c.net, c.bth = C.uint16_t(len(flow.Head)), C.uint16_t(flow.Net), C.uint16_t(flow.BTH)
	c.icrc, c.from, c.id = C.uint8_t(flow.Network), C.uint8_t(flow.From), C.uint32_t(id)
	c.size = f.size(flow.Payload)
	c.recv = C.struct_ib_recv{qpn: C.uint32_t(flow.Recv.QPN), src_qpn: C.uint32_t(flow.Recv.SrcQPN), slid: C.uint16_t(flow.Recv.SLID)}
	if flow.Recv.GRH {
		c.recv.flags = C.IB_RECV_GRH
	}
	w := &flow.Want
	c.want = C.struct_gen_want{
		qpn: C.uint32_t(w.QPN), qkey: C.uint32_t(w.QKey), src: C.uint32_t(w.Src), lid: C.uint16_t(w.LID), side: C.uint8_t(w.Side),
		unchanged: C.bool(w.Unchanged),
	}
	for i, b := range w.Addr {
		c.want.addr[i] = C.uint8_t(b)
	}
	for i, b := range w.MAC {
		c.want.mac[i] = C.uint8_t(b)
	}
}

func (f *Flows) size(n int) *C.struct_gen_size {
	if s := f.sizes[n]; s != nil {
		return s
	}
	s := (*C.struct_gen_size)(C.calloc(1, C.sizeof_struct_gen_size))
	rest, move := restCRC(unsafe.Slice((*byte)(C.gen_filler()), MaxPayload), n)
	s.len, s.pad, s.rest = C.uint32_t(n), C.uint32_t(-n&3), C.uint32_t(rest)
	for i := range move {
		for b, v := range move[i] {
			s.move[i][b] = C.uint32_t(v)
		}
	}
	f.sizes[n] = s
	return s
}

// SetOrder sets which flows are sent and in which order; one may occur more than once; nil: all. Of each side at most
// Len are used.
func (f *Flows) SetOrder(flows []int) {
	f.many = [C.GEN_SIDES]int{}
	c := f.all()
	add := func(i int) {
		side := c[i].from
		if f.many[side] < f.n {
			unsafe.Slice(f.order[side], f.n)[f.many[side]] = &c[i]
			f.many[side]++
		}
	}
	if flows == nil {
		for i := range c {
			add(i)
		}
	}
	for _, i := range flows {
		add(i)
	}
}

// Len is how many flows there are.
func (f *Flows) Len() int { return f.n }

// Frame makes the next frame of a RoCE flow, stamped with the time now.
func (f *Flows) Frame(flow int, now uint64) []byte {
	c := &f.all()[flow]
	out := make([]byte, C.gen_frame_len(c))
	C.gen_frame(c, (*C.uint8_t)(&out[0]), C.uint64_t(now))
	return out
}

// Seen returns how many messages of a flow arrived in the last trial, and when the first and the last did, by the clock
// of Now.
func (f *Flows) Seen(flow int) (packets, first, last uint64) {
	s := &unsafe.Slice(f.seen, f.n)[flow]
	return uint64(s.packets), uint64(s.first), uint64(s.last)
}

// Free frees the flows. No generator may use them any more.
func (f *Flows) Free() {
	for side := range f.order {
		C.free(unsafe.Pointer(f.order[side]))
	}
	for _, s := range f.sizes {
		C.free(unsafe.Pointer(s))
	}
	C.free(unsafe.Pointer(f.seen))
	C.free(unsafe.Pointer(f.c))
	*f = Flows{}
}
