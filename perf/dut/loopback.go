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

// Loopback is a generator whose messages come back to it: through a ring, or through another process on a net_memif. It
// implements trial.Device, for RoCE to IB only.
type Loopback struct {
	CheckEvery int // one message in this many is compared to the last byte; 0: none

	lcore   uint
	threads []string      // of that lcore and of the other process: directories in /proc
	drain   time.Duration // messages that have not come back after this silence are lost
	pool    *dpdk.Mempool
	ring    *dpdk.Ring // nil: port
	port    *dpdk.Port
	gen     *gen.Generator
	flows   *gen.Flows
}

// NewLoopback makes a loopback through a ring, without a device: it shows what the generator can do.
func NewLoopback(lcoreID uint, t Traffic) (*Loopback, error) {
	const depth, resident = 1024, 2048
	l := &Loopback{lcore: lcoreID, drain: 10 * time.Millisecond}
	return l.build(t, t.unchanged, resident, func() (err error) {
		if err = l.makePool("loop", resident+1023); err != nil {
			return err
		}
		l.ring, err = dpdk.NewRing(fmt.Sprintf("loop%d", serial), depth, false)
		return err
	})
}

// NewForwarded makes a loopback through a process that sends the frames back unchanged, such as testpmd. It is the
// server of the memif at socket.
func NewForwarded(lcoreID uint, socket string, t Traffic) (*Loopback, error) {
	return newMemif(lcoreID, socket, "server", t, t.unchanged)
}

// NewEchoed makes a loopback through a bridge that runs the configuration of Traffic.Config, whose nodes echo each
// message. An echo that does not arrive at the sending host and queue pair is misdelivered. It is the client of the
// memif at socket.
func NewEchoed(lcoreID uint, socket string, t Traffic) (*Loopback, error) {
	return newMemif(lcoreID, socket, "client", t, t.echoed)
}

const memifMTU = 4200 // more than the longest frame

func newMemif(lcoreID uint, socket, role string, t Traffic, flows func() []gen.Flow) (*Loopback, error) {
	l := &Loopback{lcore: lcoreID, drain: 50 * time.Millisecond}
	return l.build(t, flows, 1024, func() (err error) {
		if err = l.makePool("memif", 8191); err != nil {
			return err
		}
		l.port, err = dpdk.OpenPort("memif:"+socket+",role="+role, dpdk.PortConfig{Pool: l.pool, MTU: memifMTU})
		if err == nil {
			err = l.port.Start()
		}
		return err
	})
}

// build makes the generator; way makes the pool, and the ring or the port.
func (l *Loopback) build(t Traffic, flows func() []gen.Flow, resident int, way func() error) (_ *Loopback, err error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("dut: %w", err)
	}
	l.CheckEvery, l.threads = 64, lcoreThreads("self", l.lcore)
	if err = way(); err == nil {
		l.flows, err = gen.NewFlows(flows())
	}
	if err == nil {
		l.gen, err = gen.New(gen.Config{Pool: l.pool, In: l.ring, Out: l.ring, Port: l.port, Resident: resident})
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.gen.SetFlows(l.flows)
	return l, nil
}

func (l *Loopback) makePool(name string, mbufs int) (err error) {
	serial++
	l.pool, err = dpdk.NewMempool(fmt.Sprintf("%s%d", name, serial), mbufs, max(lcore.DataRoom, gen.DataRoom), gen.PrivateBytes)
	return err
}

// unchanged are the flows from RoCE, to come back as they were sent.
func (t *Traffic) unchanged() []gen.Flow {
	flows := t.flows()[:t.Flows]
	for i := range flows {
		flows[i].Want = gen.Want{Side: gen.RoCE, Unchanged: true}
	}
	return flows
}

// echoed are the flows from RoCE, to come back as the nodes' echoes.
func (t *Traffic) echoed() []gen.Flow {
	flows := t.flows()[:t.Flows]
	for i := range flows {
		flows[i].Want = t.toHost(i).Want
	}
	return flows
}

// WaitPeer waits until the other process is connected and sends back all messages.
func (l *Loopback) WaitPeer(ctx context.Context) error {
	if err := l.AwaitLink(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		load := trial.At([]trial.Direction{trial.RoCEToIB}, 1e4, 0)
		load.Packets = uint64(l.flows.Len()) // a bridge makes a proxy QP at the first message of each flow
		o, err := l.Run(ctx, load)
		if err != nil {
			return fmt.Errorf("dut: no messages come back from %s: %w", l.port.Name(), err)
		}
		if o.Counts[trial.RoCEToIB].Received == load.Packets {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// AwaitLink waits until the other process is connected.
func (l *Loopback) AwaitLink(ctx context.Context) error { return waitLink(ctx, l.port) }

func waitLink(ctx context.Context, port *dpdk.Port) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for !port.LinkUp() {
		if ctx.Err() != nil {
			return fmt.Errorf("dut: nothing connected to %s: %w", port.Name(), ctx.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// CountRunDelay includes the run delay of the lcores of another process, a running DPDK program, in the outcomes of
// trials.
func (l *Loopback) CountRunDelay(pid int) error {
	threads := lcoreThreads(strconv.Itoa(pid))
	if len(threads) == 0 {
		return fmt.Errorf("dut: process %d has no worker lcores", pid)
	}
	l.threads = append(l.threads, threads...)
	return nil
}

// Run implements trial.Device.
func (l *Loopback) Run(ctx context.Context, load trial.Load) (trial.Outcome, error) {
	waited := runDelay(l.threads)
	if err := l.gen.Start(l.lcore, gen.Load{Load: load, Drain: l.drain, CheckEvery: l.CheckEvery}); err != nil {
		return trial.Outcome{}, err
	}
	for l.gen.Running() {
		time.Sleep(time.Millisecond)
		if ctx.Err() != nil {
			l.gen.Stop()
		}
	}
	out := l.gen.Wait()
	out.Disturbed = runDelay(l.threads) - waited
	return out, ctx.Err()
}

// Close frees everything. The other process may have ended.
func (l *Loopback) Close() error {
	var err error
	if l.gen != nil {
		l.gen.Free()
	}
	if l.flows != nil {
		l.flows.Free()
	}
	if l.ring != nil {
		l.ring.Free()
	}
	if l.port != nil {
		err = l.port.Close()
	}
	if l.pool != nil {
		err = errors.Join(err, l.pool.Free())
	}
	return err
}
