// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
)

// An opener opens Ethernet ports, at the start and later.
type opener struct {
	pool    *dpdk.Mempool
	inForce func() *config.Config
	log     *slog.Logger
	private bool                          // nobody else can have them
	around  func(open func() error) error // nil: nothing is

	// Of their carriers.
	paused func(f func() error) error
	away   away
	fail   func(error)
	again  chan struct{}
}

// away calls f while no worker polls a port, and others go on; false: the port is the only one, or is polled by none yet, and f
// was not called.
type away func(index uint8, f func() error) (done bool, err error)

// away is one.
func (x *ports) away(index uint8, f func() error) (done bool, err error) {
	x.access.Lock()
	d := x.datapath
	x.access.Unlock()
	if d == nil { // nor is there any worker yet
		return false, nil
	}
	return d.Away(index, f)
}

// open opens and starts the port of that name, with the segments that cfg has there, under an index. On an error nothing is
// left of it.
func (o *opener) open(cfg *config.Config, name config.EthPort, index uint8) (*ethernetPort, error) {
	p := &ethernetPort{cfg: cfg, name: name, index: index, inForce: o.inForce, log: o.log, private: o.private}
	open := func() error {
		if err := p.open(o.pool, &p.close); err != nil {
			return err
		}
		p.carriers = &carriers{port: p, log: o.log, paused: o.paused, away: o.away, fail: o.fail, again: o.again}
		return p.carriers.watch(&p.close)
	}
	around := o.around
	if around == nil {
		around = func(open func() error) error { return open() }
	}
	if err := around(open); err != nil {
		return nil, errors.Join(err, p.close.run())
	}
	return p, nil
}

// insert adds a port, and puts all into the order of the configuration.
func (x *ports) insert(p *ethernetPort, cfg *config.Config) {
	x.access.Lock()
	defer x.access.Unlock()
	order := cfg.EthPorts()
	all := append(slices.Clone(x.ethernet), p)
	slices.SortStableFunc(all, func(a, b *ethernetPort) int { return slices.Index(order, a.name) - slices.Index(order, b.name) })
	x.ethernet = all
}

// remove takes a port out. Nobody who reads the ports, while the bridge is open, has it from then on.
func (x *ports) remove(p *ethernetPort) {
	x.gate.whileOpen(func() {
		x.access.Lock()
		defer x.access.Unlock()
		x.ethernet = slices.DeleteFunc(slices.Clone(x.ethernet), func(o *ethernetPort) bool { return o == p })
	})
}

// closeAll closes all ports, the last first, when no worker uses them any more.
func (x *ports) closeAll() error {
	var errs []error
	for _, p := range slices.Backward(x.list()) {
		errs = append(errs, p.close.run())
	}
	return errors.Join(errs...)
}

// forgetWorkers is to be called before they are gone.
func (x *ports) forgetWorkers() error {
	for _, p := range x.list() {
		p.forgetWorkers()
	}
	return nil
}

// checkNew reports why ports that a configuration names, and that are not open, cannot be opened while the bridge runs.
func (x *ports) checkNew(started, to *config.Config) error {
	for _, r := range to.Segments() {
		if x.named(r.Port) != nil {
			continue
		}
		for _, l := range append(r.Port.Links(), r.Port) {
			if l.Driver == "mlx5" && !slices.Contains(started.EthPorts(), r.Port) {
				return fmt.Errorf("[[roce]] %s: port %v is new, and DPDK takes PCI devices only when it starts: restart the bridge", r.Name(), r.Port)
			}
		}
		if by, link := x.inUse(r.Port); by != nil {
			return fmt.Errorf("[[roce]] %s: %q is in use by the port %v until that is closed: reload a file without it first, or restart the bridge", r.Name(), link.String(), by.name)
		}
		if room, has := dpdk.DataRoom(r.MTU), packetRoom(started); room > has {
			return fmt.Errorf("[[roce]] %s: mtu %d takes packets of %d bytes, and the bridge's are of %d since its start: lower it, or restart the bridge", r.Name(), r.MTU, room, has)
		}
	}
	return nil
}

// inUse returns an open port that lives on an interface of another, and by which link of that; nil: there is none. The other
// would be opened first, and lose its address and mode of reception when the port is closed.
func (x *ports) inUse(by config.EthPort) (*ethernetPort, config.EthPort) {
	for _, p := range x.list() {
		for _, own := range p.name.Links() {
			for _, l := range by.Links() {
				if slices.ContainsFunc(interfacesOf(l), func(name string) bool { return slices.Contains(interfacesOf(own), name) }) {
					return p, l
				}
			}
		}
	}
	return nil, config.EthPort{}
}

