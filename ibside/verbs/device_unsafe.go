// SPDX-License-Identifier: Apache-2.0

package verbs

// #cgo pkg-config: libdpdk libibverbs libmlx5 librdmacm
// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
// #include <stdlib.h>
// #include "manage.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/ib"
)

// areaLen is the 40-byte area before every payload received.
const areaLen = C.IB_GRH_LEN

// errno returns the error for a result of the C side.
func errno(n C.int) error {
	if n == 0 {
		return nil
	}
	return syscall.Errno(n)
}

// device is a port, opened.
type device struct{ c *C.struct_verbs_device }

func openDevice(name string, port int) (*device, error) {
	const room = 512
	cname, names := C.CString(name), (*C.char)(C.calloc(1, room))
	defer C.free(unsafe.Pointer(cname))
	defer C.free(unsafe.Pointer(names))
	d := &device{}
	err := errno(C.verbs_device_open(cname, C.uint(port), &d.c, names, room))
	there := C.GoString(names)
	switch {
	case err == nil:
		return d, nil
	case there == "":
		return nil, fmt.Errorf("verbs: device %q: this machine has no RDMA devices; load the card's driver (modprobe mlx5_ib), and see \"causeway devices\"", name)
	case errors.Is(err, syscall.ENODEV):
		return nil, fmt.Errorf("verbs: device %q is not there; this machine has %s", name, there)
	case errors.Is(err, syscall.EINVAL):
		return nil, fmt.Errorf("verbs: device %q has no port %d; ports are counted from 1", name, port)
	}
	return nil, fmt.Errorf("verbs: open %s:%d: %w; /dev/infiniband must be readable and writable", name, port, err)
}

func (d *device) close() error { return errno(C.verbs_device_close(d.c)) }

func (d *device) poolRoom(pool *dpdk.Mempool) int {
	return int(C.verbs_pool_room((*C.struct_rte_mempool)(pool.Pointer())))
}

func (d *device) register(pool *dpdk.Mempool) error {
	return errno(C.verbs_device_register(d.c, (*C.struct_rte_mempool)(pool.Pointer())))
}

// useDirect has workers use the device's queues without the provider's library, if it is of the kind that the port
// knows.
func (d *device) useDirect() { d.c.direct = C.verbs_direct_supported(d.c) }

// blocksOwnMulticast reports whether queue pairs get none of the multicast back that they have sent themselves. It is
// known once there is a worker.
func (d *device) blocksOwnMulticast() bool { return bool(d.c.blocks_own_multicast) }

func (d *device) readLimits() (limits, error) {
	var l C.struct_verbs_limits
	if err := errno(C.verbs_limits_read(d.c, &l)); err != nil {
		return limits{}, err
	}
	return limits{receives: int(l.receives), completions: int(l.completions), qps: int(l.qps)}, nil
}

func (d *device) asyncFD() int { return int(d.c.ctx.async_fd) }

func (d *device) readPort() (PortInfo, error) {
	var p C.struct_verbs_port
	if err := errno(C.verbs_port_read(d.c, &p)); err != nil {
		return PortInfo{}, err
	}
	out := PortInfo{
		Info: ibside.Info{MTU: ib.MTU(p.mtu), Ethernet: bool(d.c.ethernet)},
		LID:  ib.LID(p.lid), LMC: uint8(p.lmc) & ib.MaxLMC, Mbps: linkMbps(uint8(p.width), uint8(p.speed)),
		GRH: bool(d.c.grh), Active: p.state == C.IBV_PORT_ACTIVE, State: stateOf(p.state),
	}
	for i := range p.pkeys {
		var k C.uint16_t
		if err := errno(C.verbs_pkey_read(d.c, C.uint(i), &k)); err != nil {
			return PortInfo{}, err
		}
		out.PKeys = append(out.PKeys, ib.PKey(k))
	}
	for len(out.PKeys) > 1 && out.PKeys[len(out.PKeys)-1] == 0 { // empty places at the end
		out.PKeys = out.PKeys[:len(out.PKeys)-1]
	}
	var err error
	out.GIDs, err = d.readGIDs(int(p.gids))
	return out, err
}

