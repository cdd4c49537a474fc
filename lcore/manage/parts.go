// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"log/slog"
	"net/netip"

	"causeway/ibside"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/gids"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/neighbours"
	"causeway/lcore/manage/nodes"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/lcore/manage/sidr"
	"causeway/tables"
)

// parts are the parts of management. Each owns its state; what one needs of another it declares as an interface.
type parts struct {
	nodes      *nodes.Nodes
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
		Max: cfg.ProxyQPs, PerHost: cfg.ProxyQPsPerHost, Idle: cfg.ProxyQPIdle, Every: tickEvery, Workers: len(l.workers),
	}, proxyqps.Deps{Tables: l.tables.ProxyQPs, Port: l.port, Log: log})
	p.neighbours = neighbours.New(neighbours.Config{Max: cfg.MaxHosts, Version: cfg.Version, Hosts: cfg.Hosts, Resolve: cfg.Resolve},
		neighbours.Deps{
			Tables: l.tables.Hosts, NodeTables: l.tables.Nodes, Nodes: p.nodes, ProxyQPs: p.proxyQPs, Local: l.local, Frames: l.frames,
			Log: log, Ready: l.isReady,
		})
	p.sidr = sidr.New(cfg.Service, sidr.Deps{
		Nodes: p.nodes, Hosts: p.neighbours, ProxyQPs: p.proxyQPs, Local: l.local, Frames: l.frames, Ask: l.ask, Log: log, Changed: l.publish,
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
	})
	return p
}

func maxGroups(cfg *Config) int { return max(cfg.MaxGroups, len(cfg.Groups)) }
