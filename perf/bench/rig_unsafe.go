// SPDX-License-Identifier: Apache-2.0

package bench

// #include <stdlib.h>
// #include "loops.h"
// #include "member.h"
// #include "rig.h"
// #include "../../lcore/setup.h"
import "C"

import (
	"errors"
	"fmt"
	"math/bits"
	"syscall"
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// A lane is a worker, or another loop in its place, and the packets that circulate through it.
//
//	RoCE to IB:  ring ─▶ Ethernet port ─▶ worker ─▶ IB port ─▶ ring
//	IB to RoCE:  ring ─▶ IB port ─▶ worker ─▶ Ethernet port ─▶ ring        the Ethernet port's receive ring stays empty
type lane struct {
	rig        *rig
	number     int
	pool       *dpdk.Mempool
	ring, idle *dpdk.Ring
	port       uint16
	ibPort     *C.struct_null_port
	w          *lcore.Worker
}

var serial int // makes names unique in DPDK

func name(what string) string {
	serial++
	return fmt.Sprintf("%s%d", what, serial)
}

func (r *rig) addLane() error {
	l := &lane{rig: r, number: len(r.lanes)}
	r.lanes = append(r.lanes, l)
	for _, step := range []func() error{l.makePool, l.makeRings, l.makePort, l.makeIBPort, l.makeWorker, l.load} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) makePool() (err error) {
	if w := l.rig.shape.whole; w != nil {
		l.pool = w.pool
		return nil
	}
	if l.pool, err = newPool(name("bench")); err == nil {
		l.rig.onClose(l.pool.Free)
	}
	return err
}

func (l *lane) makeRings() error {
	for _, into := range []**dpdk.Ring{&l.ring, &l.idle} {
		ring, err := dpdk.NewRing(name("benchring"), 2*inFlight-1, false)
		if err != nil {
			return err
		}
		*into = ring
		l.rig.onClose(func() error { ring.Free(); return nil })
	}
	return nil
}

func (l *lane) makePort() error {
	rx := l.ring
	if l.rig.direction == lcore.IBToRoCE {
		rx = l.idle
	}
	c := C.CString(name("bench"))
	defer C.free(unsafe.Pointer(c))
	id := C.ring_port(c, (*C.struct_rte_ring)(rx.Pointer()), l.cRing(), (*C.struct_rte_mempool)(l.pool.Pointer()))
	if id < 0 {
		return fmt.Errorf("bench: make a ring port: %w", syscall.Errno(-id))
	}
	l.rig.onClose(func() error { C.ring_port_close(C.uint16_t(id)); return nil })
	l.port = uint16(id)
	return nil
}

func (l *lane) makeWorker() (err error) {
	at := unsafe.Pointer(&l.ibPort.ib_port)
	if w := l.rig.shape.whole; w != nil {
		at = w.port()
	}
	l.w, err = l.rig.datapath.NewWorker(lcore.WorkerConfig{
		Port: l.port, IBPort: at, MaxGroups: max(1, l.rig.shape.groups),
	})
	return err
}

// makeIBPort makes the IB port, with what packets look like and how their addresses change.
func (l *lane) makeIBPort() error {
	if l.ibPort = C.null_port_new(); l.ibPort == nil {
		return errors.New("bench: no memory for a port")
	}
	l.rig.onClose(func() error {
		C.free(unsafe.Pointer(l.ibPort.stream.steps))
		C.null_port_free(l.ibPort)
		return nil
	})
	s := l.rig.shape
	p := s.packet(l.number, l.rig.size)
	f, where := p.AppendTo(nil), s.layout()
	l.ibPort.frame = C.struct_frame_layout{
		len: C.uint32_t(len(f)), from_at: C.uint32_t(where.from), to_at: C.uint32_t(where.to),
		icrc_at: C.uint32_t(len(f) - ib.ICRCLen), sum_at: C.uint32_t(where.sum),
	}
	if where.fromIP {
		l.ibPort.frame.from_summed = 0xffff_ffff
	}
	l.ibPort.message = C.struct_message_layout{
		len: C.uint32_t(ib.GRHLen + l.rig.size), qpn: C.uint32_t(proxyQPN + l.number*s.proxyQPs()), src_qpn: nodeQPN,
		to_group: C.bool(s.multicast()),
	}
	if s.multicast() {
		l.ibPort.message.qpn = C.uint32_t(ib.QPMulticast)
	}
	for i, w := range s.grh(l.rig.size) {
		l.ibPort.message.grh[i] = C.uint64_t(w)
	}
	if l.rig.direction == lcore.RoCEToIB {
		l.ibPort.frames = l.cRing()
		return l.setStream(where.stream(f, uint32(s.sources()-1), uint32(s.destinations()-1)))
	}
	l.ibPort.messages = l.cRing()
	to := s.proxyQPs()
	if s.multicast() {
		to = s.groups
	}
	return l.setStream(where.stream(f, uint32(s.nodes-1), uint32(to-1)))
}

// setStream copies the steps to the IB port, in wire order.
func (l *lane) setStream(all []step) error {
	p := C.calloc(C.size_t(len(all)), C.sizeof_struct_step)
	if p == nil {
		return errors.New("bench: no memory for a stream")
	}
	c := unsafe.Slice((*C.struct_step)(p), len(all))
	for i, s := range all {
		c[i] = C.struct_step{
			from: C.uint32_t(bits.ReverseBytes32(s.from)), to: C.uint32_t(bits.ReverseBytes32(s.to)), icrc: C.uint32_t(s.icrc),
		}
	}
	l.ibPort.stream = C.struct_stream{steps: (*C.struct_step)(p), n: C.uint32_t(len(all))}
	return nil
}

// load fills the ring. All packets start with the same addresses; the first trip scatters them.
func (l *lane) load() error {
	data := l.rig.shape.data(l.number, l.rig.direction, l.rig.size)
	for range l.rig.shape.inRing(l.rig.direction) {
		rc := C.ring_put((*C.struct_rte_mempool)(l.pool.Pointer()), l.cRing(), unsafe.Pointer(&data[0]), C.uint32_t(len(data)))
		if rc != 0 {
			return fmt.Errorf("bench: fill a ring: %w", syscall.Errno(-rc))
		}
	}
	return nil
}

// pause stops the IB port from giving messages, or lets it give them again. A worker may be running.
func (l *lane) pause(on bool) { C.null_port_pause(l.ibPort, C.bool(on)) }

// setVirtualMAC makes the bridge of the lane's worker, which must not run, a member of the fleet that has this one; of none,
// if it is zero. The worker has the datapath's lease then.
func (l *lane) setVirtualMAC(mac frame.MAC) {
	C.member_of((*C.struct_worker)(l.w.Pointer()), mac48(mac))
}

// mac48 returns a MAC address as a number, the first byte highest.
func mac48(m frame.MAC) (n C.uint64_t) {
	for _, x := range m {
		n = n<<8 | C.uint64_t(x)
	}
	return n
}

// takeBack moves packets that other workers have handed to this lane's worker into the lane's ring, and returns how
// many. No worker may run.
func (l *lane) takeBack() int {
	return int(C.ring_move((*C.struct_worker)(l.w.Pointer()).requeue, l.cRing()))
}

// empty frees all packets in the ring.
func (l *lane) empty() { C.ring_move(l.cRing(), nil) }

func (l *lane) cRing() *C.struct_rte_ring { return (*C.struct_rte_ring)(l.ring.Pointer()) }
