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
	"sync/atomic"
	"time"

	"causeway/dpdk"
	"causeway/ibside/ib"
)

// Config says which port a Door uses, and how it is dimensioned. The zero value of a number means its default.
type Config struct {
	Device string  // such as "mlx5_0"
	Port   int     // from 1
	PKey   ib.PKey // of stand-ins; zero: the port's first
	GID    ib.GID  // the bridge's own; zero: the port's first, on an Ethernet link layer the first IPv4 address's

	Pool    *dpdk.Mempool // where receive buffers come from and sends lie; closed after the Door
	Workers int

	StandIns  int // queue pairs of each worker, multicast ones included (4096)
	Receives  int // receive buffers that each worker keeps posted (1024, and of all workers a quarter of the pool at most)
	SendDepth int // sends under way of one queue pair, a power of two (128)
	Sends     int // sends under way of one worker (8192)
	AHs       int // address handles that each worker keeps (4096)

	Log     *slog.Logger // nil: silent
	OnEvent func(Event)  // called for each event of the port, after the Door's own work; may be nil; must not call the Door
}

// limits of the C side: a slot is 16 bits, a handle's index 18.
const (
	maxWorkers  = 64
	maxReceives = 1 << 15
	maxStandIns = 1<<18 - 1
)

// A Door is a port of an HCA, opened. Its workers reach it by Pointer.
type Door struct {
	cfg     Config
	dev     *device
	workers []*worker
	log     *slog.Logger
	ctx     context.Context // ends with the door
	stop    context.CancelFunc
	ended   sync.WaitGroup
	async   *eventFile
	cm      *channel
	sidr    *sidrPorts
	kick    chan struct{} // the port is back: recover now

	portMu  sync.RWMutex
	port    PortInfo
	sources sources
	subnet  Subnet        // nil: rdma_cm joins, and nobody knows paths
	gidGen  atomic.Uint64 // raised when the GID table may have changed

	mu     sync.Mutex
	qps    map[uint32]*queuePair
	shared []*sharedQP

	joinMu sync.Mutex // one join or leave at a time
	groups map[ib.GID]*member

	closing   bool            // under mu
	rejoining map[ib.GID]bool // under mu
	counts    managementCounts
}

