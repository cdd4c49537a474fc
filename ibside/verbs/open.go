// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/multicast"
)

// Config says which port a Port uses, and its sizes. The zero value of a number means its default.
type Config struct {
	Device string  // such as "mlx5_0"
	Port   int     // from 1
	PKey   ib.PKey // of proxy QPs; zero: the port's first
	GID    ib.GID  // the bridge's own; zero: the port's first, on an Ethernet link layer the first IPv4 address's

	Pool    *dpdk.Mempool // of receive buffers and of sends; closed after the Port
	Workers int
	Lcores  []uint // of the workers, whose memory is on these' NUMA nodes; nil: anywhere

	ProxyQPs int // queue pairs of each worker, multicast ones included (4096)
	// Receive buffers that each worker keeps posted (1 ms at full rate, and of all workers a third of the pool at most).
	Receives  int
	SendDepth int // sends under way of one queue pair, a power of two (128)
	Sends     int // sends under way of one worker (8192)
	AHs       int // address handles that each worker keeps (4096)
	Pending   int // messages of a worker that wait for address handles, 4096 at most (4096)

	Portable bool // post and poll by libibverbs also where the device's queues could be used directly

	Log *slog.Logger // nil: silent
	// Called when the device, or a part of it, is lost to this process: ErrDeviceGone. May be nil; must not call the Port.
	OnLoss func(error)
}

// Limits of the C side: a slot is 16 bits, a handle's index 18.
const (
	maxWorkers  = 64
	maxReceives = 1 << 15
	maxProxyQPs = 1<<18 - 1
)

// A Port is a port of an HCA, opened.
type Port struct {
	*services
	*attributes
	*qpTable

	cfg    Config
	dev    *device
	losses losses
	log    *slog.Logger
	ctx    context.Context // ends with the port
	stop   context.CancelFunc
	ended  sync.WaitGroup
	async  *eventFile
	cm     *channel
	sidr   *sidrPorts
	kick   chan struct{} // the port is up again: recover now

	ahs *resolver

	adminMu sync.RWMutex
	admin   administration // nil: rdma_cm joins, and there are no paths

	groups      *multicast.Groups
	memberships *memberships // of rdma_cm, where admin is nil
	anchors     *anchors     // the kernel's memberships beside admin's

	counts managementCounts

	stateMu   sync.Mutex
	stateSaid string // the port's state, as logged last; "": it was active when it was opened
}

// Open opens a port. It is an ibside.Administered where the link layer is InfiniBand and the machine permits subnet
// administration. The mempool's memory is registered, so the pool must not grow afterwards.
func Open(c Config) (ibside.OpenPort, error) {
	p, err := open(c)
	if err != nil {
		return nil, err
	}
	i := p.portInfo()
	p.log.Info("ib_port", "port", p.cfg.name(), "gid", i.GID, "lid", i.LID, "mtu", i.MTU.Bytes(), "ethernet", i.Ethernet, "active", i.Active,
		"blocks_own_multicast", p.dev.blocksOwnMulticast(), "thread_domains", !slices.ContainsFunc(p.workers, (*worker).outsideThreadDomain),
		"direct", p.Info().Direct)
	return p.administer(), nil
}

