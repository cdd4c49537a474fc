// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/perf/gen"
	"causeway/perf/trial"
)

// Echo is a generator whose messages come back to it by themselves: at once, by a ring, or over a net_memif from another
// process, which is a yardstick, or a whole bridge whose nodes answer. It implements trial.Device, for RoCE to IB alone.
type Echo struct {
	CheckEvery int // one message in so many is read to the last byte; 0: none

	lcore   uint
	threads []string      // of that lcore, and of the other process, in /proc
	drain   time.Duration // silence after which what has not come is lost
	pool    *dpdk.Mempool
	ring    *dpdk.Ring // nil: by port
	port    *dpdk.Port
	gen     *gen.Generator
	flows   *gen.Flows
}

// NewLoop makes one whose messages come back at once: no device, but what the generator can do.
func NewLoop(lcoreID uint, t Traffic) (*Echo, error) {
	const depth, resident = 1024, 2048
	e := &Echo{lcore: lcoreID, drain: 10 * time.Millisecond}
	return e.build(t, t.mirrored, resident, func() (err error) {
		if err = e.makePool("loop", resident+1023); err != nil {
			return err
		}
		e.ring, err = dpdk.NewRing(fmt.Sprintf("loop%d", serial), depth, false)
		return err
	})
}

// NewMirror makes one, the server of a memif at socket, for a process that sends back the frames themselves.
func NewMirror(lcoreID uint, socket string, t Traffic) (*Echo, error) {
	return newMemif(lcoreID, socket, "server", t, t.mirrored)
}

// NewAnswered makes one, the client, for a bridge that runs the configuration of Traffic.Config: each message comes back
// as its node's answer, and is misdelivered if it does not come to the host and the queue pair that sent it.
func NewAnswered(lcoreID uint, socket string, t Traffic) (*Echo, error) {
	return newMemif(lcoreID, socket, "client", t, t.answered)
}

const memifMTU = 4200 // the longest frame, and room

func newMemif(lcoreID uint, socket, role string, t Traffic, flows func() []gen.Flow) (*Echo, error) {
	e := &Echo{lcore: lcoreID, drain: 50 * time.Millisecond}
	return e.build(t, flows, 1024, func() (err error) {
		if err = e.makePool("memif", 8191); err != nil {
			return err
		}
		e.port, err = dpdk.OpenPort("memif:"+socket+",role="+role, dpdk.PortConfig{Pool: e.pool, MTU: memifMTU})
		if err == nil {
			err = e.port.Start()
		}
		return err
	})
}

// build has way make the pool, and the ring or the port, and then makes the generator there.
func (e *Echo) build(t Traffic, flows func() []gen.Flow, resident int, way func() error) (_ *Echo, err error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("dut: %w", err)
	}
	e.CheckEvery, e.threads = 64, lcoreThreads("self", e.lcore)
	if err = way(); err == nil {
		e.flows, err = gen.NewFlows(flows())
	}
	if err == nil {
		e.gen, err = gen.New(gen.Config{Pool: e.pool, In: e.ring, Out: e.ring, Port: e.port, Resident: resident})
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.gen.SetFlows(e.flows)
	return e, nil
}

func (e *Echo) makePool(name string, mbufs int) (err error) {
	serial++
	e.pool, err = dpdk.NewMempool(fmt.Sprintf("%s%d", name, serial), mbufs, max(lcore.DataRoom, gen.DataRoom), gen.PrivateBytes)
	return err
}

// mirrored are the flows from RoCE as a mirror sends them back.
func (t *Traffic) mirrored() []gen.Flow {
	flows := t.flows()[:t.Flows]
	for i := range flows {
		flows[i].Want = gen.Want{Side: gen.RoCE, AsIs: true}
	}
	return flows
}

// answered are the flows from RoCE as echoing nodes answer them.
func (t *Traffic) answered() []gen.Flow {
	flows := t.flows()[:t.Flows]
	for i := range flows {
		flows[i].Want = t.toHost(i).Want
	}
	return flows
}

// WaitPeer waits until the other process is there, and sends back all that comes.
func (e *Echo) WaitPeer(ctx context.Context) error {
	if err := waitLink(ctx, e.port); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		l := trial.At([]trial.Direction{trial.RoCEToIB}, 1e4, 0)
		l.Packets = uint64(e.flows.Len()) // a bridge makes a stand-in for each when it hears of it first
		o, err := e.Run(ctx, l)
		if err != nil {
			return fmt.Errorf("dut: nothing comes back from %s: %w", e.port.Name(), err)
		}
		if o.Counts[trial.RoCEToIB].Received == l.Packets {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func waitLink(ctx context.Context, port *dpdk.Port) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for !port.LinkUp() {
		if ctx.Err() != nil {
			return fmt.Errorf("dut: nobody came to %s: %w", port.Name(), ctx.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// Watch has trials know for how long others had the CPUs of the other process's lcores. It must run, and be DPDK's.
func (e *Echo) Watch(pid int) error {
	threads := lcoreThreads(strconv.Itoa(pid))
	if len(threads) == 0 {
		return fmt.Errorf("dut: process %d has no worker lcores", pid)
	}
	e.threads = append(e.threads, threads...)
	return nil
}

// Run implements trial.Device.
func (e *Echo) Run(ctx context.Context, load trial.Load) (trial.Outcome, error) {
	waited := runDelay(e.threads)
	if err := e.gen.Start(e.lcore, gen.Load{Load: load, Drain: e.drain, CheckEvery: e.CheckEvery}); err != nil {
		return trial.Outcome{}, err
	}
	for e.gen.Running() {
		time.Sleep(time.Millisecond)
		if ctx.Err() != nil {
			e.gen.Stop()
		}
	}
	out := e.gen.Wait()
	out.Disturbed = runDelay(e.threads) - waited
	return out, ctx.Err()
}

// Close frees all. The other process may be there or not.
func (e *Echo) Close() error {
	var err error
	if e.gen != nil {
		e.gen.Free()
	}
	if e.flows != nil {
		e.flows.Free()
	}
	if e.ring != nil {
		e.ring.Free()
	}
	if e.port != nil {
		err = e.port.Close()
	}
	if e.pool != nil {
		err = errors.Join(err, e.pool.Free())
	}
	return err
}