// Open opens the port. The mempool's memory is registered, so the pool must not grow afterwards.
func Open(c Config) (*Door, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	dev, err := openDevice(c.Device, c.Port)
	if err != nil {
		return nil, err
	}
	d := &Door{
		cfg: c, dev: dev, log: c.Log, qps: map[uint32]*queuePair{}, groups: map[ib.GID]*member{}, kick: make(chan struct{}, 1),
		rejoining: map[ib.GID]bool{}, sidr: newSIDRPorts(),
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	if err := d.build(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.ended.Go(func() { d.tend(d.ctx) })
	d.ended.Go(func() { d.async.each(func() error { return d.nextAsync() }) })
	d.ended.Go(func() { d.cm.file.each(func() error { return d.nextCM() }) })
	return d, nil
}

func (c *Config) name() string { return fmt.Sprintf("%s:%d", c.Device, c.Port) }

func (c *Config) complete() error {
	c.Port = cmp.Or(c.Port, 1)
	c.StandIns = cmp.Or(c.StandIns, 4096)
	c.Receives = cmp.Or(c.Receives, min(1024, max(64, c.Pool.Size()/(4*max(c.Workers, 1)))))
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
		within("stand-ins for each worker", c.StandIns, 1, maxStandIns), within("receive buffers", c.Receives, 64, maxReceives),
		within("as send depth", c.SendDepth, 16, 1<<15), within("sends under way", c.Sends, c.SendDepth, 1<<20),
		within("address handles", c.AHs, 8, 1<<20))
}

// build makes everything that Close takes down.
func (d *Door) build() error {
	if err := d.refreshPort(); err != nil {
		return err
	}
	if err := d.checkPort(); err != nil {
		return err
	}
	if room, need := d.dev.poolRoom(d.cfg.Pool), areaLen+d.port.MTU.Bytes(); room < need {
		return fmt.Errorf("verbs: %s: the mempool's buffers hold %d bytes and the port's MTU needs %d; make them larger", d.cfg.name(), room, need)
	}
	if err := d.dev.register(d.cfg.Pool); err != nil {
		return fmt.Errorf("verbs: %s: register the mempool's memory: %w; raise the limit of locked memory (ulimit -l), or use --iova-mode=va",
			d.cfg.name(), err)
	}
	for id := range d.cfg.Workers {
		w, err := d.newWorker(id)
		if err != nil {
			return fmt.Errorf("verbs: %s: queues of worker %d (%d receives, %d sends): %w; the device may hold fewer",
				d.cfg.name(), id, d.cfg.Receives, d.cfg.Sends, err)
		}
		d.workers = append(d.workers, w)
	}
	var err error
	if d.cm, err = openChannel(); err != nil {
		return fmt.Errorf("verbs: open rdma_cm: %w; load the kernel module rdma_ucm", err)
	}
	d.async, err = openEvents(d.dev.asyncFD())
	return err
}

// checkPort finds what makes the port useless, once it has been read.
func (d *Door) checkPort() error {
	p := &d.port
	if !p.Active {
		return fmt.Errorf("verbs: %s: the port is not active; bring its link up", d.cfg.name())
	}
	if d.cfg.PKey == 0 && len(p.PKeys) > 0 {
		d.cfg.PKey = p.PKeys[0]
	}
	index := slices.Index(p.PKeys, d.cfg.PKey)
	if index < 0 {
		return fmt.Errorf("verbs: %s: the port has no P_Key %v, only %v; ask the subnet manager for it or change [ib] pkey", d.cfg.name(), d.cfg.PKey, p.PKeys)
	}
	p.PKeyIndex = uint16(index)
	own, err := ownGID(p.GIDs, p.Ethernet, d.cfg.GID)
	if err != nil {
		return fmt.Errorf("verbs: %s: %w", d.cfg.name(), err)
	}
	p.GID = own
	d.sources.number(own, gidsOf(usable(p.GIDs, p.Ethernet)), time.Now())
	return nil
}

// Port describes the port.
func (d *Door) Port() PortInfo {
	d.portMu.RLock()
	defer d.portMu.RUnlock()
	p := d.port
	p.PKeys, p.GIDs = slices.Clone(p.PKeys), slices.Clone(p.GIDs)
	return p
}

// refreshPort reads the port anew. The bridge's own GID and P_Key index stay what they were chosen to be: see checkPKey.
func (d *Door) refreshPort() error {
	p, err := d.dev.readPort()
	if err != nil {
		return fmt.Errorf("verbs: %s: read the port: %w", d.cfg.name(), err)
	}
	d.portMu.Lock()
	defer d.portMu.Unlock()
	p.Device, p.Num, p.GID, p.PKeyIndex = d.cfg.Device, d.cfg.Port, d.port.GID, d.port.PKeyIndex
	d.port = p
	if !p.GID.IsZero() { // else it is still to be chosen
		d.sources.number(p.GID, gidsOf(usable(p.GIDs, p.Ethernet)), time.Now())
	}
	return nil
}

// Path says how to reach a port of the subnet. On Ethernet there is no subnet administrator and no LID: the answer is 0,
// and the address handle finds the way. On InfiniBand it takes UseSubnet.
func (d *Door) Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, ib.MTU, error) {
	p := d.Port()
	if p.Ethernet {
		return 0, 0, p.MTU, nil
	}
	if s := d.administration(); s != nil {
		return pathBySubnet(ctx, s, dgid)
	}
	return 0, 0, 0, fmt.Errorf("verbs: path to %v: this door cannot ask the subnet administrator; give the host its lid in the configuration", dgid)
}

// Close leaves the groups, refuses requests, ends what is under way and frees all mbufs. No worker may call the door any
// more. It waits for address handles that are being created, which can take a second.
func (d *Door) Close() error {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		return nil
	}
	d.closing = true
	d.mu.Unlock()
	d.stop()
	d.leaveAll()
	d.closeSIDR()
	if d.async != nil {
		d.async.close()
	}
	if d.cm != nil {
		d.cm.file.close()
	}
	d.ended.Wait()
	d.mu.Lock() // against Counters
	var err error
	for _, w := range d.workers {
		err = errors.Join(err, w.stopAndFree(d.counts.closed))
	}
	clear(d.qps)
	d.mu.Unlock()
	if d.cm != nil {
		d.cm.free()
	}
	return errors.Join(err, d.dev.close())
}

// graceForAHs is how long an address handle outlives its place in a cache: sends that name it may be under way.
const graceForAHs = 2 * time.Second
