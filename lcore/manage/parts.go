// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/gids"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/learner"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours"
	"causeway/lcore/manage/nodes"
	"causeway/lcore/manage/partitions"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/lcore/manage/sidr"
	"causeway/tables"
)

// parts are the parts of management. Each owns its state; what one needs of another it declares as an interface.
type parts struct {
	nodes      *nodes.Nodes
	learner    *learner.Learner // nil: no node is learned
	proxyQPs   *proxyqps.ProxyQPs
	neighbours *neighbours.Neighbours
	gids       *gids.GIDs
	groups     *groups.Groups
	sidr       *sidr.SIDR
}

// New makes a loop. Workers are in the order of their numbers.
func New(cfg Config, t *tables.Tables, port ibside.Port, workers []Worker, log *slog.Logger) *Loop {
	l := &Loop{
		cfg: &cfg, port: port, tables: t, workers: workers, frames: punt.NewWorkers(workers),
		local: &local.Addresses{Link: frame.Link{MAC: cfg.MAC, VID: cfg.VLAN}, IPs: cfg.Addresses},
		inbox: inbox.New(256, ErrEnded),
	}
	l.ask = ask.New(l.inbox)
	l.partitions = partitions.New(cfg.PKey)
	_ = l.partitions.Use(pkeysOf(cfg.Nodes, cfg.Groups, cfg.Ranges)) // a configuration has not too many
	l.number(cfg.Nodes)
	l.parts = l.newParts(ratelog.New(log))
	l.publish()
	return l
}

func (l *Loop) newParts(log *ratelog.Logger) (p parts) {
	cfg := l.cfg
	p.nodes = nodes.New(cfg.Nodes, nodes.Deps{
		Tables: l.tables.Nodes, Paths: l.port, MTU: cfg.IBMTU, Ask: l.ask, Log: log, Reclaim: l.tables.Reclaim, Changed: l.publish,
		Readdress: func(added, removed []netip.Addr) { p.neighbours.Readdress(added, removed) },
	})
	p.proxyQPs = proxyqps.New(proxyqps.Config{
		Max: cfg.ProxyQPs, Limits: cfg.ProxyQPLimits, Every: tickEvery, Workers: len(l.workers), Waiting: cfg.Waiting,
		PKey: l.partitions.PKey,
	}, proxyqps.Deps{
		Tables: l.tables.ProxyQPs, Port: l.port, IsShort: func(err error) bool { return errors.Is(err, ibside.ErrNoQueuePair) }, Ask: l.ask, Log: log,
	})
	p.neighbours = neighbours.New(neighbours.Config{Max: cfg.MaxHosts, Version: cfg.Version, Hosts: cfg.Hosts, Resolve: cfg.Resolve,
		Confirm: cfg.ProxyQPLimits.Unconfirmed > 0},
		neighbours.Deps{
			Tables: l.tables.Hosts, NodeTables: l.tables.Nodes, Nodes: p.nodes, ProxyQPs: p.proxyQPs, Local: l.local, Frames: l.frames,
			Log: log, Ready: l.isReady,
			Wanted:  func(ip netip.Addr, now time.Time) { p.learner.Wanted(ip, now) },
			Claimed: func(ip netip.Addr, now time.Time) { p.learner.Claimed(ip, now) },
		})
	p.learner = l.newLearner(p.nodes, p.neighbours, log)
	p.sidr = sidr.New(cfg.Service, sidr.Deps{
		Nodes: p.nodes, Hosts: p.neighbours, ProxyQPs: p.proxyQPs, Local: l.local, Frames: l.frames, Ask: l.ask, Log: log, Changed: l.publish,
		Wanted:     func(ip netip.Addr, now time.Time) bool { return p.learner.Wanted(ip, now) },
		Partitions: l.partitions, PartitionOf: l.tables.Nodes.PartitionOf,
	})
	p.gids = gids.New(gids.Config{Reserved: cfg.HostGIDs, Aliases: cfg.AliasGIDs}, gids.Deps{
		Tables: l.tables.Nodes, HostTables: l.tables.Hosts, Port: l.port, ProxyQPs: p.proxyQPs, Ask: l.ask, Log: log,
		OwnGID: p.sidr.OwnGID,
	})
	p.proxyQPs.Connect(p.neighbours, p.gids)
	p.groups = groups.New(groups.Config{
		Max: maxGroups(cfg), Version: cfg.Version, IBMTU: cfg.IBMTU, RoCEMTU: cfg.RoCEMTU, Ranges: cfg.Ranges, Querier: cfg.Querier,
		EthMTU: cfg.EthMTU, Receive: cfg.Receive, Begin: cfg.Begin, Police: cfg.Police,
	}, groups.Deps{
		Tables: l.tables.Groups, Port: l.port, Local: l.local, Frames: l.frames, Ask: l.ask, Log: log, IsPeer: p.neighbours.AnswersFor,
		Partition: l.partitions.Number,
	})
	return p
}

// newLearner returns nil where nodes are not learned.
func (l *Loop) newLearner(n *nodes.Nodes, hosts *neighbours.Neighbours, log *ratelog.Logger) *learner.Learner {
	port, ok := l.port.(learner.Port)
	if l.cfg.Resolver == nil || !ok {
		return nil
	}
	return learner.New(learner.Config{
		Max: l.cfg.MaxNodes - len(l.cfg.Nodes), Idle: l.cfg.NodeIdle, Every: tickEvery, Allow: l.cfg.Service.Allow, Translate: l.cfg.Service.Translate,
	}, learner.Deps{
		Port: port, Resolver: l.cfg.Resolver, Nodes: n, Tables: l.tables.Nodes, Hosts: hosts, Local: l.local, Ask: l.ask, Log: log,
		Partition: l.unnumbered,
	})
}

// pkeysOf returns the P_Keys of nodes, groups and ranges.
func pkeysOf(nodes []Node, groups []Group, ranges []Range) (all []ib.PKey) {
	add := func(k ib.PKey) {
		if k != 0 {
			all = append(all, k)
		}
	}
	for _, n := range nodes {
		add(n.PKey)
	}
	for _, g := range groups {
		add(g.PKey)
	}
	for i := range ranges {
		add(ranges[i].Group.PKey)
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

func maxGroups(cfg *Config) int { return max(cfg.MaxGroups, len(cfg.Groups)) }
