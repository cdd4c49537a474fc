// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"log/slog"
	"net/netip"
	"slices"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/learner"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours"
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
	segments []*segment
}

// New makes a loop. Workers are in the order of their numbers.
func New(cfg Config, t *tables.Tables, port ibside.Port, workers []Worker, log *slog.Logger) *Loop {
	l := &Loop{
		cfg: &cfg, port: port, tables: t, workers: workers, frames: punt.NewWorkers(workers), inbox: inbox.New(256, ErrEnded),
	}
	l.ask = ask.New(l.inbox)
	l.partitions = partitions.New(cfg.PKey)
	for i, c := range cfg.segments() {
		l.segments = append(l.segments, newSegment(uint8(i), c, cfg.MAC, t))
	}
	_ = l.partitions.Use(bounds(cfg.segments()))                                                                          // first, so that PartitionOf gives the same numbers
	_ = l.partitions.Use(l.pkeys(&Change{SegmentChange: cfg.SegmentChange, More: changesOf(cfg.More), Nodes: cfg.Nodes})) // a configuration has not too many
	l.number(cfg.Nodes)
	l.makeParts(ratelog.New(log))
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

func changesOf(segments []Segment) (all []SegmentChange) {
	for _, s := range segments {
		all = append(all, s.SegmentChange)
	}
	return all
}

func (l *Loop) makeParts(log *ratelog.Logger) {
	cfg := l.cfg
	l.nodes = nodes.New(cfg.Nodes, nodes.Deps{
		Tables: l.tables.Nodes, Paths: l.port, MTU: cfg.IBMTU, Ask: l.ask, Log: log, Reclaim: l.tables.Reclaim, Changed: l.publish,
		Readdress: func(added, removed []netip.Addr) {
			for _, s := range l.segments {
				s.neighbours.Readdress(slices.DeleteFunc(slices.Clone(added), func(ip netip.Addr) bool { return !s.nodes.Has(ip) }), removed)
			}
		},
	})
	x := newExchange(cfg.Services, l)
	for _, s := range l.segments {
		l.makeSegment(s, x, log)
	}
	first := l.segments[0]
	l.learner = l.newLearner(l.nodes, first.neighbours, first.local, log)
}

// newLearner returns nil where nodes are not learned.
func (l *Loop) newLearner(n *nodes.Nodes, hosts *neighbours.Neighbours, local *local.Addresses, log *ratelog.Logger) *learner.Learner {
	port, ok := l.port.(learner.Port)
	if l.cfg.Resolver == nil || !ok {
		return nil
	}
	return learner.New(learner.Config{
		Max: l.cfg.MaxNodes - len(l.cfg.Nodes), Idle: l.cfg.NodeIdle, Every: tickEvery, Allow: l.cfg.Allow, Translate: l.cfg.Translate,
	}, learner.Deps{
		Port: port, Resolver: l.cfg.Resolver, Nodes: n, Tables: l.tables.Nodes, Hosts: hosts, Local: local, Ask: l.ask, Log: log,
		Partition: l.unnumbered,
	})
}

// pkeysOf returns the P_Keys of nodes.
func pkeysOf(nodes []Node) (all []ib.PKey) {
	for _, n := range nodes {
		if n.PKey != 0 {
			all = append(all, n.PKey)
		}
	}
	return all
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
