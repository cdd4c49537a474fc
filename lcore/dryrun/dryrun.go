// SPDX-License-Identifier: Apache-2.0

// Package dryrun has the datapath's own code carry one packet that is not there, and returns what it did with it:
// nothing is sent, and no table or counter of the bridge changes.
//
//	frame   ─▶ ring port ─▶ workers of a datapath of its own ─▶ rings ─▶ freed
//	message ─▶ rings     ─▶   over a view of the same tables ─▶ ring port ─▶ freed
//	                                    └─ mirror ─▶ copies of the packet, as in a trace
package dryrun

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"causeway/dpdk"
	"causeway/ibside/fabricport"
	"causeway/lcore"
	"causeway/tables"
)

// Config is the bridge that the packet would come to.
type Config struct {
	Datapath  lcore.DatapathConfig // with the policy in force
	Tables    *tables.Tables
	Workers   int
	MaxGroups int // group ids are below this
	MTU       int // of the Ethernet port
}

// A Packet is a frame at the Ethernet port, or a message at the InfiniBand port.
type Packet struct {
	Frame   []byte
	Port    uint8 // of a frame: the index of the port that it comes by
	Message *fabricport.Received
}

// A Runner has the ports between which packets are run.
type Runner struct {
	config Config
	pool   *dpdk.Mempool
	ports  []*dpdk.RingPort // one for each of the bridge's
	ibPort *fabricport.Rings
}

const (
	mbufs = 63 // a packet takes one
	depth = 32
)

// New makes a runner; there may be one at a time.
func New(c Config) (*Runner, error) {
	r := &Runner{config: c}
	if err := r.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("dryrun: %w", err), r.Close())
	}
	return r, nil
}

func (r *Runner) open() (err error) {
	room := max(lcore.DataRoom, dpdk.DataRoom(r.config.MTU))
	if r.pool, err = dpdk.NewMempool("dryrun", mbufs, room, fabricport.PrivSize); err != nil {
		return err
	}
	for range 1 + len(r.config.Datapath.MoreMACs) {
		p, err := dpdk.OpenRingPort(dpdk.PortConfig{Pool: r.pool, MTU: r.config.MTU, RxQueues: 1, TxQueues: 1, RxDescs: depth, TxDescs: depth})
		if err != nil {
			return err
		}
		r.ports = append(r.ports, p)
		if err := p.Port.Start(); err != nil {
			return err
		}
	}
	r.ibPort, err = fabricport.NewRings(r.pool, 1, depth)
	return err
}

// Close frees the runner.
func (r *Runner) Close() error {
	var all []error
	if r.ibPort != nil {
		all = append(all, r.ibPort.Close())
	}
	for _, p := range r.ports {
		all = append(all, p.Port.Close())
	}
	if r.pool != nil {
		if n := r.pool.InUse(); n != 0 {
			all = append(all, fmt.Errorf("dryrun: %d mbufs are still in use: a leak", n))
		}
		all = append(all, r.pool.Free())
	}
	return errors.Join(all...)
}

// Run runs a packet that the first worker receives, and returns its copies, as lcore.Mirror has them. The caller is a
// Reader of the tables meanwhile. Rates of groups are not applied: they depend on what other packets have used.
func (r *Runner) Run(p Packet) ([]lcore.MirroredPacket, error) {
	view, err := r.config.Tables.View()
	if err != nil {
		return nil, err
	}
	defer view.Close()
	datapath, err := lcore.NewDatapath(r.config.Datapath, view.Pointer())
	if err != nil {
		return nil, err
	}
	defer datapath.Close()
	var more []uint16
	for _, p := range r.ports[1:] {
		more = append(more, p.Port.ID())
	}
	for range r.config.Workers {
		_, err := datapath.NewWorker(lcore.WorkerConfig{Port: r.ports[0].Port.ID(), MorePorts: more, IBPort: r.ibPort.Pointer(0), MaxGroups: r.config.MaxGroups})
		if err != nil {
			return nil, err
		}
	}
	return r.mirrored(datapath, func() error {
		if err := r.arrive(p); err != nil {
			return err
		}
		r.step(datapath)
		return nil
	})
}

// mirrored calls run, and returns what passed meanwhile.
func (r *Runner) mirrored(datapath *lcore.Datapath, run func() error) (saw []lcore.MirroredPacket, err error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	began := make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	o := lcore.MirrorOptions{Slots: depth, Began: begin}
	var failed error
	var mirror sync.WaitGroup
	mirror.Go(func() {
		defer begin()
		_, failed = datapath.Mirror(ctx, o, func(m lcore.MirroredPacket) bool { saw = append(saw, m); return true })
	})
	<-began
	err = run()
	stop()
	mirror.Wait()
	return saw, errors.Join(err, failed)
}

// arrive puts the packet where the first worker takes it.
func (r *Runner) arrive(p Packet) error {
	if p.Message != nil {
		if r.ibPort.Deliver(0, []fabricport.Received{*p.Message}) != 1 {
			return fmt.Errorf("dryrun: a message of %d bytes does not fit", len(p.Message.Payload))
		}
		return nil
	}
	if int(p.Port) >= len(r.ports) {
		return fmt.Errorf("dryrun: there is no port %d", p.Port)
	}
	m, err := r.pool.Alloc(p.Frame)
	if err != nil {
		return fmt.Errorf("dryrun: a frame of %d bytes: %w", len(p.Frame), err)
	}
	if r.ports[p.Port].ToPort(0).Enqueue([]dpdk.Mbuf{m}) != 1 {
		m.Free()
		return errors.New("dryrun: the ring is full")
	}
	return nil
}

// step runs the workers until nothing moves any more, and frees what they have sent.
func (r *Runner) step(datapath *lcore.Datapath) {
	for moved := 1; moved > 0; {
		moved = 0
		for _, w := range datapath.Workers() {
			moved += w.Step()
		}
	}
	r.ibPort.Take(0, make([]fabricport.Sent, depth))
	sent := make([]dpdk.Mbuf, depth)
	for _, p := range r.ports {
		for _, m := range sent[:p.FromPort(0).Dequeue(sent)] {
			m.Free()
		}
	}
}
