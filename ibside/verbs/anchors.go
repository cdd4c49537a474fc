// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"causeway/ibside/ib"
)

// anchors have the kernel count the bridge among its own members of a group. The subnet administrator knows the port
// alone, and the kernel asks it to drop the port when the last of its members leaves, such as a program that uses
// rdma_cm, or IPoIB: the bridge would lose the group, too. And if the bridge asked, they would.
//
//	mckey, IPoIB ─┐
//	anchor ───────┴▶ kernel ─┬▶ subnet administrator: is the port a member?
//	Administration ──────────┘
//
// The kernel joins by IP addresses, so a group has an anchor if an IP group has its MGID, and IPoIB is on the port.
// Otherwise no program joins it by the kernel, and it needs none.
type anchors struct {
	find func(pkey ib.PKey) (netip.Addr, bool) // IPoIB's address on the port
	hold func(ctx context.Context, a anchor) (held, error)
	ctx  context.Context // ends with the port
	log  *slog.Logger

	mu    sync.Mutex
	all   map[ib.GID]*anchored
	ended sync.WaitGroup
}

// An anchor is a membership of the kernel's.
type anchor struct {
	mgid     ib.GID
	pkey     ib.PKey
	own      netip.Addr // IPoIB's
	group    netip.Addr // whose MGID it is
	ipoib    bool       // in IPoIB's port space; otherwise in rdma_cm's
	sendOnly bool
}

// held is a membership that the kernel has.
type held interface {
	lost() <-chan struct{} // closed when the subnet has ended it
	release()
}

// anchored is a group that is to have an anchor.
type anchored struct {
	anchor
	cancel context.CancelFunc
	now    held      // nil: not yet, or not at the moment
	before *anchored // what it replaces, until the kernel was asked for this one
}

// Back-off of an anchor that the kernel does not take.
const (
	anchorFirstWait = 100 * time.Millisecond
	anchorLastWait  = 30 * time.Second
)

// put anchors a group. receive says that the bridge receives it.
func (s *anchors) put(mgid ib.GID, pkey ib.PKey, receive bool) {
	a := anchor{mgid: mgid, pkey: pkey, sendOnly: !receive}
	var ok bool
	if a.group, a.ipoib, ok = ipGroupOf(mgid, pkey); !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.all[mgid]
	if old != nil && old.anchor.sendOnly == a.sendOnly && old.anchor.pkey == a.pkey || s.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	now := &anchored{anchor: a, cancel: cancel, before: old}
	s.all[mgid] = now
	s.ended.Go(func() { s.keep(ctx, now) })
}

// keep holds an anchor until ctx ends. It lets the one before go when it has asked for its own.
func (s *anchors) keep(ctx context.Context, a *anchored) {
	defer s.endBefore(a)
	for wait := anchorFirstWait; ctx.Err() == nil; wait = min(2*wait, anchorLastWait) {
		h := s.try(ctx, a)
		s.endBefore(a)
		if h != nil {
			wait = anchorFirstWait / 2
			select {
			case <-h.lost():
				s.release(a)
			case <-ctx.Done():
				return // who has cancelled releases it
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// endBefore ends what an anchor replaces, if it has not ended yet.
func (s *anchors) endBefore(a *anchored) {
	s.mu.Lock()
	old := a.before
	a.before = nil
	s.mu.Unlock()
	if old != nil {
		s.end(old)
	}
}

// try has the kernel join once.
func (s *anchors) try(ctx context.Context, a *anchored) held {
	var ok bool
	if a.own, ok = s.find(a.pkey); !ok {
		return nil // without IPoIB the kernel has no other members, either
	}
	asking, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	h, err := s.hold(asking, a.anchor)
	if err != nil {
		s.log.Debug("anchor_failed", "mgid", a.mgid, "error", err)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil { // cancelled before release looked
		h.release()
		return nil
	}
	a.now = h
	return h
}

// release has the kernel no longer count the bridge, if it does.
func (s *anchors) release(a *anchored) {
	s.mu.Lock()
	h := a.now
	a.now = nil
	s.mu.Unlock()
	if h != nil {
		h.release()
	}
}

// holds reports whether the kernel counts the bridge among the members of a group: it leaves the group by itself.
func (s *anchors) holds(mgid ib.GID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[mgid]
	return a != nil && (a.now != nil || a.before != nil && a.before.now != nil)
}

// drop ends the anchor of a group, if there is one: the kernel leaves, unless it has other members.
func (s *anchors) drop(mgid ib.GID) {
	s.mu.Lock()
	a := s.all[mgid]
	delete(s.all, mgid)
	s.mu.Unlock()
	if a != nil {
		s.end(a)
	}
}

// end has an anchor held no more.
func (s *anchors) end(a *anchored) {
	a.cancel()
	s.release(a)
}

// close ends all anchors.
func (s *anchors) close() {
	s.mu.Lock()
	var all []*anchored
	for _, a := range s.all {
		all = append(all, a)
	}
	clear(s.all)
	s.mu.Unlock()
	for _, a := range all {
		s.end(a)
	}
	s.ended.Wait()
}

// ipGroupOf returns the IP group that the kernel maps to an MGID, and in which port space (RFC 4391 §4; Linux
// drivers/infiniband/core/cma.c, cma_set_mgid). It reports false when no IP group has it.
func ipGroupOf(mgid ib.GID, pkey ib.PKey) (group netip.Addr, ipoib, ok bool) {
	v6 := mgid
	v6[1], v6[2], v6[3], v6[4], v6[5] = 0x10|mgid[1]&0x0f, 0, 0, 0, 0
	for _, try := range []struct {
		group netip.Addr
		ipoib bool
		mgid  func(netip.Addr, ib.PKey, uint8) ib.GID
	}{
		{netip.AddrFrom4([4]byte{0xe0 | mgid[12]&0x0f, mgid[13], mgid[14], mgid[15]}), false, ib.MGIDRDMACM},
		{netip.AddrFrom4([4]byte{0xe0 | mgid[12]&0x0f, mgid[13], mgid[14], mgid[15]}), true, ib.MGIDIPoIB},
		{netip.AddrFrom16(v6), false, ib.MGIDRDMACM},
		{netip.AddrFrom16(v6), true, ib.MGIDIPoIB},
		{netip.AddrFrom16(mgid), false, ib.MGIDRDMACM}, // one that the SA chose
	} {
		if try.mgid(try.group, pkey, mgid[1]&0x0f) == mgid {
			return try.group, try.ipoib, true
		}
	}
	return netip.Addr{}, false, false
}
