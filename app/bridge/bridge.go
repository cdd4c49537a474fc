// SPDX-License-Identifier: Apache-2.0

// Package bridge builds a bridge bottom-up and attaches it to its two ports:
//
//	EAL ▶ mempool ▶ tables ▶ IB port ▶ Ethernet port ▶ datapath ▶ workers ▶ management
//
// It is the only package that knows which kinds of ports there are. What is built last is freed first.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ipoib"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
	"causeway/tables"
)

// A Bridge is a bridge that is built. It runs once. Its methods may be called from any goroutine. The parts that it
// consists of have their own state, and methods that belong to it.
type Bridge struct {
	cfg *config.Config // as it was at the start: for what does not change
	log *slog.Logger
	gate

	pool     *dpdk.Mempool
	tables   *tables.Tables
	ibPort   ibside.OpenPort
	resolver *ipoib.Neighbours // nil: nodes are not learned
	limits   *limits
	runner   runner // of the workers
	datapath *lcore.Datapath
	idle     config.Idle // what workers do
	confined bool        // the workers' threads
	loop     *manage.Loop
	eal      *dpdk.EAL
	lcores   []uint // of workers
	own      ownCore

	*configuration // in force, and its changes
	*readings      // the datapath's counters and latency
	*injector      // faults for tests of a network
	*mirrors       // copies of packets, for captures and traces
	*groupCounters
	*pgmTrackers
	*fabrics            // several InfiniBand ports
	*ports              // Ethernet ports
	shards   *shardGate // of the fleet's work; nil: there is no fleet
	*membership
	*beside
	atStop       atStop
	manage.Lists // of the loop

	teardown teardown
	failed   chan error // the first reason to end the bridge that is not the caller's
}

// Options are optional.
type Options struct {
	Log *slog.Logger
	// Around, if not nil, is called around opening an Ethernet port, also while the bridge runs: to do so in another network
	// namespace, where no other bridge is.
	Around func(open func() error) error
	// Unconfined leaves the workers' threads all system calls, for debuggers and tracers.
	Unconfined bool
	// NoHuge uses ordinary memory, and leaves hugepages to others. It is slower.
	NoHuge bool
	// Subnet, if not nil, replaces the software subnet that [ib] port describes. It stays the caller's.
	Subnet *fabric.Fabric
	// MoreSubnets are those of further [[ib]], in their order.
	MoreSubnets []*fabric.Fabric
	// Shared is what is in the configuration of its fleet's.
	Shared Shared
	// SetLogLevel, if not nil, changes the level of Log: Reload calls it.
	SetLogLevel func(level string) error
}

// Build builds a bridge as cfg says. On an error nothing is left behind. A process has one bridge, because it has one
// DPDK.
func Build(cfg *config.Config, o Options) (*Bridge, error) {
	b := &Bridge{cfg: cfg, log: o.Log, limits: newLimits(o.Log), confined: !o.Unconfined, failed: make(chan error, 1), beside: &beside{instance: rand.Uint64() | 1}, configuration: newConfiguration(cfg, o.SetLogLevel, o.Log)}
	for _, step := range []func() error{
		func() error { return b.startEAL(o.NoHuge) },
		b.makePool,
		b.makeTables,
		func() error { return b.attachIBPort(append([]*fabric.Fabric{o.Subnet}, o.MoreSubnets...)) },
		func() error { return b.attachEthernetPorts(o.Around) },
		b.makePGM,
		b.chooseIdle,
		b.makeDatapath,
		func() error { return lookForRivals(b) },
		b.makeManagement,
		func() error { return joinFleet(b, o.Shared) },
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, b.teardown.run())
		}
	}
	logSizes(b)
	logNodes(b)
	return b, nil
}

// logSizes says what a bridge's memory is for. Receive buffers are some of the packets.
func logSizes(b *Bridge) {
	const mib = 1 << 20
	receives := b.ibPort.Info().Receives
	b.log.Info("sizes", "packets_mib", b.pool.Bytes()/mib, "packets", b.pool.Size(),
		"receive_buffers_mib", receives*(b.pool.Bytes()/b.pool.Size())/mib, "receive_buffers", receives,
		"tables_mib_when_full", b.tables.Bytes()/mib, "proxy_qps", b.cfg.Workers.ProxyQPs, "hosts", b.cfg.Workers.Hosts)
}

// Run starts the workers and manages until ctx ends. Then it leaves the groups, lets the workers send the packets that
// they have, and stops them. onReady, if not nil, is called once when the bridge bridges.
func (b *Bridge) Run(ctx context.Context, onReady func()) error {
	if err := b.runner.start(); err != nil {
		return err
	}
	managing, done := context.WithCancel(context.WithoutCancel(ctx))
	var waiting sync.WaitGroup
	if onReady != nil {
		waiting.Go(func() { b.awaitReady(managing, onReady) })
	}
	waiting.Go(func() { b.limits.follow(managing, b.refusals) })
	waiting.Go(func() { b.runRivals(managing) })
	leave := b.takePart(context.WithoutCancel(ctx), b.fail)
	var failure error
	waiting.Go(func() {
		select {
		case failure = <-b.failed:
		case <-ctx.Done():
		case <-managing.Done():
		}
		leave()
		done()
	})
	err := b.own.run(b.cfg.Workers.Management, func() error { return b.loop.Run(managing) })
	b.configuration.end()
	done()
	waiting.Wait()
	for _, p := range b.ports.list() {
		p.carriers.leave()
	}
	err = errors.Join(failure, err)
	const grace = 20 * time.Millisecond // for the reports of leaving to reach the port
	time.Sleep(grace)
	b.runner.stop()
	b.atStop = b.readAtStop()
	b.loop.Drain()
	return err
}

