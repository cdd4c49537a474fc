// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"log/slog"
	"net/netip"

	"causeway/config"
	"causeway/dpdk"
	"causeway/fleet/lease"
	"causeway/fleet/peers"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

func versions(r *config.RoCE) (v uint8) {
	if r.V1 {
		v |= lcore.V1
	}
	if r.V2 {
		v |= lcore.V2
	}
	return v
}

// firstVersion is the RoCE version to groups, and to hosts that have sent nothing yet.
func firstVersion(r *config.RoCE) uint8 {
	if r.V2 {
		return lcore.V2
	}
	return lcore.V1
}

// datapathConfig is the workers' configuration, with the policy and the segments of cfg. The error is that a change to cfg
// is under way, and none of its segments is there yet.
func (b *Bridge) datapathConfig(cfg *config.Config) (lcore.DatapathConfig, error) {
	s := segmenter{b}
	numbers := s.numbers()
	segments, order := s.segments(cfg, numbers)
	if len(segments) == 0 {
		return lcore.DatapathConfig{}, errors.New("bridge: all segments are being changed; try again")
	}
	macs := b.ports.macs()
	return lcore.DatapathConfig{
		MAC: macs[0], MoreMACs: macs[1:], RoCEPKey: rocePKey, RewriteImm: true,
		Segment: segments[0], More: segments[1:], Numbers: order,
		Idle: idleModes[b.idle], Confine: b.confined,
		LearnNodes: b.cfg.IB.Learn, Lcore: b.lcores[0], VirtualMAC: virtualMAC(b.cfg.Fleet.Name),
		IBIsEthernet: b.ibPort.Info().Ethernet, Policy: policyOf(cfg, numbers),
	}, nil
}

func (b *Bridge) makeDatapath() error {
	cfg, err := b.datapathConfig(b.cfg)
	if err != nil {
		return err
	}
	d, err := lcore.NewDatapath(cfg, b.tables.Pointer())
	if err != nil {
		return err
	}
	b.ports.access.Lock()
	b.datapath, b.ports.datapath = d, d
	b.ports.access.Unlock()
	if mac := virtualMAC(b.cfg.Fleet.Name); mac != (frame.MAC{}) {
		b.shards = &shardGate{lease: lcore.LeaseOf(d), name: b.cfg.Fleet.Name, virtual: mac, log: b.log, patience: b.cfg.Fleet.Lease / 5}
		b.shards.lease.Late(lease.Settling(b.cfg.Fleet.Lease))
	}
	b.readings = &readings{gate: &b.gate, datapath: d}
	b.injector = &injector{gate: &b.gate, datapath: d, log: b.log}
	b.mirrors = &mirrors{&b.gate, d, b.ibPort, b.fabrics, func(n uint8) ib.PKey { return b.loop.PKey(n) }, b.ports}
	b.teardown.add(func() error { b.final = d.Close(); return nil })
	ids := b.ports.ids()
	for i := range b.cfg.Workers.LCores {
		_, err := d.NewWorker(lcore.WorkerConfig{
			Port: ids[0], MorePorts: ids[1:], Queue: uint16(i), IBPort: b.ibPort.Pointer(i), MaxGroups: b.cfg.Workers.Groups + spareGroups,
			PGM: b.trackers[i].Pointer(), PuntRing: roomsOf(b.cfg).punted, Lcore: b.lcores[i],
		})
		if err != nil {
			return err
		}
	}
	b.runner.set(d.Workers(), b.lcores)
	if b.idle != config.IdleInterrupt {
		return nil
	}
	b.ports.wakes = true
	b.teardown.add(b.ports.forgetWorkers)
	for _, p := range b.ports.list() {
		if err := p.wake(d.Workers()); err != nil {
			return err
		}
	}
	return nil
}

// rocePKey is the default partition, the only one that RoCE has (rdma_cm joins and connects with it).
const rocePKey = 0xffff

func (b *Bridge) makeManagement() error {
	b.groupCounters = &groupCounters{
		gate: &b.gate, datapath: b.datapath, base: map[int]lcore.GroupCounters{},
		status: func() manage.Status { return b.loop.Status() },
	}
	var workers []manage.Worker
	for _, w := range b.datapath.Workers() {
		workers = append(workers, worker{w, b.pool})
	}
	workers[0] = listeningWorker{workers[0], b.ports}
	b.loop = manage.New(b.manageConfig(), b.tables, b.ibPort, workers, b.log)
	b.Lists = b.loop.Lists()
	b.configuration.attach(b)
	return nil
}

// mostProxyQPs returns the limit of proxy QPs: what is wanted, or how many a device says that it has; 0: it does not.
func mostProxyQPs(wanted, has int, log *slog.Logger) int {
	if has == 0 || has >= wanted {
		return wanted
	}
	log.Warn("proxy_qps_short", "made", has, "limit", wanted, "note", "the InfiniBand device has no more queue pairs: lower [workers] proxy_qps")
	return has
}

