// SPDX-License-Identifier: Apache-2.0

// Package house builds a bridge bottom-up and hangs its two doors:
//
//	EAL ▶ mempool ▶ tables ▶ IB door ▶ Ethernet door ▶ bench ▶ workers ▶ management
//
// It is the only place that knows which doors there are. What is built last is taken down first.
package house

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
	"causeway/tables"
)

// An ibDoor is an InfiniBand door as the house needs it.
type ibDoor interface {
	manage.IBDoor
	portInfo() ibPort
	worker(i int) doorPointer
	services() manage.Services
	serviceCounts() serviceCounts
	// close ends the door, after the workers.
	close() error
}

// losing is an IB door that knows what it has lost; see House.Lost.
type losing interface {
	lost() [2]map[string]uint64
}

// ibPort is what the bench must know of the IB port.
type ibPort struct {
	mtu       ib.MTU
	pkeyIndex uint16
	ethernet  bool // the link layer is Ethernet: no LIDs, GIDs are IP addresses
}

// A House is a bridge that is built. It runs once.
type House struct {
	cfg *config.Config // of the beginning: for what does not change
	log *slog.Logger
	*force

	pool   *dpdk.Mempool
	tables *tables.Tables
	door   ibDoor
	port   *dpdk.Port
	bench  *lcore.Bench
	loop   *manage.Loop
	lcores []uint
	counts groupCounts
	pgm    []*pgm.Tracker // one a worker; none, when no group wants one

	listener *listener // on a port that the kernel has, too

	undo   []func() error // of what is built, in the order of building
	mu     sync.Mutex
	closed bool
	final  lcore.Counters

	failed chan error // the first reason to end the bridge that is not the caller's
}

// Options is what a caller may bring along.
type Options struct {
	Log *slog.Logger
	// Around, if not nil, is called around opening the Ethernet port: to do so in another network namespace.
	Around func(open func() error) error
	// NoHuge leaves hugepages to others: ordinary memory does for what is not about speed.
	NoHuge bool
	// Subnet, if not nil, takes the place of the software subnet that [ib] port describes. It stays the caller's.
	Subnet *fabric.Fabric
	// SetLogLevel, if not nil, changes the level of Log: Reload calls it.
	SetLogLevel func(level string) error
}

// Build builds a bridge after cfg. On an error nothing is left behind. One bridge a process, because DPDK
// is one a process.
func Build(cfg *config.Config, o Options) (*House, error) {
	h := &House{cfg: cfg, log: o.Log, failed: make(chan error, 1), force: newForce(cfg, o.SetLogLevel)}
	if o.Around == nil {
		o.Around = func(open func() error) error { return open() }
	}
	for _, step := range []func() error{
		func() error { return h.startEAL(o.NoHuge) },
		h.makePool,
		h.makeTables,
		func() error { return h.hangIBDoor(o.Subnet) },
		func() error { return o.Around(h.hangEthernetDoor) },
		h.makePGM,
		h.makeBench,
		h.makeManagement,
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, h.takeDown())
		}
	}
	const mib = 1 << 20
	h.log.Info("sizes", "packets_mib", h.pool.Bytes()/mib, "packets", h.pool.Size(), "tables_mib_when_full", h.tables.Bytes()/mib,
		"standins", h.cfg.Workers.Standins, "hosts", h.cfg.Workers.Hosts)
	return h, nil
}

// Run starts the workers and manages until ctx ends. Then it leaves the groups, lets the workers send what
// is inside, and stops them. onReady, if not nil, is called once when the bridge bridges.
func (h *House) Run(ctx context.Context, onReady func()) error {
	for i, w := range h.bench.Workers() {
		if err := w.Start(h.lcores[i]); err != nil {
			h.stopWorkers()
			return err
		}
	}
	managing, done := context.WithCancel(ctx)
	var watching sync.WaitGroup
	if onReady != nil {
		watching.Go(func() { h.awaitReady(managing, onReady) })
	}
	var failure error
	watching.Go(func() {
		select {
		case failure = <-h.failed:
			done()
		case <-managing.Done():
		}
	})
	err := h.loop.Run(managing)
	done()
	watching.Wait()
	err = errors.Join(failure, err)
	const grace = 20 * time.Millisecond // for the leaves just written to reach the port
	time.Sleep(grace)
	h.stopWorkers()
	h.loop.Drain()
	return err
}

// fail ends Run with an error.
func (h *House) fail(err error) {
	select {
	case h.failed <- err:
	default: // it ends already
	}
}

func (h *House) stopWorkers() {
	for _, w := range h.bench.Workers() {
		w.Stop()
	}
}

func (h *House) awaitReady(ctx context.Context, onReady func()) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if h.loop.Status().Ready {
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

// Counters returns what all workers and management counted; after Close, the final reading.
func (h *House) Counters() lcore.Counters {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return h.final
	}
	return h.bench.Counters()
}

// Workers returns each worker's own reading.
func (h *House) Workers() []lcore.Counters {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	var out []lcore.Counters
	for _, w := range h.bench.Workers() {
		out = append(out, w.Counters())
	}
	return out
}

