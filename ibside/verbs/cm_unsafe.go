// SPDX-License-Identifier: Apache-2.0

package verbs

// #include "cm.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"causeway/ibside/ib"
)

// joinTimeout bounds one join that the door makes by itself.
const joinTimeout = 5 * time.Second

// channel is rdma_cm's event channel, and who waits for its events.
type channel struct {
	c    *C.struct_rdma_event_channel
	file *eventFile

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]cmUser // by token: all ids there are, but those of requests
}

// cmUser takes the events of its rdma_cm_id, and must not wait.
type cmUser interface {
	happened(d *Door, ev *C.struct_verbs_cm_event)
}

// joinID is an rdma_cm_id that has joined a group, or is about to.
type joinID struct {
	ch     *channel
	c      *C.struct_rdma_cm_id
	join   C.struct_verbs_join
	mgid   ib.GID
	answer chan cmEvent // the first event
}

// cmEvent is an event of rdma_cm; what follows status is a join's.
type cmEvent struct {
	kind      string
	joined    bool
	status    int
	mlid      ib.LID
	sl        ib.SL
	qkey      ib.QKey
	hopLimit  uint8
	tclass    uint8
	flowLabel uint32
	mtu       ib.MTU // 0: rdma_cm does not tell
}

func openChannel() (*channel, error) {
	ch := &channel{waiting: map[uint64]cmUser{}}
	if err := errno(C.verbs_cm_open(&ch.c)); err != nil {
		return nil, err
	}
	var err error
	if ch.file, err = openEvents(int(ch.c.fd)); err != nil {
		ch.free()
		return nil, err
	}
	return ch, nil
}

func (ch *channel) free() { C.rdma_destroy_event_channel(ch.c) }

// register returns the token of a new id.
func (ch *channel) register(u cmUser) uint64 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.last++
	ch.waiting[ch.last] = u
	return ch.last
}

func (ch *channel) forget(token uint64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.waiting, token)
}

// leave ends the membership. A nil id has none.
func (id *joinID) leave() {
	if id == nil {
		return
	}
	id.ch.forget(uint64(id.join.token))
	if id.c != nil {
		C.verbs_cm_leave(id.c, &id.join)
		id.c = nil
	}
}

var errNoIPv6Groups = errors.New("the kernel's rdma_cm joins IPv4 groups only on Ethernet; let the group go to IB only, or use an IPv4 one")

// request joins by rdma_cm and waits for the answer. On Ethernet, an IPv6 group can be sent to without.
func (d *Door) request(ctx context.Context, p *PortInfo, r joinRequest) (*joinID, cmEvent, error) {
	if p.Ethernet && !r.mgid.IsIPv4Mapped() {
		if r.receive {
			return nil, cmEvent{}, errNoIPv6Groups
		}
		const hops = 64 // as rdma_cm gives it to IPv4 groups
		return nil, cmEvent{joined: true, hopLimit: hops}, nil
	}
	own, err := joinFrom(p, r.mgid)
	if err != nil {
		return nil, cmEvent{}, err
	}
	id := &joinID{ch: d.cm, mgid: r.mgid, answer: make(chan cmEvent, 1)}
	id.join.pkey = C.uint16_t(r.pkey)
	id.join.ethernet = bit(p.Ethernet)
	id.join.send_only = bit(!r.receive)
	gidTo(&id.join.own, own)
	gidTo(&id.join.mgid, r.mgid)
	id.join.token = C.uint64_t(d.cm.register(id))
	if err := errno(C.verbs_cm_join(d.cm.c, &id.join, &id.c)); err != nil {
		id.leave()
		return nil, cmEvent{}, err
	}
	select {
	case ev := <-id.answer:
		if ev.joined && ev.status == 0 {
			return id, ev, nil
		}
		err = fmt.Errorf("%s, status %d", ev.kind, ev.status)
	case <-ctx.Done():
		err = fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	id.leave()
	return nil, cmEvent{}, err
}

func bit(b bool) C.uint8_t {
	if b {
		return 1
	}
	return 0
}

// joinFrom is the port's address for a join: its own GID, but of the group's kind.
func joinFrom(p *PortInfo, mgid ib.GID) (ib.GID, error) {
	if !p.Ethernet || p.GID.IsIPv4Mapped() == mgid.IsIPv4Mapped() {
		return p.GID, nil
	}
	for _, g := range usable(p.GIDs, true) {
		if g.GID.IsIPv4Mapped() == mgid.IsIPv4Mapped() {
			return g.GID, nil
		}
	}
	return ib.GID{}, errors.New("the port has no IPv4 address to join from; add one to its network interface")
}

// nextCM takes one event of rdma_cm; EAGAIN: there is none.
func (d *Door) nextCM() error {
	var c C.struct_verbs_cm_event
	if err := errno(C.verbs_cm_next(d.cm.c, &c)); err != nil {
		if errors.Is(err, syscall.EAGAIN) {
			return err
		}
		d.log.Error("rdma_cm", "error", err)
		return err
	}
	d.cm.mu.Lock()
	user := d.cm.waiting[uint64(c.token)]
	d.cm.mu.Unlock()
	if c._type == C.RDMA_CM_EVENT_DEVICE_REMOVAL {
		d.HandleEvent(Event{Kind: EventDeviceGone, Worker: -1})
	}
	if user != nil {
		user.happened(d, &c)
	}
	if c.sidr.request != nil { // its listener is no more
		C.rdma_destroy_id(c.sidr.request)
	}
	return nil
}

// happened: an id's first event is its join's answer; a later one says that the membership has ended.
func (id *joinID) happened(d *Door, c *C.struct_verbs_cm_event) {
	if c._type == C.RDMA_CM_EVENT_DEVICE_REMOVAL {
		return
	}
	ev := cmEvent{
		kind: eventName(c._type), joined: c._type == C.RDMA_CM_EVENT_MULTICAST_JOIN, status: int(c.status),
		mlid: ib.LID(c.lid), sl: ib.SL(c.sl), qkey: ib.QKey(c.qkey), hopLimit: uint8(c.hop_limit), tclass: uint8(c.tclass),
		flowLabel: uint32(c.flow_label),
	}
	select {
	case id.answer <- ev: // the buffer holds the first
	default:
		if !ev.joined {
			d.lostMembership(id.mgid, ev)
		}
	}
}

func (q *queuePair) attach(mgid ib.GID, mlid ib.LID) error {
	return errno(C.verbs_attach(q.c, (*C.uint8_t)(unsafe.Pointer(&mgid[0])), C.uint16_t(mlid)))
}

func (q *queuePair) detach(mgid ib.GID, mlid ib.LID) error {
	return errno(C.verbs_detach(q.c, (*C.uint8_t)(unsafe.Pointer(&mgid[0])), C.uint16_t(mlid)))
}
