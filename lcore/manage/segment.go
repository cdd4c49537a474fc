// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/gids"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours"
	"causeway/lcore/manage/nodes"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/ratelog"
	"causeway/lcore/manage/sidr"
	"causeway/tables"
)

// A segment is a RoCE segment, with the parts of management that are its own: so that its hosts are its, and that one
// that floods uses up its share of each limit, and nobody else's.
type segment struct {
	number uint8
	cfg    Segment
	local  *local.Addresses
	tables *tables.Segment
	nodes  reached

	proxyQPs   *proxyqps.ProxyQPs
	neighbours *neighbours.Neighbours
	gids       *gids.GIDs
	groups     *groups.Groups
	sidr       *sidr.SIDR
}

func newSegment(number uint8, c Segment, mac frame.MAC, t *tables.Tables) *segment {
	return &segment{
		number: number, cfg: c, tables: t.In(number), local: &local.Addresses{Link: frame.Link{MAC: mac, VID: c.VLAN}, IPs: c.Addresses},
	}
}

// name names the segment for operators.
func (s *segment) name() string {
	if s.cfg.VLAN == 0 {
		return "untagged"
	}
	return fmt.Sprint("VLAN ", s.cfg.VLAN)
}

// reaches reports whether messages cross to and from nodes with a P_Key; 0: they have none of their own.
func (s *segment) reaches(k ib.PKey) bool {
	return s.cfg.Bound == 0 || k == 0 || k == s.cfg.Bound
}

// pkeysOf returns the P_Keys that a segment needs.
func (s *segment) pkeysOf(x *SegmentChange) (all []ib.PKey) {
	if s.cfg.Bound != 0 {
		all = append(all, s.cfg.Bound)
	}
	for _, g := range x.Groups {
		if g.PKey != 0 {
			all = append(all, g.PKey)
		}
	}
	for i := range x.Ranges {
		if k := x.Ranges[i].Group.PKey; k != 0 {
			all = append(all, k)
		}
	}
	return all
}

// segmentOf returns the segment of a VLAN id; nil: there is none. Of an only one all frames are: workers take no others.
func (l *Loop) segmentOf(vid uint16) *segment {
	if len(l.segments) == 1 {
		return l.segments[0]
	}
	for _, s := range l.segments {
		if s.cfg.VLAN == vid {
			return s
		}
	}
	return nil
}

// part is a segment's part of a limit.
func (l *Loop) part(limit int) int {
	if limit == 0 {
		return 0
	}
	return max(1, limit/len(l.segments))
}

// share is a segment's part of the limits that may change. A host may have as many proxy QPs as it could have alone.
func (l *Loop) share(c ProxyQPLimits) ProxyQPLimits {
	c.Rate = l.part(c.Rate)
	return c
}

// maxGroups is how many groups a segment may have: those of its configuration, and a part of the rest.
func (l *Loop) maxGroups(s *segment) int {
	configured := 0
	for _, o := range l.segments {
		configured += len(o.cfg.Groups)
	}
	return len(s.cfg.Groups) + max(0, l.cfg.MaxGroups-configured)/len(l.segments)
}

