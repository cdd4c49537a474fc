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
		IBIsEthernet: ibp.ethernet, BridgeUnknown: h.cfg.Policy.BridgeUnknown,
		Addresses: h.ownAddresses(), Allow: h.cfg.Policy.Allow,
		SLOfDSCP: h.cfg.QoS.SLOfDSCP, DSCPOfSL: h.cfg.QoS.DSCPOfSL, PCPOfSL: h.cfg.QoS.PCPOfSL,
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
		MaxHosts: h.cfg.Workers.Hosts, StandIns: h.cfg.Workers.Standins, StandInsPerHost: h.cfg.Workers.StandinsPerHost,
		StandInIdle: h.cfg.Workers.StandinIdle, HostGIDs: h.cfg.IB.HostGIDs, AliasGIDs: h.cfg.IB.AliasGIDs, Police: h.bench.Police,
	}
	c.Service = manage.ServiceConfig{
		Door: h.door.services(), Allow: h.cfg.Policy.Allow, PKey: h.cfg.IB.PKey, RoCEPKey: rocePKey,
		Ports: servicePorts(h.cfg),
	}
	ethernet := h.door.portInfo().ethernet
	for _, x := range h.cfg.Hosts {
		if x.Side == config.SideIB {
			c.Nodes = append(c.Nodes, manage.Node{IP4: x.IP, IP6: x.IP6, GID: x.GID, LID: x.LID, SL: x.SL, GRH: ethernet, Bridge: x.Bridge})
			continue
		}
		for _, ip := range x.Addrs() {
			if !x.HasMAC {
				c.Resolve = append(c.Resolve, ip)
				continue
			}
			c.Hosts = append(c.Hosts, tables.Host{IP: ip, MAC: x.MAC, VLAN: x.VLAN, Version: c.Version, Static: true})
		}
	}
	h.manageGroups(&c, ethernet)
	return c
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
	}[why])
}
