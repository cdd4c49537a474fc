// SPDX-License-Identifier: Apache-2.0

package verbs

// #include <stdlib.h>
// #include "ud.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"causeway/ibside/ib"
)

// UD is a queue pair of a port with buffers of its own, for the commands send and listen, not for the bridge. Send may
// be called from any goroutine.
type UD struct {
	dev  *device
	port PortInfo
	c    *C.struct_verbs_ud
	mu   sync.Mutex // guards sends and address handles
	ahs  []*C.struct_ibv_ah
}

// UDMessage is a received message.
type UDMessage struct {
	Area    [areaLen]byte // with HasGRH: a GRH; on Ethernet with IPv4, 20 undefined bytes and an IPv4 header
	HasGRH  bool
	SLID    ib.LID
	SL      ib.SL
	SrcQP   ib.QPN
	Payload []byte // valid until the handler returns
}

// UDPath is the destination of messages. DLID is for InfiniBand; on Ethernet DGID is the IP address.
type UDPath struct {
	DGID      ib.GID
	HasGRH    bool // on Ethernet always true
	DLID      ib.LID
	SL        ib.SL
	TClass    uint8
	FlowLabel uint32
	HopLimit  uint8
	Rate      ib.Rate // 0: the port's
}

// UDAddress is an address handle for a path.
type UDAddress struct{ ah *C.struct_ibv_ah }

// OpenUD makes a queue pair on a port, ready to send and to receive, with its P_Key of index 0.
func OpenUD(name string, port int, qkey ib.QKey) (*UD, error) {
	dev, err := openDevice(name, port)
	if err != nil {
		return nil, err
	}
	u := &UD{dev: dev}
	if u.port, err = dev.readPort(); err == nil && !u.port.Active {
		err = fmt.Errorf("the port is down")
	}
	if err == nil {
		err = errno(C.verbs_ud_new(dev.c, C.uint32_t(qkey), 0, &u.c))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("verbs: a UD queue pair on %s:%d: %w", name, port, err), dev.close())
	}
	u.port.Device, u.port.Num = name, port
	return u, nil
}

// Port returns the port's attributes as of when the queue pair was made.
func (u *UD) Info() PortInfo { return u.port }

// QPN returns the queue pair's number.
func (u *UD) QPN() ib.QPN { return ib.QPN(C.verbs_ud_qpn(u.c)) }

// Attach makes the queue pair receive messages to a group. It does not join the group: others must make its packets
// reach the port.
func (u *UD) Attach(mgid ib.GID, mlid ib.LID) error {
	if err := errno(C.verbs_ud_attach(u.c, (*C.uint8_t)(&mgid[0]), C.uint16_t(mlid))); err != nil {
		return fmt.Errorf("verbs: attach to %v: %w", mgid, err)
	}
	return nil
}

// Source returns the GID table entry that a message to dgid is sent from.
func (u *UD) Source(dgid ib.GID) (GIDEntry, error) {
	index, ok := sourceIndex(u.port.GIDs, u.port.Ethernet, ib.GID{}, ib.GID{}, dgid)
	for _, e := range u.port.GIDs {
		if ok && e.Index == index {
			return e, nil
		}
	}
	return GIDEntry{}, fmt.Errorf("verbs: %s:%d has no GID to send to %v from; give its network interface an IP address", u.port.Device, u.port.Num, dgid)
}

// Address makes an address handle. On Ethernet that resolves the address, which may take a second. The handle ends with
// the queue pair.
func (u *UD) Address(p UDPath) (UDAddress, error) {
	to := C.struct_verbs_ud_to{
		flow_label: C.uint32_t(p.FlowLabel), dlid: C.uint16_t(p.DLID), sl: C.uint8_t(p.SL), hop_limit: C.uint8_t(p.HopLimit),
		tclass: C.uint8_t(p.TClass), static_rate: C.uint8_t(p.Rate), grh: C.bool(p.HasGRH || bool(u.dev.c.grh)),
	}
	gidTo(&to.dgid, p.DGID)
	if to.grh {
		source, err := u.Source(p.DGID)
		if err != nil {
			return UDAddress{}, err
		}
		to.sgid_index = C.uint32_t(source.Index)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var ah *C.struct_ibv_ah
	if err := errno(C.verbs_ud_address(u.c, &to, &ah)); err != nil {
		return UDAddress{}, fmt.Errorf("verbs: an address handle for %v: %w", p.DGID, err)
	}
	u.ahs = append(u.ahs, ah)
	return UDAddress{ah}, nil
}

// Send sends one message; the payload is copied. EAGAIN: all buffers are under way.
func (u *UD) Send(to UDAddress, qpn ib.QPN, qkey ib.QKey, payload []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return errno(C.verbs_ud_send(u.c, to.ah, C.uint32_t(qpn), C.uint32_t(qkey), unsafe.Pointer(unsafe.SliceData(payload)), C.uint32_t(len(payload))))
}

// Receive calls each for every message, until ctx ends, which is no error, or the queue pair fails.
func (u *UD) Receive(ctx context.Context, each func(*UDMessage)) error {
	const waits = 50 // milliseconds, after which it checks whether ctx has ended
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var burst [64]C.struct_verbs_ud_message
	for ctx.Err() == nil {
		err := errno(C.verbs_ud_wait(u.c, waits))
		if err != nil && !errors.Is(err, syscall.ETIMEDOUT) {
			return fmt.Errorf("verbs: receive: %w", err)
		}
		for n := len(burst); n == len(burst) && ctx.Err() == nil; {
			if n = int(C.verbs_ud_poll(u.c, &burst[0], C.int(len(burst)))); n < 0 {
				return fmt.Errorf("verbs: receive: %w", syscall.Errno(-n))
			}
			for i := range burst[:n] {
				u.message(&burst[i], each)
				if err := errno(C.verbs_ud_repost(u.c, burst[i].slot)); err != nil {
					return fmt.Errorf("verbs: receive: %w", err)
				}
			}
		}
	}
	return nil
}

func (u *UD) message(c *C.struct_verbs_ud_message, each func(*UDMessage)) {
	b := unsafe.Slice((*byte)(c.area), areaLen+int(c.len))
	each(&UDMessage{
		Area: [areaLen]byte(b), HasGRH: bool(c.grh), SLID: ib.LID(c.slid), SL: ib.SL(c.sl), SrcQP: ib.QPN(c.src_qpn), Payload: b[areaLen:],
	})
}

// Close waits a moment for sends under way, and frees everything. Receive must have returned.
func (u *UD) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	C.verbs_ud_flush(u.c)
	C.verbs_ud_free(u.c)
	for _, ah := range u.ahs {
		C.ibv_destroy_ah(ah)
	}
	return u.dev.close()
}
