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
	"unsafe"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// channel is rdma_cm's event channel, and those that wait for its events.
type channel struct {
	c    *C.struct_rdma_event_channel
	file *eventFile

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]cmUser // by token: all ids but those of requests
}

// cmUser takes the events of its rdma_cm_id. It must not wait.
type cmUser interface {
	handleCM(d *Port, ev *C.struct_verbs_cm_event)
}

// joinID is an rdma_cm_id that has joined a group, or is about to.
type joinID struct {
	in     *memberships
	c      *C.struct_rdma_cm_id
	join   C.struct_verbs_join
	mgid   ib.GID
	answer chan cmEvent // the first event
}

// cmEvent is an event of an rdma_cm_id that joins.
type cmEvent struct {
	kind    string
	joined  bool
	status  int
	granted ibside.Membership // its MTU is 0: rdma_cm does not report it
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

func (ch *channel) unregister(token uint64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.waiting, token)
}

// leave ends the membership. A nil id has none.
func (id *joinID) leave() {
	if id == nil {
		return
	}
	id.in.cm.unregister(uint64(id.join.token))
	if id.c != nil {
		C.verbs_cm_leave(id.c, &id.join)
		id.c = nil
	}
}

var errNoIPv6Groups = errors.New("the kernel's rdma_cm joins IPv4 groups only on Ethernet; let the group go to IB only, or use an IPv4 one")

