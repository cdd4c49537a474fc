// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/bridges"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/learner"
	"causeway/lcore/manage/messages"
	"causeway/lcore/manage/nodes"
	"causeway/lcore/manage/partitions"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

// parts are the parts of management. Each owns its state; what one needs of another it declares as an interface. Each
// segment has some of its own.
type parts struct {
	nodes    *nodes.Nodes
	learner  *learner.Learner // nil: no node is learned
	bridges  *bridges.List    // nil: the port has no list
	messages messages.Messages
	segments []*segment  // by number
	ended    []*segment  // removed, with something under way
	came     bool        // some have come or gone
	several  atomic.Bool // segments
	past     past
	shared   *groups.Groups // that several have
	sharing  []Group        // those, as they are configured
	exchange *exchange
	owners   groups.Owners // of MGIDs
}

// New makes a loop. Workers are in the order of their numbers.
func New(cfg Config, t *tables.Tables, port ibside.Port, workers []Worker, log *slog.Logger) *Loop {
	l := &Loop{
		cfg: &cfg, port: port, tables: t, workers: workers, frames: punt.NewWorkers(workers), inbox: inbox.New(256, ErrEnded),
		backlog: punt.NewBacklog(len(workers), cfg.PuntRing), drained: cfg.Drained,
	}
	l.ask = ask.New(l.inbox)
	l.partitions = partitions.New(cfg.PKey)
	for i, c := range cfg.segments() {
		l.segments = append(l.segments, newSegment(uint8(i), c, &cfg, t))
	}
	_ = l.partitions.Use(bounds(cfg.segments()))                         // first, so that PartitionOf gives the same numbers
	_ = l.partitions.Use(pkeysOf(cfg.segments(), cfg.Shared, cfg.Nodes)) // a configuration has not too many
	l.number(cfg.Nodes)
	l.log = ratelog.New(log)
	l.makeParts()
	l.publish()
	return l
}

func bounds(segments []Segment) (all []ib.PKey) {
	for _, s := range segments {
		if s.Bound != 0 {
			all = append(all, s.Bound)
		}
	}
	return all
}

// PartitionOf returns the number of the partition that one of these segments is bound to; own is the P_Key of [ib].
func PartitionOf(k, own ib.PKey, segments []Segment) uint8 {
	p := partitions.New(own)
	_ = p.Use(bounds(segments)) // a configuration has not too many
	return p.Number(k)
}

func (l *Loop) makeParts() {
	cfg := l.cfg
	l.nodes = nodes.New(cfg.Nodes, nodes.Deps{
		Tables: l.tables.Nodes, Paths: l.port, MTU: cfg.IBMTU, Ask: l.ask, Log: l.log, Reclaim: l.tables.Reclaim, Changed: l.publish,
		Readdress: func(added, removed []netip.Addr) {
			for _, s := range l.segments {
				s.neighbours.Readdress(slices.DeleteFunc(slices.Clone(added), func(ip netip.Addr) bool { return !s.nodes.Has(ip) }), removed)
			}
		},
	})
	l.several.Store(len(l.segments) > 1)
	l.exchange = newExchange(cfg.Services, &l.several)
	for _, s := range l.segments {
		l.makeSegment(s, cfg.shareOut(cfg.segments(), cfg.Shared))
	}
	l.makeShared()
	l.learner = l.newLearner(l.nodes, lookedAt{&l.parts})
	l.bridges = newBridges(l)
	l.messages = messages.Messages{PKey: cfg.RoCEPKey, Frames: l.frames, Heard: cfg.Heard}
}

// newBridges returns nil where the IB port's subnet has no list of bridges.
func newBridges(l *Loop) *bridges.List {
	port, _ := l.port.(ibside.Announcer)
	return bridges.New(bridges.Deps{
		Port: port, Own: l.port.Own, Instance: l.cfg.Instance, MACs: func() []frame.MAC { return macsOf(l.segments) }, Fleet: l.cfg.OfFleet, Tables: l.tables.Nodes, SetMACs: l.cfg.SetBridges,
		Ask: l.ask, Log: l.log,
	})
}

// macsOf returns the MAC addresses of the Ethernet ports, each once, in a fixed order.
func macsOf(segments []*segment) (all []frame.MAC) {
	for _, s := range segments {
		all = append(all, s.local.Link.MAC)
	}
	slices.SortFunc(all, func(a, b frame.MAC) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(all)
}

// newLearner returns nil where nodes are not learned.
func (l *Loop) newLearner(n *nodes.Nodes, at lookedAt) *learner.Learner {
	port, ok := l.port.(learner.Port)
	if l.cfg.Resolver == nil || !ok {
		return nil
	}
	return learner.New(learner.Config{
		Max: l.cfg.MaxNodes - len(l.cfg.Nodes), Idle: l.cfg.NodeIdle, Every: tickEvery, Allow: l.cfg.Allow, Translate: l.cfg.Translate,
	}, learner.Deps{
		Port: port, Resolver: l.cfg.Resolver, Nodes: n, Tables: l.tables.Nodes, Hosts: hostsAt{at}, Local: at, Ask: l.ask, Log: l.log,
		Partition: l.unnumbered,
	})
}

// pkeysOf returns the P_Keys that segments, groups and nodes need.
func pkeysOf(segments []Segment, shared []SharedGroup, nodes []Node) []ib.PKey {
	all := bounds(segments)
	for _, g := range shared {
		all = append(all, g.PKey)
	}
	for _, n := range nodes {
		all = append(all, n.PKey)
	}
	for i := range segments {
		for _, g := range segments[i].Groups {
			all = append(all, g.PKey)
		}
		for k := range segments[i].Ranges {
			all = append(all, segments[i].Ranges[k].Group.PKey)
		}
	}
	return slices.DeleteFunc(all, func(k ib.PKey) bool { return k == 0 })
}

// number gives nodes the numbers of their partitions.
func (l *Loop) number(nodes []Node) {
	for i, n := range nodes {
		nodes[i].Partition = l.unnumbered()
		if n.PKey != 0 {
			nodes[i].Partition = l.partitions.Number(n.PKey)
		}
	}
}

// unnumbered is the partition of a node without a P_Key: the one in which it was last heard. That is asked for only
// where there are several, because it costs each packet a look.
func (l *Loop) unnumbered() uint8 {
	if l.partitions.Several() {
		return tables.PartitionHeard
	}
	return 0
}