// stateOf names a port's state (IBTA vol 1 §14.2.5.6, PortState).
func stateOf(state C.uint32_t) string {
	switch state {
	case C.IBV_PORT_ACTIVE:
		return stateActive
	case C.IBV_PORT_INIT:
		return "INIT"
	case C.IBV_PORT_ARMED:
		return "ARMED"
	}
	return "DOWN"
}

func (d *device) readGIDs(size int) ([]GIDEntry, error) {
	if size == 0 {
		return nil, nil
	}
	table := make([]C.struct_verbs_gid, size)
	n := C.verbs_gids(d.c, &table[0], C.uint(size))
	if n < 0 {
		return nil, errno(-n)
	}
	out := make([]GIDEntry, n)
	for i := range out {
		g := &table[i]
		out[i] = GIDEntry{GID: gidOf(&g.gid), Index: int(g.index), Type: GIDType(g._type), IfIndex: int(g.ifindex)}
	}
	return out, nil
}

func gidOf(c *[16]C.uint8_t) ib.GID { return *(*ib.GID)(unsafe.Pointer(c)) }

func gidTo(c *[16]C.uint8_t, g ib.GID) { *(*ib.GID)(unsafe.Pointer(c)) = g }

func gidFrom(c *[16]C.uint8_t) ib.GID { return *(*ib.GID)(unsafe.Pointer(c)) }

// kinds are the names of enum ibv_event_type.
var kinds = map[C.uint32_t]eventKind{
	C.IBV_EVENT_CQ_ERR: eventCQError, C.IBV_EVENT_QP_FATAL: eventQPFatal, C.IBV_EVENT_QP_REQ_ERR: eventQPFatal,
	C.IBV_EVENT_QP_ACCESS_ERR: eventQPFatal, C.IBV_EVENT_PORT_ACTIVE: eventPortUp, C.IBV_EVENT_PORT_ERR: eventPortDown,
	C.IBV_EVENT_LID_CHANGE: eventLID, C.IBV_EVENT_PKEY_CHANGE: eventPKey, C.IBV_EVENT_SM_CHANGE: eventSM,
	C.IBV_EVENT_CLIENT_REREGISTER: eventReregister, C.IBV_EVENT_GID_CHANGE: eventGID,
	C.IBV_EVENT_SRQ_ERR: eventSRQError, C.IBV_EVENT_DEVICE_FATAL: eventDeviceFatal,
}

// nextAsync handles one event of the device; EAGAIN: there is none.
func (p *Port) nextAsync() error {
	var a C.struct_verbs_async
	if err := errno(C.verbs_async_next(p.dev.c, &a)); err != nil {
		return err
	}
	e := event{Kind: kinds[a._type], Handle: uint32(a.handle), Worker: -1}
	if e.Kind == "" {
		e.Kind = eventOther
	}
	for _, w := range p.workers {
		if a.worker != nil && w.c == a.worker {
			e.Worker = w.id
		}
	}
	p.handleEvent(e)
	return nil
}

// eventFile waits on a library's non-blocking descriptor.
type eventFile struct{ f *os.File }

// openEvents waits on a copy of the descriptor, so that closing it wakes the reader and leaves the library's open.
func openEvents(fd int) (*eventFile, error) {
	c, err := syscall.Dup(fd)
	if err != nil {
		return nil, fmt.Errorf("verbs: events: %w", err)
	}
	syscall.CloseOnExec(c)
	return &eventFile{os.NewFile(uintptr(c), "verbs events")}, nil
}

// each calls next whenever there is something to read, until close or an error of next's other than EAGAIN.
func (e *eventFile) each(next func() error) {
	raw, err := e.f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(uintptr) bool { // its error: closed
		err := next()
		for err == nil {
			err = next()
		}
		return !errors.Is(err, syscall.EAGAIN) // false: wait and come again
	})
}

func (e *eventFile) close() { e.f.Close() }
