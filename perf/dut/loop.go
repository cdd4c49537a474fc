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

// Loop is no device: a generator whose frames come back to it at once, by a ring. It shows what the generator can do.
// It implements trial.Device, for RoCE to IB alone.
type Loop struct {
	lcore uint
	pool  *dpdk.Mempool
	ring  *dpdk.Ring
	gen   *gen.Generator
	flows *gen.Flows
}

// NewLoop makes one on an lcore.
func NewLoop(lcoreID uint, t Traffic) (l *Loop, err error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("dut: %w", err)
	}
	const depth, resident = 1024, 2048
	serial++
	l = &Loop{lcore: lcoreID}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	l.pool, err = dpdk.NewMempool(fmt.Sprintf("loop%d", serial), resident+1023, max(lcore.DataRoom, gen.DataRoom), gen.PrivateBytes)
	if err != nil {
		return l, err
	}
	if l.ring, err = dpdk.NewRing(fmt.Sprintf("loop%d", serial), depth, false); err != nil {
		return l, err
	}
	if l.flows, err = gen.NewFlows(t.mirrored()); err != nil {
		return l, err
	}
	if l.gen, err = gen.New(gen.Config{Pool: l.pool, In: l.ring, Out: l.ring, Resident: resident}); err != nil {
		return l, err
	}
	l.gen.SetFlows(l.flows)
	return l, nil
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

// Run implements trial.Device.
func (l *Loop) Run(ctx context.Context, load trial.Load) (trial.Outcome, error) {
	if err := l.gen.Start(l.lcore, gen.Load{Load: load, Drain: 10 * time.Millisecond, CheckEvery: 64}); err != nil {
		return trial.Outcome{}, err
	}
	for l.gen.Running() {
		time.Sleep(5 * time.Millisecond)
		if ctx.Err() != nil {
			l.gen.Stop()
		}
	}
	return l.gen.Wait(), ctx.Err()
}

// Close frees all.
func (l *Loop) Close() error {
	if l.gen != nil {
		l.gen.Free()
	}
	if l.flows != nil {
		l.flows.Free()
	}
	if l.ring != nil {
		l.ring.Free()
	}
	if l.pool != nil {
		return l.pool.Free()
	}
	return nil
}
