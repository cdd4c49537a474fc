// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/multipath"
	"causeway/lcore"
	"causeway/lcore/dryrun"
	"causeway/lcore/manage"
	"causeway/tables"
)

// mirrors copies packets for captures and traces.
type mirrors struct {
	gate     *gate
	datapath *lcore.Datapath
	ibPort   ibside.Port
	fabrics  *fabrics
	pkey     func(partition uint8) ib.PKey
	ports    *ports
}

// Mirror calls each for a copy of each packet that f selects, in order of time, until ctx ends or each returns false;
// the error is nil when the bridge is closed meanwhile. snap is how many bytes of a packet are kept, 0 all. missed is
// how many copies there was no room for; packets are not affected. At most lcore.MaxMirrors at once.
func (m *mirrors) Mirror(ctx context.Context, f lcore.Filter, snap int, each func(lcore.MirroredPacket) bool) (missed uint64, err error) {
	return m.mirror(ctx, lcore.MirrorOptions{Filter: f, Snap: snap}, each)
}

// Sample is Mirror with a sample of the packets. It costs next to nothing, at any packet rate.
func (m *mirrors) Sample(ctx context.Context, f lcore.Filter, snap int, each func(lcore.MirroredPacket) bool) (missed uint64, err error) {
	return m.mirror(ctx, lcore.MirrorOptions{Filter: f, Snap: snap, Sampled: true}, each)
}

func (m *mirrors) mirror(ctx context.Context, w lcore.MirrorOptions, each func(lcore.MirroredPacket) bool) (missed uint64, err error) {
	a := addresses{mirrors: m}
	return m.datapath.Mirror(ctx, w, func(s lcore.MirroredPacket) bool {
		a.complete(&s)
		return each(s)
	})
}

// addresses adds the IB port's own addresses to mirrored packets: descriptors do not have them.
type addresses struct {
	*mirrors
	own ibside.Own
	at  time.Time
}

// ownAge is how long the port's addresses are kept.
const ownAge = time.Second

func (a *addresses) complete(s *lcore.MirroredPacket) {
	if s.IB == nil {
		s.PortName = a.ports.nameOf(s.Port)
		return
	}
	if now := time.Now(); now.Sub(a.at) > ownAge {
		a.at = now
		a.gate.whileOpen(func() { a.own = a.ibPort.Own() })
	}
	s.IB.PKey = a.pkey(s.IB.Partition)
	if a.fabrics.ports != nil {
		a.byPort(s)
		return
	}
	if s.Point != lcore.Sent {
		if !s.IB.DGID.IsMulticast() {
			s.IB.DLID = a.own.LID
		}
		return
	}
	s.IB.SLID = a.own.LID
	for i, x := range a.own.Sources {
		if i == 0 || x.Number == s.IB.Source {
			s.IB.SGID = x.GID
		}
	}
}

// byPort is complete for several ports. What is sent has the addresses of the active one.
func (a *addresses) byPort(s *lcore.MirroredPacket) {
	a.gate.whileOpen(func() {
		if s.Point != lcore.Sent {
			s.IB.Ports = a.fabrics.ports.Name(int(s.IB.Port))
			return
		}
		var to multipath.Sent
		if to = a.fabrics.ports.Sent(s.IB.DLID); to.Ports != "" {
			s.IB.Ports, s.IB.SLID, s.IB.SGID, s.IB.DLID, s.IB.DGID = to.Ports, to.SLID, to.SGID, to.DLID, to.DGID
		}
	})
}

// DryRun returns the copies that a packet would have if it came in now. Nothing is sent, and nothing changes.
func (b *Bridge) DryRun(p dryrun.Packet) (saw []lcore.MirroredPacket, err error) {
	failed := b.Tables().read(func(t *tables.Tables) {
		var cfg lcore.DatapathConfig
		if cfg, err = b.datapathConfig(b.Config()); err != nil {
			return
		}
		var r *dryrun.Runner
		r, err = dryrun.New(dryrun.Config{
			Datapath: cfg, Tables: t, Workers: len(b.datapath.Workers()), MaxGroups: b.cfg.Workers.Groups + spareGroups,
			MTU: mostMTU(b.cfg.Segments()),
		})
		if err == nil {
			saw, err = r.Run(p)
			err = errors.Join(err, r.Close())
		}
	})
	a := addresses{mirrors: b.mirrors}
	for i := range saw {
		a.complete(&saw[i])
	}
	return saw, errors.Join(failed, err)
}

