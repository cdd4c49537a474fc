// SPDX-License-Identifier: Apache-2.0

package house

import (
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// roceMTU is the largest UD payload that both ends of the RoCE side take.
func roceMTU(cfg *config.Config) int { return cfg.RoCE.IBMTU.Bytes() }

func versions(cfg *config.Config) (v uint8) {
	if cfg.RoCE.V1 {
		v |= lcore.V1
	}
	if cfg.RoCE.V2 {
		v |= lcore.V2
	}
	return v
}

// firstVersion is what the bridge speaks to groups, and to hosts that have not spoken yet.
func firstVersion(cfg *config.Config) uint8 {
	if cfg.RoCE.V2 {
		return lcore.V2
	}
	return lcore.V1
}

func (h *House) link() frame.MAC { return frame.MAC(h.port.MAC()) }

func (h *House) makeBench() error {
	ibp := h.door.portInfo()
	b, err := lcore.NewBench(lcore.BenchConfig{
		MAC: h.port.MAC(), VLAN: h.cfg.RoCE.VLAN,
		RoCEPKey: rocePKey, PKeyIndex: ibp.pkeyIndex,
		IBMTU: ibp.mtu.Bytes(), RoCEMTU: roceMTU(h.cfg),
		Versions: versions(h.cfg), TTL: h.cfg.RoCE.TTL, RewriteImm: true, Sleep: h.cfg.Workers.Sleep,
		IBIsEthernet: ibp.ethernet, Addresses: h.ownAddresses(), Policy: policyOf(h.cfg),
	}, h.tables.Pointer())
	if err != nil {
		return err
	}
	h.bench = b
	h.onTakeDown(func() error { h.final = b.Close(); return nil })
	for i := range h.cfg.Workers.LCores {
		_, err := b.NewWorker(lcore.WorkerConfig{
			Port: h.port.ID(), Queue: uint16(i), Door: h.door.worker(i), MaxGroups: h.cfg.Workers.Groups + spareGroups, PGM: h.pgmOf(i),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rocePKey is the default partition, the only one that RoCE has (rdma_cm joins and connects with it).
const rocePKey = 0xffff

func (h *House) makeManagement() error {
	workers := make([]manage.Worker, 0, len(h.bench.Workers()))
	for _, w := range h.bench.Workers() {
		workers = append(workers, bench{w, h.pool})
	}
	h.loop = manage.New(h.manageConfig(), h.tables, h.door, h.heard(workers), h.log)
	return nil
}

func (h *House) manageConfig() manage.Config {
	c := manage.Config{
		MAC: h.link(), VLAN: h.cfg.RoCE.VLAN, Addresses: h.cfg.RoCE.Addresses, Version: firstVersion(h.cfg),
		IBMTU: h.door.portInfo().mtu.Bytes(), RoCEMTU: roceMTU(h.cfg),
		MaxHosts: h.cfg.Workers.Hosts, MaxNodes: h.cfg.Workers.Nodes, MaxGroups: h.cfg.Workers.Groups, StandIns: h.cfg.Workers.Standins,
		HostGIDs: h.cfg.IB.HostGIDs, AliasGIDs: h.cfg.IB.AliasGIDs, Police: h.bench.Police, Begin: h.beginGroup, Hear: h.hear,
	}
	x := h.changeTo(h.cfg)
	c.StandInsPerHost, c.StandInIdle, c.Querier = x.StandInsPerHost, x.StandInIdle, x.Querier
	c.Nodes, c.Hosts, c.Resolve, c.Groups, c.Ranges = x.Nodes, x.Hosts, x.Resolve, x.Groups, x.Ranges
	c.Service = manage.ServiceConfig{
		Door: h.door.services(), Allow: x.Allow, PKey: h.cfg.IB.PKey, RoCEPKey: rocePKey, Ports: x.Ports, Translate: x.Translate,
	}
	return c
}

// changeTo is what management is to know of a configuration, as far as it may change while the bridge runs.
func (h *House) changeTo(cfg *config.Config) manage.Change {
	ethernet := h.door.portInfo().ethernet
	c := manage.Change{
		Ports: servicePorts(cfg), Translate: cfg.Translations(), Allow: cfg.Policy.Allow, StandInsPerHost: cfg.Workers.StandinsPerHost,
		StandInIdle: cfg.Workers.StandinIdle, Querier: cfg.RoCE.Querier, Drained: h.drained,
	}
	if h.drained {
		c.Ports, c.Querier = nil, false
	} else {
		for _, g := range cfg.Groups {
			c.Groups = append(c.Groups, manageGroup(g, ethernet))
		}
		for i := range cfg.Ranges {
			c.Ranges = append(c.Ranges, manageRange(&cfg.Ranges[i], ethernet))
		}
	}
	for _, x := range cfg.Hosts {
		if x.Side == config.SideIB {
			c.Nodes = append(c.Nodes, manage.Node{IP4: x.IP, IP6: x.IP6, GID: x.GID, LID: x.LID, SL: x.SL, GRH: ethernet, Bridge: x.Bridge})
			continue
		}
		for _, ip := range x.Addrs() {
			if !x.HasMAC {
				c.Resolve = append(c.Resolve, ip)
				continue
			}
			c.Hosts = append(c.Hosts, tables.Host{IP: ip, MAC: x.MAC, VLAN: x.VLAN, Version: firstVersion(cfg), Static: true})
		}
	}
	return c
}

// policyOf is what the workers are to know of it.
func policyOf(cfg *config.Config) lcore.Policy {
	return lcore.Policy{
		Allow: cfg.Policy.Allow, BridgeUnknown: cfg.Policy.BridgeUnknown,
		SLOfDSCP: cfg.QoS.SLOfDSCP, DSCPOfSL: cfg.QoS.DSCPOfSL, PCPOfSL: cfg.QoS.PCPOfSL,
	}
}

// bench is a worker as management sees it.
type bench struct {
	w    *lcore.Worker
	pool *dpdk.Mempool
}

// TakeOdd implements manage.Worker.
func (b bench) TakeOdd() []manage.Odd {
	frames := b.w.TakeOdd()
	out := make([]manage.Odd, len(frames))
	for i, f := range frames {
		out[i].Data = f.Data
		if f.Held != nil {
			out[i].Held = held{f.Held}
		}
	}
	return out
}

// Send implements manage.Worker.
func (b bench) Send(f []byte) error { return b.w.Send(b.pool.Pointer(), f) }

// held is held data as management sees it.
type held struct{ *lcore.Held }

// Refuse implements manage.Held.
func (h held) Refuse(why manage.Refusal) {
	h.Drop(map[manage.Refusal]lcore.Drop{
		manage.RefuseFull:    lcore.DropStandInFull,
		manage.RefuseSource:  lcore.DropSourceRefused,
		manage.RefuseStopped: lcore.DropShutdown,
		manage.RefuseDenied:  lcore.DropACL,
	}[why])
}