// interfacesOf names the kernel's interfaces that a port lives on or makes.
func interfacesOf(p config.EthPort) []string {
	if p.Driver != "af_packet" && p.Driver != "tap" {
		return nil
	}
	return strings.Split(p.Arg, ",remote=")
}

// openNew opens the ports that a configuration names besides, and has workers poll them, before there are segments. Undo
// closes them again. On an error none is open that was not.
func (x *ports) openNew(ctx context.Context, to *config.Config) (undo func() error, err error) {
	var done []*ethernetPort
	undo = func() error {
		var errs []error
		for _, p := range slices.Backward(done) {
			x.datapath.RemovePort(p.index)
			x.remove(p)
			errs = append(errs, p.close.run())
		}
		return errors.Join(errs...)
	}
	for _, name := range to.EthPorts() {
		if x.named(name) != nil {
			continue
		}
		p, err := x.openOne(ctx, to, name)
		if err != nil {
			return nil, errors.Join(err, undo())
		}
		done = append(done, p)
	}
	return undo, nil
}

func (x *ports) openOne(ctx context.Context, to *config.Config, name config.EthPort) (*ethernetPort, error) {
	index, err := x.datapath.FreePort()
	if err != nil {
		return nil, fmt.Errorf("port %v: %w", name, err)
	}
	p, err := x.opener.open(to, name, index)
	if err != nil {
		return nil, err
	}
	if x.wakes {
		if err = p.wake(x.datapath.Workers()); err != nil {
			err = fmt.Errorf("%w; idle workers sleep until a port wakes them: restart the bridge with it, or with [workers] idle \"sleep\"", err)
		}
	}
	if err == nil {
		err = x.datapath.AddPort(ctx, index, p.port.MAC(), p.port.ID())
	}
	if err != nil {
		return nil, errors.Join(err, p.close.run())
	}
	x.insert(p, to)
	return p, nil
}

// How long is waited for what is under way at a port that is to be closed.
const (
	sendWithin  = 100 * time.Millisecond // management's last reports
	countWithin = time.Second            // packets that management or other workers have
	lookEvery   = time.Millisecond
)

// closeUnused closes the ports in which a configuration has no segment any more. Their segments are gone: what still comes
// is dropped, until no worker polls the port.
func (x *ports) closeUnused(to *config.Config) {
	named := to.EthPorts()
	for _, p := range x.list() {
		if !slices.Contains(named, p.name) {
			x.closeOne(p)
		}
	}
}

func (x *ports) closeOne(p *ethernetPort) {
	p.carriers.leave()
	waitUntil(sendWithin, func() bool { return !x.datapath.Sends() })
	x.datapath.RemovePort(p.index)
	counters := x.countedBy(p)
	stats := p.stats()
	x.access.Lock()
	addStats(&x.past, stats)
	x.access.Unlock()
	x.remove(p)
	p.forgetWorkers()
	level, note := slog.LevelInfo, []any(nil)
	if err := p.close.run(); err != nil {
		level, note = slog.LevelError, []any{"error", err}
	}
	in, out := &counters[lcore.RoCEToIB], &counters[lcore.IBToRoCE]
	x.opener.log.Log(context.Background(), level, "ethernet_port_closed", append(note, "port", p.name.String(), "received", in.Received, "to_ib", in.Sent, "dropped", in.Dropped(),
		"from_ib", out.Received, "sent", out.Sent, "not_taken", out.Dropped(), "missed", stats.RxMissed, "send_errors", stats.TxErrors)...)
}

// countedBy returns what is counted of a port that no worker polls, when nothing of it is under way.
func (x *ports) countedBy(p *ethernetPort) (c lcore.PortCounters) {
	waitUntil(countWithin, func() bool {
		c = x.datapath.PortCounters()[p.index]
		return c[lcore.RoCEToIB].Conserved() && c[lcore.IBToRoCE].Conserved()
	})
	return c
}

// waitUntil waits until something is so, or a time is over.
func waitUntil(within time.Duration, is func() bool) {
	for end := time.Now().Add(within); !is() && time.Now().Before(end); {
		time.Sleep(lookEvery)
	}
}