// Tables reads the tables as a worker does.
type Tables struct {
	gate     *gate
	tables   *tables.Tables
	reader   int // one more than workers; under the gate's lock
	segments []lcore.Segment
	numbers  []uint8 // of them
}

var errClosed = errors.New("bridge: the bridge has ended")

// read calls f as a registered reader of the tables, unless the bridge is closed.
func (s Tables) read(f func(t *tables.Tables)) error {
	err := errClosed
	s.gate.whileOpen(func() {
		var r *tables.Reader
		if r, err = s.tables.Reader(s.reader); err == nil {
			defer r.Close()
			f(s.tables)
		}
	})
	return err
}

// inSegments calls find for each segment until it has found something.
func (s Tables) inSegments(find func(*tables.Segment) bool) bool {
	found := false
	err := s.read(func(t *tables.Tables) {
		for n := uint8(0); n < tables.MaxSegments && !found; n++ {
			found = find(t.In(n))
		}
	})
	return found && err == nil
}

// isAt reports whether a segment is at a place. An only segment is at all.
func (s Tables) isAt(x *lcore.Segment, at manage.Place) bool {
	return x.VLAN == at.VLAN && x.Port == at.Port || len(s.segments) == 1
}

// in calls find for the segment of a place, if it is one's.
func (s Tables) in(at manage.Place, find func(*tables.Segment) bool) (ok bool) {
	n := slices.IndexFunc(s.segments, func(x lcore.Segment) bool { return s.isAt(&x, at) })
	if n < 0 {
		return false
	}
	err := s.read(func(t *tables.Tables) { ok = find(t.In(s.numbers[n])) })
	return ok && err == nil
}

// ProxyQP returns the proxy QP of the queue pair of a RoCE host of a segment in a partition. Where the segment has one of
// its own, it is that.
func (s Tables) ProxyQP(at manage.Place, of tables.HostQP) (found tables.ProxyQP, ok bool) {
	for _, x := range s.segments {
		if x.Bound && s.isAt(&x, at) {
			of.Partition = x.Partition
		}
	}
	ok = s.in(at, func(t *tables.Segment) (ok bool) { found, _, ok = t.ProxyQPs.Lookup(of); return ok })
	return found, ok
}

// ProxyQPN returns a proxy QP by its QPN.
func (s Tables) ProxyQPN(qpn ib.QPN) (found tables.ProxyQP, ok bool) {
	ok = s.inSegments(func(t *tables.Segment) (ok bool) { found, _, ok = t.ProxyQPs.LookupQPN(qpn); return ok })
	return found, ok
}

// Host returns the RoCE host of a segment that has an address.
func (s Tables) Host(at manage.Place, ip netip.Addr) (found tables.Host, ok bool) {
	ok = s.in(at, func(t *tables.Segment) (ok bool) { found, _, ok = t.Hosts.Lookup(ip); return ok })
	return found, ok
}

// Node returns the InfiniBand node that has an IP address.
func (s Tables) Node(ip netip.Addr) (found tables.Node, ok bool) {
	err := s.read(func(t *tables.Tables) { found, _, ok = t.Nodes.Lookup(ip) })
	return found, ok && err == nil
}

// Source returns the InfiniBand node that sends from a GID, or without one from a LID, and whether it is the bridge
// itself.
func (s Tables) Source(gid ib.GID, lid ib.LID) (found tables.Node, own, ok bool) {
	err := s.read(func(t *tables.Tables) {
		if gid.IsZero() {
			found, _, ok = t.Nodes.LookupSourceLID(lid)
			own = t.Nodes.LookupOwnLID(lid)
		} else {
			found, _, ok = t.Nodes.LookupSource(gid)
			own = t.Nodes.LookupOwn(gid)
		}
	})
	return found, own && err == nil, ok && err == nil
}

// Group returns a group of a segment by its address.
func (s Tables) Group(at manage.Place, addr tables.GroupAddr) (found tables.Group, ok bool) {
	ok = s.in(at, func(t *tables.Segment) (ok bool) { found, _, ok = t.Groups.Lookup(addr); return ok })
	return found, ok
}

// MGID returns a group by its MGID.
func (s Tables) MGID(gid ib.GID) (found tables.Group, ok bool) {
	ok = s.inSegments(func(t *tables.Segment) (ok bool) { found, _, ok = t.Groups.LookupMGID(gid); return ok })
	if !ok {
		err := s.read(func(t *tables.Tables) { found, _, ok = t.Shared.LookupMGID(gid) })
		ok = ok && err == nil
	}
	return found, ok
}
