// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/gids"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/limit"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours"
	"causeway/lcore/manage/nodes"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
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

	hostsMax       int
	wanted         limit.Rate // of requests for hosts that nodes want
	contradictions limit.Rate // of other stations that say they have a MAC address of the fleet's
	searched       searched
	proxyQPs       *proxyqps.ProxyQPs
	neighbours     *neighbours.Neighbours
	gids           *gids.GIDs
	groups         *groups.Groups
	sidr           *sidr.SIDR
}

func newSegment(number uint8, c Segment, of *Config, t *tables.Tables) *segment {
	return &segment{
		number: number, cfg: c, tables: t.In(number),
		local:  &local.Addresses{Link: frame.Link{MAC: c.mac(of.MAC), VID: c.VLAN}, IPs: c.Addresses, Fleet: of.Fleet},
		wanted: limit.NewRate(wantedPerSecond), contradictions: limit.NewRate(contradictionsPerSecond),
	}
}

// name names the segment for operators.
func (s *segment) name() string {
	if s.cfg.Label != "" {
		return s.cfg.Label
	}
	if s.cfg.VLAN == 0 {
		return "untagged"
	}
	return fmt.Sprint("VLAN ", s.cfg.VLAN)
}

// mac is that of its port; otherwise is that of an only one.
func (s *Segment) mac(otherwise frame.MAC) frame.MAC { return cmp.Or(s.MAC, otherwise) }

// reaches reports whether messages cross to and from nodes with a P_Key; 0: they have none of their own.
func (s *Segment) reaches(k ib.PKey) bool {
	return s.Bound == 0 || k == 0 || k == s.Bound
}

// segmentOf returns the segment that a frame is of; nil: there is none. Of one that was always the only one all are: workers
// take no others.
func (p *parts) segmentOf(of Place) *segment {
	if len(p.segments) == 1 && !p.came {
		return p.segments[0]
	}
	return p.at(of)
}

// A share is a segment's part of the limits.
type share struct {
	n      int // segments
	groups int // that no configuration takes
}

// shareOut shares the limits out to segments. Groups that several have are nobody's.
func (c *Config) shareOut(segments []Segment, shared []SharedGroup) share {
	return share{len(segments), max(0, c.MaxGroups-configured(segments, shared)) / len(segments)}
}

// configured is how many groups are configured.
func configured(segments []Segment, shared []SharedGroup) int {
	n := len(shared)
	for i := range segments {
		n += len(segments[i].Groups)
	}
	return n
}

// of is a segment's part of a limit; 0: there is none.
func (x share) of(limit int) int {
	if limit == 0 {
		return 0
	}
	return max(1, limit/x.n)
}

// ofProxyQPs is its part of the limits that may change. A host may have as many proxy QPs as it could have alone.
func (x share) ofProxyQPs(c ProxyQPLimits) ProxyQPLimits {
	c.Rate = x.of(c.Rate)
	return c
}

// setShare changes the segment's part of the limits. What is beyond it stays until it is not used any more.
func (s *segment) setShare(cfg *Config, x share, groups int) {
	s.hostsMax = x.of(cfg.MaxHosts)
	s.proxyQPs.SetMax(x.of(cfg.ProxyQPs), x.of(cmp.Or(cfg.Waiting, proxyqps.WaitMost)))
	s.neighbours.SetMax(s.hostsMax)
	s.groups.SetMax(groups + x.groups)
}

// logger returns a log for the segment, with limits of its own, so that a flood hides nothing of others.
func (s *segment) logger(log *slog.Logger, several *atomic.Bool) *ratelog.Logger {
	return ratelog.New(slog.New(named{log.Handler(), s.name(), several}))
}

// A named handler adds a segment's name to what it logs, while there are several.
type named struct {
	slog.Handler
	name    string
	several *atomic.Bool
}

// Handle implements slog.Handler.
func (h named) Handle(ctx context.Context, r slog.Record) error {
	if !h.several.Load() {
		return h.Handler.Handle(ctx, r)
	}
	return h.Handler.WithAttrs([]slog.Attr{slog.String("segment", h.name)}).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h named) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h named) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