// fail ends Run with an error.
func (b *Bridge) fail(err error) {
	select {
	case b.failed <- err:
	default: // it ends already
	}
}

func (b *Bridge) awaitReady(ctx context.Context, onReady func()) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if b.loop.Status().Ready && b.ports.up() {
			onReady()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close frees all, after Run. It returns an error when mbufs are still in use: a leak.
func (b *Bridge) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	return b.teardown.run()
}

func (b *Bridge) startEAL(noHuge bool) error {
	if cpu := b.cfg.Workers.Management; cpu != nil {
		if err := dpdk.CheckCPU("management", *cpu); err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
	}
	var pci []string
	for _, p := range b.cfg.EthPorts() {
		if p.Driver == "mlx5" {
			pci = append(pci, p.Arg)
		}
	}
	eal, err := dpdk.Init(dpdk.EALConfig{
		Name: "causeway", Workers: b.cfg.Workers.LCores, MemoryMiB: b.cfg.Workers.MemoryMiB, PCI: pci,
		Port: driverName(b.cfg.RoCE.Port), ForceNoHuge: noHuge,
	})
	if err != nil {
		return err
	}
	b.eal, b.lcores = eal, eal.WorkerLcores()
	b.teardown.add(eal.Close)
	if note := eal.Note(); note != "" {
		b.log.Info("memory", "note", note)
	}
	if idleOf(&b.cfg.Workers) != config.IdlePoll {
		return nil
	}
	return keepOff(b.cfg.Workers.LCores, b.cfg.Workers.Management)
}

// privateBytes is the private area of an mbuf, which a port may use for its descriptor.
const privateBytes = 128

// packetRoom is the data room of mbufs for the frames of all ports, bytes.
func packetRoom(cfg *config.Config) int {
	return max(lcore.DataRoom, dpdk.DataRoom(mostMTU(cfg.Segments())))
}

func (b *Bridge) makePool() error {
	pool, err := dpdk.NewMempool("packets", b.cfg.Workers.Mbufs, packetRoom(b.cfg), privateBytes)
	if err != nil {
		return err
	}
	b.pool = pool
	b.teardown.add(func() error {
		if n := pool.InUse(); n != 0 {
			return fmt.Errorf("bridge: %d mbufs are still in use at the end: a leak", n)
		}
		return pool.Free()
	})
	return nil
}

// Room for entries that were deleted, but that a worker may still read.
const (
	spareHosts  = 64
	spareNodes  = 64
	spareGroups = 64
)

func (b *Bridge) makeTables() error {
	t, err := tables.New(tables.Config{
		MaxHosts: b.cfg.Workers.Hosts + spareHosts, MaxProxyQPs: b.cfg.Workers.ProxyQPs,
		MaxNodes: b.cfg.Workers.Nodes + spareNodes, MaxGroups: b.cfg.Workers.Groups + spareGroups,
		MaxReaders: len(b.cfg.Workers.LCores) + 1, // see Tables
	})
	if err != nil {
		return err
	}
	t.Near(b.eal.Node(b.lcores[0]))
	b.tables = t
	b.teardown.add(func() error { t.Close(); return nil })
	return nil
}

func (b *Bridge) attachIBPort(subnets []*fabric.Fabric) error {
	b.fabrics = &fabrics{gate: &b.gate, inForce: b.Config, log: b.log, fail: b.fail}
	p, err := b.openIBPorts(subnets)
	if err != nil {
		return err
	}
	b.ibPort = p
	b.teardown.add(p.Close)
	if err := p.CheckPorts(portsOf(b.cfg.Services)); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	if b.resolver, err = openResolver(b.cfg, p, b.log); err != nil {
		return err
	}
	if b.resolver != nil {
		b.teardown.add(b.resolver.Close)
	}
	if _, ok := p.(ibside.Aliaser); !ok && b.cfg.IB.AliasGIDs {
		b.log.Warn("no_aliases", "note", "[ib] alias_gids takes an InfiniBand port and access to its subnet administrator")
	}
	return nil
}

// attachEthernetPorts opens the ports. Around is that of Options; nil: nobody else can have them.
func (b *Bridge) attachEthernetPorts(around func(func() error) error) error {
	again := make(chan struct{}, 1)
	b.ports = &ports{gate: &b.gate, again: again, opener: opener{
		pool: b.pool, inForce: b.Config, log: b.log, private: around != nil, around: around,
		paused: b.runner.paused, fail: b.fail, again: again,
	}}
	b.ports.opener.away = b.ports.away
	b.teardown.add(b.ports.closeAll)
	for i, name := range b.cfg.EthPorts() {
		p, err := b.ports.opener.open(b.cfg, name, uint8(i))
		if err != nil {
			return err
		}
		b.ports.insert(p, b.cfg)
	}
	return nil
}

// makePGM makes each worker's tracker of PGM streams, even if no group has any: a group may come that does.
func (b *Bridge) makePGM() error {
	b.pgmTrackers = &pgmTrackers{gate: &b.gate, inForce: b.Config}
	idle := uint64(b.cfg.Workers.PGMIdle.Seconds() * float64(lcore.TSCHz()))
	for i := range b.cfg.Workers.LCores {
		t, err := pgm.New(pgm.Config{Streams: b.cfg.Workers.PGMStreams, IdleCycles: idle})
		if err != nil {
			return err
		}
		t.Near(b.eal.Node(b.lcores[i]))
		b.trackers = append(b.trackers, t)
		b.teardown.add(func() error { t.Close(); return nil })
	}
	return nil
}