// request joins by rdma_cm and waits for the answer. On Ethernet, an IPv6 group can be sent to without a join; the id
// is nil then.
func (m *memberships) request(ctx context.Context, info *PortInfo, j ibside.Join) (*joinID, ibside.Membership, error) {
	var none ibside.Membership
	if info.Ethernet && !j.MGID.IsIPv4Mapped() {
		if j.Receive {
			return nil, none, errNoIPv6Groups
		}
		const hops = 64 // as rdma_cm gives it to IPv4 groups
		return nil, ibside.Membership{QKey: j.QKey, HopLimit: hops}, nil
	}
	own, err := joinFrom(info, j.MGID)
	if err != nil {
		return nil, none, err
	}
	id := &joinID{in: m, mgid: j.MGID, answer: make(chan cmEvent, 1)}
	id.join.pkey = C.uint16_t(j.PKey)
	id.join.by_ip = bit(info.Ethernet)
	id.join.send_only = bit(!j.Receive)
	gidTo(&id.join.own, own)
	gidTo(&id.join.mgid, j.MGID)
	id.join.token = C.uint64_t(m.cm.register(id))
	if err := errno(C.verbs_cm_join(m.cm.c, &id.join, &id.c)); err != nil {
		id.leave()
		return nil, none, err
	}
	select {
	case ev := <-id.answer:
		if ev.joined && ev.status == 0 {
			if info.Ethernet {
				ev.granted.QKey = j.QKey // there is no record of the group that could have another
			}
			return id, ev.granted, nil
		}
		err = fmt.Errorf("%s, status %d", ev.kind, ev.status)
	case <-ctx.Done():
		err = fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	id.leave()
	return nil, none, err
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
func (p *Port) nextCM() error {
	var c C.struct_verbs_cm_event
	if err := errno(C.verbs_cm_next(p.cm.c, &c)); err != nil {
		if errors.Is(err, syscall.EAGAIN) {
			return err
		}
		p.log.Error("rdma_cm", "error", err)
		return err
	}
	p.cm.mu.Lock()
	user := p.cm.waiting[uint64(c.token)]
	p.cm.mu.Unlock()
	if c._type == C.RDMA_CM_EVENT_DEVICE_REMOVAL {
		p.handleEvent(event{Kind: eventDeviceGone, Worker: -1})
	}
	if user != nil {
		user.handleCM(p, &c)
	}
	if c.sidr.request != nil { // its listener has closed
		C.rdma_destroy_id(c.sidr.request)
	}
	return nil
}

// handleCM takes an id's first event as its join's answer; a later one means that the membership has ended.
func (id *joinID) handleCM(_ *Port, c *C.struct_verbs_cm_event) {
	if c._type == C.RDMA_CM_EVENT_DEVICE_REMOVAL {
		return
	}
	ev := cmEvent{
		kind: eventName(c._type), joined: c._type == C.RDMA_CM_EVENT_MULTICAST_JOIN, status: int(c.status),
		granted: ibside.Membership{MLID: ib.LID(c.lid), SL: ib.SL(c.sl), QKey: ib.QKey(c.qkey), HopLimit: uint8(c.hop_limit), Rate: ib.Rate(c.static_rate)},
	}
	select {
	case id.answer <- ev: // the buffer holds the first
	default:
		if !ev.joined {
			id.in.lost(id.mgid, ev)
		}
	}
}

// anchorID is an rdma_cm_id that holds an anchor.
type anchorID struct {
	ch     *channel
	c      *C.struct_rdma_cm_id
	join   C.struct_verbs_join
	answer chan error // of the join
	gone   chan struct{}
	once   sync.Once
}

// holdAnchor has the kernel join a group by its IP address.
func (ch *channel) holdAnchor(ctx context.Context, a anchor) (held, error) {
	id := &anchorID{ch: ch, answer: make(chan error, 1), gone: make(chan struct{})}
	id.join.pkey = C.uint16_t(a.pkey)
	id.join.by_ip, id.join.ipoib, id.join.send_only = 1, bit(a.ipoib), bit(a.sendOnly)
	gidTo(&id.join.own, ib.GIDFromAddr(a.own))
	gidTo(&id.join.mgid, ib.GIDFromAddr(a.group))
	id.join.token = C.uint64_t(ch.register(anchorUser{id, a.mgid}))
	err := errno(C.verbs_cm_join(ch.c, &id.join, &id.c))
	if err == nil {
		select {
		case err = <-id.answer:
		case <-ctx.Done():
			err = fmt.Errorf("no answer: %w", context.Cause(ctx))
		}
	}
	if err != nil {
		id.release()
		return nil, err
	}
	return id, nil
}

func (id *anchorID) lost() <-chan struct{} { return id.gone }

func (id *anchorID) release() {
	id.ch.unregister(uint64(id.join.token))
	if id.c != nil {
		C.verbs_cm_leave(id.c, &id.join)
		id.c = nil
	}
}

// anchorUser takes the events of an anchor.
type anchorUser struct {
	*anchorID
	mgid ib.GID
}

func (u anchorUser) handleCM(_ *Port, c *C.struct_verbs_cm_event) {
	switch {
	case c._type == C.RDMA_CM_EVENT_DEVICE_REMOVAL:
	case c._type != C.RDMA_CM_EVENT_MULTICAST_JOIN || c.status != 0:
		u.answerOnce(fmt.Errorf("%s, status %d", eventName(c._type), int(c.status)))
		u.once.Do(func() { close(u.gone) })
	case gidFrom(&c.mgid) != u.mgid:
		u.answerOnce(fmt.Errorf("the kernel has joined %v", gidFrom(&c.mgid)))
	default:
		u.answerOnce(nil)
	}
}

func (u anchorUser) answerOnce(err error) {
	select {
	case u.answer <- err:
	default:
	}
}

// Attach implements multicast.QP.
func (q *queuePair) Attach(mgid ib.GID, mlid ib.LID) error {
	return errno(C.verbs_attach(q.c, (*C.uint8_t)(unsafe.Pointer(&mgid[0])), C.uint16_t(mlid)))
}

// Detach implements multicast.QP.
func (q *queuePair) Detach(mgid ib.GID, mlid ib.LID) error {
	return errno(C.verbs_detach(q.c, (*C.uint8_t)(unsafe.Pointer(&mgid[0])), C.uint16_t(mlid)))
}