// makeSegment makes the parts of a segment.
func (l *Loop) makeSegment(s *segment, x share) {
	cfg, log, frames := l.cfg, s.logger(l.log.Logger, &l.several), l.frames.By(s.cfg.Port)
	s.nodes, s.hostsMax = reached{l.nodes, s, l.several.Load}, x.of(cfg.MaxHosts)
	s.proxyQPs = proxyqps.New(proxyqps.Config{
		Max: x.of(cfg.ProxyQPs), Limits: x.ofProxyQPs(cfg.ProxyQPLimits), Every: tickEvery, Workers: len(l.workers),
		Waiting: x.of(cmp.Or(cfg.Waiting, proxyqps.WaitMost)), PKey: l.partitions.PKey,
	}, proxyqps.Deps{
		Tables: s.tables.ProxyQPs, Port: l.port, IsShort: func(err error) bool { return errors.Is(err, ibside.ErrNoQueuePair) }, Ask: l.ask, Log: log,
	})
	s.neighbours = neighbours.New(neighbours.Config{Max: s.hostsMax, Version: s.cfg.Version, Hosts: s.cfg.Hosts, Resolve: s.cfg.Resolve,
		Confirm: cfg.ProxyQPLimits.Unconfirmed > 0},
		neighbours.Deps{
			Tables: s.tables.Hosts, NodeTables: l.tables.Nodes, Nodes: s.nodes, ProxyQPs: s.proxyQPs, Local: s.local, Frames: frames,
			Log: log, Ready: l.isReady,
			Wanted:  func(ip netip.Addr, stranger bool, now time.Time) { l.learner.Wanted(ip, stranger, now) },
			Claimed: func(ip netip.Addr, now time.Time) { l.learner.Claimed(ip, now) },
		})
	l.makeServices(s, frames, log)
	s.gids = gids.New(gids.Config{Reserved: cfg.HostGIDs, Aliases: cfg.AliasGIDs}, gids.Deps{
		Tables: l.tables.Nodes, HostTables: s.tables.Hosts, Port: l.port, ProxyQPs: s.proxyQPs, Ask: l.ask, Log: log, OwnGID: s.sidr.OwnGID,
		Here: func(mac frame.MAC) bool { _, own := s.local.NodesLink(mac); return own },
	})
	s.proxyQPs.Connect(s.neighbours, s.gids)
	s.groups = groups.New(groups.Config{
		Max: len(s.cfg.Groups) + x.groups, Version: s.cfg.Version, IBMTU: cfg.IBMTU, RoCEMTU: s.cfg.RoCEMTU, Ranges: s.cfg.Ranges, Querier: s.cfg.Querier,
		EthMTU: s.cfg.EthMTU, Receive: s.cfg.Receive, Begin: cfg.Begin, Police: cfg.Police,
	}, groups.Deps{
		Tables: s.tables.Groups, Port: l.port, Local: s.local, Frames: frames, Ask: l.ask, Log: log, IsPeer: s.neighbours.AnswersFor,
		IsBridge:  func(mac frame.MAC) bool { return l.bridges.HasMAC(mac) },
		Partition: l.partitions.Number, Owners: &l.owners,
	})
}

func (l *Loop) makeServices(s *segment, frames *punt.Workers, log *ratelog.Logger) {
	c := sidr.Config{Ports: s.cfg.Ports, Allow: s.cfg.Allow, Translate: s.cfg.Translate, RoCEPKey: l.cfg.RoCEPKey}
	if l.cfg.Services != nil {
		c.Port = l.exchange.of(s)
	}
	partitionOf := l.tables.Nodes.PartitionOf
	if s.cfg.Bound != 0 {
		partitionOf = func(ib.GID) uint8 { return l.partitions.Number(s.cfg.Bound) }
	}
	s.sidr = sidr.New(c, sidr.Deps{
		Nodes: s.nodes, Hosts: s.neighbours, ProxyQPs: s.proxyQPs, Local: s.local, Frames: frames, Ask: l.ask, Log: log, Changed: l.publish,
		Wanted:     func(ip netip.Addr, now time.Time) bool { return l.learner.Wanted(ip, false, now) },
		Partitions: l.partitions, PartitionOf: partitionOf,
	})
}

// reached are the IB nodes that a segment reaches.
type reached struct {
	nodes   *nodes.Nodes
	segment *segment
	several func() bool // there are other segments
}

// Has reports whether an address is a node's.
func (r reached) Has(ip netip.Addr) bool {
	return r.nodes.Has(ip) && r.segment.cfg.reaches(r.nodes.PKey(ip))
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
	case r.several():
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
