// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"fmt"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/perf/gen"
	"causeway/perf/trial"
)

// Mirror is a generator at one end of a net_memif, at whose other end another process sends back what comes: a
// yardstick, or a whole bridge whose nodes answer. It implements trial.Device, for RoCE to IB alone.
type Mirror struct {
	lcore uint
	pool  *dpdk.Mempool
	port  *dpdk.Port
	gen   *gen.Generator
	flows *gen.Flows
}

const memifMTU = 4200 // the longest frame, and room

// NewMirror makes one, the server of a memif at socket, for a process that sends back the frames themselves.
func NewMirror(lcoreID uint, socket string, t Traffic) (*Mirror, error) {
	return newMirror(lcoreID, socket, "server", t, t.mirrored)
}

// NewAnswered makes one, the client, for a bridge that runs the configuration of Traffic.Config: each message comes back
// as its node's answer, and is misdelivered if it does not come to the host and the queue pair that sent it.
func NewAnswered(lcoreID uint, socket string, t Traffic) (*Mirror, error) {
	return newMirror(lcoreID, socket, "client", t, t.answered)
}

func newMirror(lcoreID uint, socket, role string, t Traffic, flows func() []gen.Flow) (m *Mirror, err error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("dut: %w", err)
	}
	m = &Mirror{lcore: lcoreID}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if m.pool, m.port, err = memifEnd(socket, role); err != nil {
		return m, err
	}
	if m.flows, err = gen.NewFlows(flows()); err != nil {
		return m, err
	}
	if m.gen, err = gen.New(gen.Config{Pool: m.pool, Port: m.port, Resident: 1024}); err != nil {
		return m, err
	}
	m.gen.SetFlows(m.flows)
	return m, nil
}

// memifEnd makes a mempool and a started port.
func memifEnd(socket, role string) (*dpdk.Mempool, *dpdk.Port, error) {
	serial++
	pool, err := dpdk.NewMempool(fmt.Sprintf("memif%d", serial), 8191, max(lcore.DataRoom, gen.DataRoom), gen.PrivateBytes)
	if err != nil {
		return nil, nil, err
	}
	port, err := dpdk.OpenPort("memif:"+socket+",role="+role, dpdk.PortConfig{Pool: pool, MTU: memifMTU})
	if err == nil {
		if err = port.Start(); err != nil {
			err = errors.Join(err, port.Close())
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, pool.Free())
	}
	return pool, port, nil
}

// WaitPeer waits until the other process is there, and sends back all that comes.
func (m *Mirror) WaitPeer(ctx context.Context) error {
	if err := waitLink(ctx, m.port); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		l := trial.At([]trial.Direction{trial.RoCEToIB}, 1e4, 0)
		l.Packets = uint64(m.flows.Len()) // a bridge makes a stand-in for each when it hears of it first
		o, err := m.Run(ctx, l)
		if err != nil {
			return fmt.Errorf("dut: nothing comes back from %s: %w", m.port.Name(), err)
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

// Run implements trial.Device.
func (m *Mirror) Run(ctx context.Context, load trial.Load) (trial.Outcome, error) {
	if err := m.gen.Start(m.lcore, gen.Load{Load: load, Drain: 50 * time.Millisecond, CheckEvery: 64}); err != nil {
		return trial.Outcome{}, err
	}
	for m.gen.Running() {
		time.Sleep(time.Millisecond)
		if ctx.Err() != nil {
			m.gen.Stop()
		}
	}
	return m.gen.Wait(), ctx.Err()
}

// Close frees all. The other process may be there or not.
func (m *Mirror) Close() error {
	if m.gen != nil {
		m.gen.Free()
	}
	if m.flows != nil {
		m.flows.Free()
	}
	if m.port == nil {
		return nil
	}
	return errors.Join(m.port.Close(), m.pool.Free())
}
