// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/tables"
)

// Watch calls see for each sight of a packet that f passes, in order of time, until ctx ends or see returns false; nil
// when the bridge is closed meanwhile. snap is how many bytes of a packet are kept, 0 all. missed says how many sights
// there was no room for; packets themselves do not notice. At most lcore.MaxWatchers at once.
func (h *House) Watch(ctx context.Context, f lcore.Filter, snap int, see func(lcore.Sight) bool) (missed uint64, err error) {
	return h.watch(ctx, lcore.Watch{Filter: f, Snap: snap}, see)
}

// Sample is Watch for who needs only an idea of what passes: it costs the bridge next to nothing, however much that is.
func (h *House) Sample(ctx context.Context, f lcore.Filter, snap int, see func(lcore.Sight) bool) (missed uint64, err error) {
	return h.watch(ctx, lcore.Watch{Filter: f, Snap: snap, Sampled: true}, see)
}

func (h *House) watch(ctx context.Context, w lcore.Watch, see func(lcore.Sight) bool) (missed uint64, err error) {
	own := portOwn{house: h}
	return h.bench.Watch(ctx, w, func(s lcore.Sight) bool {
		own.complete(&s)
		return see(s)
	})
}

// portOwn adds to sights what the IB port goes by, which no descriptor says.
type portOwn struct {
	house *House
	own   manage.Own
	at    time.Time
}

// ownAge is how old what is known of the port may be.
const ownAge = time.Second

func (p *portOwn) complete(s *lcore.Sight) {
	if s.IB == nil {
		return
	}
	if now := time.Now(); now.Sub(p.at) > ownAge {
		p.at = now
		p.house.mu.Lock()
		if !p.house.closed {
			p.own = p.house.door.Own()
		}
		p.house.mu.Unlock()
	}
	s.IB.PKey = p.house.cfg.IB.PKey
	if s.Point != lcore.Sent {
		if !s.IB.DGID.IsMulticast() {
			s.IB.DLID = p.own.LID
		}
		return
	}
	s.IB.SLID = p.own.LID
	for i, x := range p.own.Sources {
		if i == 0 || x.Number == s.IB.Source {
			s.IB.SGID = x.GID
		}
	}
}

// Shelves reads the tables as a worker does.
type Shelves struct{ house *House }

// Shelves returns what explains why a packet went where it did.
func (h *House) Shelves() Shelves { return Shelves{h} }

var errClosed = errors.New("house: the bridge has ended")

// read calls f as a registered reader of the tables; not when the bridge is closed.
func (s Shelves) read(f func(t *tables.Tables)) error {
	h := s.house
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errClosed
	}
	r, err := h.tables.Reader(len(h.bench.Workers())) // one more than workers; h.mu says whose it is
	if err != nil {
		return err
	}
	defer r.Close()
	f(h.tables)
	return nil
}

// StandIn returns what stands for a RoCE host's queue pair.
func (s Shelves) StandIn(host netip.Addr, qpn ib.QPN) (found tables.StandIn, ok bool) {
	err := s.read(func(t *tables.Tables) { found, _, ok = t.LookupStandIn(host, qpn) })
	return found, ok && err == nil
}

// StandInQP returns the host's queue pair that a stand-in's QPN stands for.
func (s Shelves) StandInQP(qpn ib.QPN) (found tables.StandIn, ok bool) {
	err := s.read(func(t *tables.Tables) { found, _, _, ok = t.LookupStandInQP(qpn) })
	return found, ok && err == nil
}

// Host returns a RoCE host.
func (s Shelves) Host(ip netip.Addr) (found tables.Host, ok bool) {
	err := s.read(func(t *tables.Tables) { found, _, ok = t.LookupHost(ip) })
	return found, ok && err == nil
}

// Node returns the InfiniBand node that is known by an IP address.
func (s Shelves) Node(ip netip.Addr) (found tables.Node, ok bool) {
	err := s.read(func(t *tables.Tables) { found, _, ok = t.LookupNode(ip) })
	return found, ok && err == nil
}

// Source returns the InfiniBand node that sends from a GID, or without one from a LID, and whether it is the bridge itself.
func (s Shelves) Source(gid ib.GID, lid ib.LID) (found tables.Node, own, ok bool) {
	err := s.read(func(t *tables.Tables) {
		if gid.IsZero() {
			found, _, ok = t.LookupSourceLID(lid)
			own = t.LookupOwnLID(lid)
		} else {
			found, _, ok = t.LookupSource(gid)
			own = t.LookupOwn(gid)
		}
	})
	return found, own && err == nil, ok && err == nil
}

// Group returns a group by its IP address.
func (s Shelves) Group(ip netip.Addr) (found tables.Group, ok bool) {
	err := s.read(func(t *tables.Tables) { found, _, ok = t.LookupGroup(ip) })
	return found, ok && err == nil
}

// MGID returns a group by its MGID.
func (s Shelves) MGID(gid ib.GID) (found tables.Group, ok bool) {
	err := s.read(func(t *tables.Tables) { found, _, ok = t.LookupMGID(gid) })
	return found, ok && err == nil
}