func (b *Bridge) manageConfig() manage.Config {
	ibPort := b.ibPort.Info()
	c := manage.Config{
		MAC: b.ports.list()[0].mac(), PKey: b.cfg.IB.PKey, IBMTU: ibPort.MTU.Bytes(),
		MaxHosts: b.cfg.Workers.Hosts, MaxNodes: b.cfg.Workers.Nodes, MaxGroups: b.cfg.Workers.Groups, ProxyQPs: mostProxyQPs(b.cfg.Workers.ProxyQPs, ibPort.QueuePairs, b.log), Waiting: roomsOf(b.cfg).waiting,
		HostGIDs: b.cfg.IB.HostGIDs, AliasGIDs: b.cfg.IB.AliasGIDs, Police: b.datapath.Police, Begin: b.begin, Rests: b.datapath.SegmentRests,
		LinkUp: b.again, PuntRing: roomsOf(b.cfg).punted, Instance: b.instance, SetBridges: b.datapath.SetBridges,
	}
	if b.idle == config.IdleInterrupt {
		c.Punted = b.datapath.Punted()
		c.AwaitPunted = func() bool {
			b.datapath.AwaitPunted()
			return !b.ports.anyShared() // a listener tells of nothing
		}
	}
	if b.shards != nil {
		c.Fleet, c.OfFleet = b.shards, b.shards.fleet
	}
	if b.resolver != nil {
		c.Resolver, c.NodeIdle = b.resolver, b.cfg.IB.NodeIdle
	}
	c.Heard = func(data []byte) { b.received(peers.Ethernet, data) }
	c.Drained = b.hasLeft()
	x := changeTo(b.ports.place, b.cfg, ibPort.Ethernet, c.Drained)
	segmenter{b}.complete(&x, b.cfg)
	c.ProxyQPLimits, c.Nodes, c.Segment, c.More, c.Shared = x.ProxyQPLimits, x.Nodes, x.Segment, x.More, x.Shared
	c.Services, c.RoCEPKey = b.ibPort, rocePKey
	return c
}

// changeTo is management's part of a configuration, as far as it may change while the bridge runs. A drained bridge has
// no groups and services. Place says where management has a segment.
func changeTo(place func(config.Place) manage.Place, cfg *config.Config, ethernet, drained bool) manage.Change {
	c := manage.Change{ProxyQPLimits: limitsOf(&cfg.Workers), Drained: drained}
	all := make([]manage.Segment, len(cfg.Segments()))
	for i, r := range cfg.Segments() {
		all[i] = manage.Segment{
			Place: place(r.Place()), Label: r.Label(), Bound: r.PKey, Addresses: r.Addresses, Version: firstVersion(&r), RoCEMTU: r.IBMTU.Bytes(), EthMTU: r.MTU,
		}
		all[i].Allow, all[i].Translate = cfg.AllowedIn(&r), cfg.TranslationsIn(&r)
		if !drained {
			all[i].Querier, all[i].Ports = r.Querier, portsOf(cfg.ServicesIn(&r))
		}
	}
	if !drained {
		groupsTo(&c, all, place, cfg, ethernet)
	}
	for _, x := range cfg.Hosts {
		if x.Side == config.SideIB {
			c.Nodes = append(c.Nodes, manage.Node{IP4: x.IP, IP6: x.IP6, GID: x.GID, LID: x.LID, SL: x.SL, GRH: ethernet, Bridge: x.Bridge, PKey: x.PKey})
			continue
		}
		hostTo(all, cfg, &x)
	}
	c.Segment, c.More = all[0], all[1:]
	return c
}

func limitsOf(w *config.Workers) manage.ProxyQPLimits {
	return manage.ProxyQPLimits{
		PerHost: w.ProxyQPsPerHost, Unconfirmed: w.ProxyQPsUnconfirmed, Rate: w.ProxyQPRate, RatePerHost: w.ProxyQPRatePerHost, Idle: w.ProxyQPIdle,
	}
}

// policyOf is the workers' part of a configuration that may change. Numbers are those of the segments, by place.
func policyOf(cfg *config.Config, numbers map[config.Place]uint8) lcore.Policy {
	p := lcore.Policy{
		Allow: cfg.Policy.Allow, BridgeUnknown: cfg.Policy.BridgeUnknown,
		SLOfDSCP: cfg.QoS.SLOfDSCP, DSCPOfSL: cfg.QoS.DSCPOfSL, PCPOfSL: cfg.QoS.PCPOfSL,
	}
	p.AllowIn = make([][]netip.Prefix, tables.MaxSegments)
	for _, r := range cfg.Segments() {
		if n, known := numbers[r.Place()]; known {
			p.AllowIn[n] = r.Allow
		}
	}
	return p
}

// worker is a worker as management sees it.
type worker struct {
	w    *lcore.Worker
	pool *dpdk.Mempool
}

// TakePunted implements manage.Worker.
func (w worker) TakePunted() []manage.Punted {
	frames := w.w.TakePunted()
	out := make([]manage.Punted, len(frames))
	for i, f := range frames {
		out[i].Data, out[i].Port, out[i].Unknown = f.Data, f.Port, f.Unknown
		if f.Pending != nil {
			out[i].Pending = pending{f.Pending}
		}
	}
	return out
}

// Send implements manage.Worker.
func (w worker) Send(port uint8, f []byte) error { return w.w.Send(w.pool.Pointer(), port, f) }

// pending is a pending packet as management sees it.
type pending struct{ *lcore.PendingPacket }

// Reject implements manage.Pending.
func (p pending) Reject(why manage.Rejection) {
	p.Drop(map[manage.Rejection]lcore.Drop{
		manage.RejectFull:    lcore.DropProxyQPFull,
		manage.RejectBusy:    lcore.DropPuntFull,
		manage.RejectSource:  lcore.DropSourceRefused,
		manage.RejectStopped: lcore.DropShutdown,
		manage.RejectDenied:  lcore.DropACL,

		manage.RejectUnconfirmed: lcore.DropSourceUnconfirmed,
		manage.RejectRate:        lcore.DropProxyQPRate,
		manage.RejectSegment:     lcore.DropVLANUnknown,
	}[why])
}