// Ethernet returns the Ethernet port's own counters, and whether its link is up. What the port loses, no worker sees.
func (h *House) Ethernet() (s dpdk.Stats, up bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return dpdk.Stats{}, false
	}
	s, err := h.port.Stats()
	if err != nil { // a PMD without statistics
		s = dpdk.Stats{}
	}
	return s, h.port.LinkUp()
}

// Lost returns what the IB door has lost outside of the workers' books, by direction and reason: towards IB after they
// counted it as sent, and towards RoCE before they received it.
func (h *House) Lost() (lost [2]map[string]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok := h.door.(losing); ok && !h.closed {
		lost = d.lost()
	}
	return lost
}

// Services returns what became of requests for services that came to the IB door, and of those that it has sent.
func (h *House) Services() (requests, connects map[string]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil
	}
	c := h.door.serviceCounts()
	return c.requests, c.connects
}

// Status returns how management stands.
func (h *House) Status() manage.Status { return h.loop.Status() }

// Close takes the bridge down, after Run. It returns an error when something was left over that should
// not be: mbufs in use are a leak.
func (h *House) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	return h.takeDown()
}

// takeDown undoes what is built, last first.
func (h *House) takeDown() error {
	var errs []error
	for i := len(h.undo) - 1; i >= 0; i-- {
		errs = append(errs, h.undo[i]())
	}
	h.undo = nil
	return errors.Join(errs...)
}

func (h *House) onTakeDown(f func() error) { h.undo = append(h.undo, f) }

func (h *House) startEAL(noHuge bool) error {
	var pci []string
	if h.cfg.RoCE.Port.Driver == "mlx5" {
		pci = []string{h.cfg.RoCE.Port.Arg}
	}
	eal, err := dpdk.Init(dpdk.EALConfig{
		Name: "causeway", Workers: h.cfg.Workers.LCores, MemoryMiB: h.cfg.Workers.MemoryMiB, PCI: pci,
		ForceNoHuge: noHuge,
	})
	if err != nil {
		return err
	}
	h.lcores = eal.WorkerLcores()
	h.onTakeDown(eal.Close)
	if note := eal.Note(); note != "" {
		h.log.Info("memory", "note", note)
	}
	if h.cfg.Workers.Sleep {
		return nil
	}
	return keepOff(h.cfg.Workers.LCores)
}

// privateBytes is the area of an mbuf that a door may use for its descriptor.
const privateBytes = 128

func (h *House) makePool() error {
	room := max(lcore.DataRoom, dpdk.DataRoom(h.cfg.RoCE.MTU))
	pool, err := dpdk.NewMempool("packets", h.cfg.Workers.Mbufs, room, privateBytes)
	if err != nil {
		return err
	}
	h.pool = pool
	h.onTakeDown(func() error {
		if n := pool.InUse(); n != 0 {
			return fmt.Errorf("house: %d mbufs are still in use at the end: a leak", n)
		}
		return pool.Free()
	})
	return nil
}

// spareHosts is room for hosts that were forgotten, but that a worker may still look at; spareNodes is so for IB nodes.
const (
	spareHosts = 64
	spareNodes = 64
)

func (h *House) makeTables() error {
	t, err := tables.New(tables.Config{
		MaxHosts: h.cfg.Workers.Hosts + spareHosts, MaxStandIns: h.cfg.Workers.Standins,
		MaxNodes: h.cfg.Workers.Nodes + spareNodes, MaxGroups: h.cfg.Workers.Groups + spareGroups,
		MaxReaders: len(h.cfg.Workers.LCores) + 1, // see Shelves
	})
	if err != nil {
		return err
	}
	h.tables = t
	h.onTakeDown(func() error { t.Close(); return nil })
	return nil
}

func (h *House) hangIBDoor(subnet *fabric.Fabric) error {
	if !h.cfg.IB.Port.Fabric {
		d, err := hangVerbs(h.cfg, h.pool, h.fail, h.log)
		if err != nil {
			return err
		}
		h.door = d
		h.onTakeDown(d.close)
		return nil
	}
	d, err := hangFabric(h.cfg, h.pool, subnet, h.log)
	if err != nil {
		return err
	}
	h.door = d
	h.onTakeDown(d.close)
	return nil
}

func (h *House) hangEthernetDoor() error {
	if err := h.claimPort(); err != nil {
		return err
	}
	n := len(h.cfg.Workers.LCores)
	p, err := dpdk.OpenPort(h.cfg.RoCE.Port.String(), dpdk.PortConfig{
		Pool: h.pool, RxQueues: n, TxQueues: n, RxDescs: h.cfg.Workers.RxDescs, TxDescs: h.cfg.Workers.TxDescs,
		MTU: h.cfg.RoCE.MTU,
	})
	if err != nil {
		return err
	}
	h.port = p
	h.onTakeDown(p.Close)
	if p.Shared() {
		if err := p.Isolate(true); err != nil {
			return err
		}
	}
	if err := p.Start(); err != nil {
		return err
	}
	h.onTakeDown(p.Stop)
	return h.steer()
}

// ownAddresses are the bridge's own, the link-local one included.
func (h *House) ownAddresses() []netip.Prefix {
	own := append([]netip.Prefix(nil), h.cfg.RoCE.Addresses...)
	linkLocal := h.link().LinkLocal()
	return append(own, netip.PrefixFrom(linkLocal, 64))
}