// newPort makes a Port without a device.
func newPort(c Config) *Port {
	p := &Port{
		cfg: c, log: c.Log, kick: make(chan struct{}, 1),
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.attributes = &attributes{cfg: &p.cfg}
	p.qpTable = newQPTable(&p.cfg, p.attributes, &p.counts)
	p.ahs = &resolver{port: p.attributes, counts: &p.counts, log: c.Log, free: make(chan struct{}, resolvers)}
	p.sidr = &sidrPorts{
		portReader: p.attributes, cfg: &p.cfg, log: c.Log, ctx: p.ctx, counts: &p.counts,
		source: p.ipoibSource, listeners: map[*listener]bool{}, free: make(chan struct{}, maxConnects),
	}
	p.groups, p.services = newGroups(p), newServices(p.sidr)
	p.memberships = &memberships{
		cfg: &p.cfg, port: p.attributes, groups: p.groups, counts: &p.counts, log: c.Log, ctx: p.ctx, report: p.handleEvent,
		ids: map[ib.GID]*joinID{}, rejoining: map[ib.GID]bool{},
	}
	p.anchors = &anchors{find: p.ipoibAddress, ctx: p.ctx, log: c.Log, all: map[ib.GID]*anchored{}}
	return p
}

func open(c Config) (*Port, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	dev, err := openDevice(c.Device, c.Port)
	if err != nil {
		return nil, err
	}
	p := newPort(c)
	p.dev, p.attributes.dev, p.ahs.dev = dev, dev, dev
	if !c.Portable {
		dev.useDirect()
	}
	if err := p.build(); err != nil {
		return nil, errors.Join(err, p.free())
	}
	p.losses = openLosses("/sys", &p.cfg)
	p.ended.Go(func() { p.tick(p.ctx) })
	p.ended.Go(func() { p.keepStock(p.ctx) })
	p.ended.Go(func() { p.async.each(func() error { return p.nextAsync() }) })
	p.ended.Go(func() { p.cm.file.each(func() error { return p.nextCM() }) })
	return p, nil
}

func (c *Config) name() string { return fmt.Sprintf("%s:%d", c.Device, c.Port) }

func (c *Config) complete() error {
	c.Port = cmp.Or(c.Port, 1)
	c.ProxyQPs = cmp.Or(c.ProxyQPs, 4096)
	c.SendDepth = cmp.Or(c.SendDepth, 128)
	c.Sends = cmp.Or(c.Sends, 8192)
	c.AHs = cmp.Or(c.AHs, 4096)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	within := func(what string, n, low, high int) error {
		if n < low || n > high {
			return fmt.Errorf("verbs: %s: %d %s; use %d to %d", c.name(), n, what, low, high)
		}
		return nil
	}
	if c.SendDepth&(c.SendDepth-1) != 0 {
		return fmt.Errorf("verbs: %s: send depth %d; use a power of two", c.name(), c.SendDepth)
	}
	return errors.Join(
		within("as port number", c.Port, 1, 255), within("workers", c.Workers, 1, maxWorkers),
		within("proxy QPs for each worker", c.ProxyQPs, 1, maxProxyQPs), within("receive buffers", cmp.Or(c.Receives, leastReceives), leastReceives, maxReceives),
		within("as send depth", c.SendDepth, 16, 1<<15), within("sends under way", c.Sends, c.SendDepth, 1<<20),
		within("address handles", c.AHs, 8, 1<<20))
}

// build makes what Close frees.
func (p *Port) build() error {
	if err := p.refreshPort(); err != nil {
		return err
	}
	if err := p.checkPort(); err != nil {
		return err
	}
	if err := p.sizeReceives(); err != nil {
		return err
	}
	if room, need := p.dev.poolRoom(p.cfg.Pool), areaLen+p.portInfo().MTU.Bytes(); room < need {
		return fmt.Errorf("verbs: %s: the mempool's buffers hold %d bytes and the port's MTU needs %d; make them larger", p.cfg.name(), room, need)
	}
	if err := p.dev.register(p.cfg.Pool); err != nil {
		return fmt.Errorf("verbs: %s: register the mempool's memory: %w; raise the limit of locked memory (ulimit -l), or use --iova-mode=va",
			p.cfg.name(), err)
	}
	for id := range p.cfg.Workers {
		w, err := p.newWorker(id)
		if err != nil {
			return fmt.Errorf("verbs: %s: queues of worker %d (%d receives, %d sends): %w; the device may hold fewer",
				p.cfg.name(), id, p.cfg.Receives, p.cfg.Sends, err)
		}
		p.workers = append(p.workers, w)
	}
	p.direct = !slices.ContainsFunc(p.workers, (*worker).isPortable)
	var err error
	if p.cm, err = openChannel(); err != nil {
		return fmt.Errorf("verbs: open rdma_cm: %w; load the kernel module rdma_ucm", err)
	}
	p.sidr.cm, p.memberships.cm, p.anchors.hold = p.cm, p.cm, p.cm.holdAnchor
	p.async, err = openEvents(p.dev.asyncFD())
	return err
}

// Close implements ibside.OpenPort. It rejects requests and frees all mbufs. It waits for address handles that are
// being created, which can take a second.
func (p *Port) Close() error {
	if !p.beginClose() {
		return nil
	}
	var administered error
	if a := p.administration(); a != nil {
		administered = a.Close()
	}
	err := errors.Join(administered, p.free())
	c := p.counters()
	p.log.Info("ib_port_closed", "posted", c.Posted, "sent", c.Sent, "send_drops", c.SendDrops, "received", c.Received,
		"delivered", c.Delivered, "receive_drops", c.Drops, "recovered", c.Recovered, "lost_by_device", p.LostByDevice())
	return err
}

// free ends and frees all but subnet administration.
func (p *Port) free() error {
	p.stop()
	p.memberships.close()
	p.anchors.close()
	p.sidr.close()
	if p.async != nil {
		p.async.close()
	}
	if p.cm != nil {
		p.cm.file.close()
	}
	p.ended.Wait()
	err := p.qpTable.free()
	if p.cm != nil {
		p.cm.free()
	}
	return errors.Join(err, p.dev.close())
}

// graceForAHs is how long an address handle outlives its entry in a cache: sends that name it may be under way.
const graceForAHs = 2 * time.Second