// makeSegment makes the parts of a segment.
func (l *Loop) makeSegment(s *segment, x *exchange, log *ratelog.Logger) {
	cfg := l.cfg
	if len(l.segments) > 1 {
		log = ratelog.New(log.With("segment", s.name())) // with limits of its own, so that a flood hides nothing of others
	}
	s.nodes = reached{l.nodes, s, len(l.segments) > 1}
	s.proxyQPs = proxyqps.New(proxyqps.Config{
		Max: l.part(cfg.ProxyQPs), Limits: l.share(cfg.ProxyQPLimits), Every: tickEvery, Workers: len(l.workers),
		Waiting: l.part(cmp.Or(cfg.Waiting, proxyqps.WaitMost)), PKey: l.partitions.PKey,
	}, proxyqps.Deps{
		Tables: s.tables.ProxyQPs, Port: l.port, IsShort: func(err error) bool { return errors.Is(err, ibside.ErrNoQueuePair) }, Ask: l.ask, Log: log,
	})
	s.neighbours = neighbours.New(neighbours.Config{Max: l.part(cfg.MaxHosts), Version: s.cfg.Version, Hosts: s.cfg.Hosts, Resolve: s.cfg.Resolve,
		Confirm: cfg.ProxyQPLimits.Unconfirmed > 0},
		neighbours.Deps{
			Tables: s.tables.Hosts, NodeTables: l.tables.Nodes, Nodes: s.nodes, ProxyQPs: s.proxyQPs, Local: s.local, Frames: l.frames,
			Log: log, Ready: l.isReady,
			Wanted:  func(ip netip.Addr, now time.Time) { l.learner.Wanted(ip, now) },
			Claimed: func(ip netip.Addr, now time.Time) { l.learner.Claimed(ip, now) },
		})
	l.makeServices(s, x, log)
	s.gids = gids.New(gids.Config{Reserved: cfg.HostGIDs, Aliases: cfg.AliasGIDs}, gids.Deps{
		Tables: l.tables.Nodes, HostTables: s.tables.Hosts, Port: l.port, ProxyQPs: s.proxyQPs, Ask: l.ask, Log: log, OwnGID: s.sidr.OwnGID,
	})
	s.proxyQPs.Connect(s.neighbours, s.gids)
	s.groups = groups.New(groups.Config{
		Max: l.maxGroups(s), Version: s.cfg.Version, IBMTU: cfg.IBMTU, RoCEMTU: s.cfg.RoCEMTU, Ranges: s.cfg.Ranges, Querier: s.cfg.Querier,
		EthMTU: s.cfg.EthMTU, Receive: s.cfg.Receive, Begin: cfg.Begin, Police: cfg.Police,
	}, groups.Deps{
		Tables: s.tables.Groups, Port: l.port, Local: s.local, Frames: l.frames, Ask: l.ask, Log: log, IsPeer: s.neighbours.AnswersFor,
		Partition: l.partitions.Number,
		Elsewhere: func(mgid ib.GID) bool {
			return slices.ContainsFunc(l.segments, func(o *segment) bool { return o != s && o.groups.Has(mgid) })
		},
	})
}

func (l *Loop) makeServices(s *segment, x *exchange, log *ratelog.Logger) {
	c := sidr.Config{Ports: s.cfg.Ports, Allow: s.cfg.Allow, Translate: s.cfg.Translate, RoCEPKey: l.cfg.RoCEPKey}
	if l.cfg.Services != nil {
		c.Port = x.of(s)
	}
	partitionOf := l.tables.Nodes.PartitionOf
	if s.cfg.Bound != 0 {
		partitionOf = func(ib.GID) uint8 { return l.partitions.Number(s.cfg.Bound) }
	}
	s.sidr = sidr.New(c, sidr.Deps{
		Nodes: s.nodes, Hosts: s.neighbours, ProxyQPs: s.proxyQPs, Local: s.local, Frames: l.frames, Ask: l.ask, Log: log, Changed: l.publish,
		Wanted:     func(ip netip.Addr, now time.Time) bool { return l.learner.Wanted(ip, now) },
		Partitions: l.partitions, PartitionOf: partitionOf,
	})
}

// reached are the IB nodes that a segment reaches.
type reached struct {
	nodes   *nodes.Nodes
	segment *segment
	several bool // there are other segments
}

// Has reports whether an address is a node's.
func (r reached) Has(ip netip.Addr) bool {
	return r.nodes.Has(ip) && r.segment.reaches(r.nodes.PKey(ip))
}

// GID returns the GID of the node with an address; zero when there is none.
func (r reached) GID(ip netip.Addr) ib.GID {
	if !r.Has(ip) {
		return ib.GID{}
	}
	return r.nodes.GID(ip)
}

// noPKey is that of no partition.
const noPKey = ib.PKey(0x8000)

// PKey returns the P_Key that a node's requests for services must have: its own, or that of an only segment; 0: any.
// Where there are several segments, a node without one of its own gets none: what a request says of its partition,
// anybody can write.
func (r reached) PKey(ip netip.Addr) ib.PKey {
	switch k := r.nodes.PKey(ip); {
	case k != 0:
		return k
	case r.several:
		return noPKey
	}
	return r.segment.cfg.Bound
}

// Addrs yields the addresses of all nodes.
func (r reached) Addrs() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for ip := range r.nodes.Addrs() {
			if r.Has(ip) && !yield(ip) {
				return
			}
		}
	}
}
