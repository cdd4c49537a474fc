// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"causeway/lcore"
)

// readings are what the datapath counts and measures.
type readings struct {
	gate     *gate
	datapath *lcore.Datapath
	final    lcore.Counters // after Close
}

// Counters returns the counters of all workers and of management; after Close, the final ones.
func (r *readings) Counters() lcore.Counters {
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	if r.gate.closed {
		return r.final
	}
	return r.datapath.Counters()
}

// Workers returns each worker's own counters; nil after Close.
func (r *readings) Workers() (out []lcore.Counters) {
	r.gate.whileOpen(func() {
		for _, w := range r.datapath.Workers() {
			out = append(out, w.Counters())
		}
	})
	return out
}

// Latency returns how long packets were in the bridge since the last ClearLatency, by worker and direction; nil after
// Close.
func (r *readings) Latency() (out [][2]lcore.Latency) {
	r.gate.whileOpen(func() { out = r.datapath.Latency() })
	return out
}

// ClearLatency has Latency count from now.
func (r *readings) ClearLatency() { r.gate.whileOpen(r.datapath.ClearLatency) }

// injector injects faults into the datapath.
type injector struct {
	gate     *gate
	datapath *lcore.Datapath
	log      *slog.Logger

	timed sync.Mutex     // for what follows
	timer [2]*time.Timer // ends what is injected; nil: somebody does
	until [2]time.Time
}

// Inject makes all workers inject faults into the packets of a direction for a time, in place of those before; the zero
// Injection ends it. Without a time they are injected until then. On an error, which is one line, nothing changes.
func (j *injector) Inject(d lcore.Direction, i lcore.Injection, lasts time.Duration) error {
	j.timed.Lock()
	defer j.timed.Unlock()
	if err := j.inject(d, i); err != nil {
		return err
	}
	if t := j.timer[d]; t != nil {
		t.Stop()
	}
	j.timer[d], j.until[d] = nil, time.Time{}
	if i != (lcore.Injection{}) && lasts > 0 {
		j.timer[d], j.until[d] = time.AfterFunc(lasts, func() { j.over(d) }), time.Now().Add(lasts)
	}
	return nil
}

// over ends what was injected for a time, unless something else is by now.
func (j *injector) over(d lcore.Direction) {
	j.timed.Lock()
	defer j.timed.Unlock()
	if until := j.until[d]; !until.IsZero() && !time.Now().Before(until) {
		j.timer[d], j.until[d] = nil, time.Time{}
		_ = j.inject(d, lcore.Injection{}) // fails when the bridge is down, and nothing is injected
	}
}

func (j *injector) inject(d lcore.Direction, i lcore.Injection) error {
	err := errors.New("bridge: the bridge is down; there is nothing to inject into")
	j.gate.whileOpen(func() { err = j.datapath.Inject(d, i) })
	if err != nil {
		return err
	}
	if i == (lcore.Injection{}) {
		j.log.Info("injection_off", "direction", d.String())
		return nil
	}
	j.log.Warn("injection_on", "direction", d.String(), "drop", i.Drop, "duplicate", i.Duplicate,
		"reorder", i.Reorder, "delay_share", i.DelayShare, "delay", i.Delay, "seed", i.Seed)
	return nil
}

// Injections returns what is injected, by direction; nothing after Close.
func (j *injector) Injections() (out [2]lcore.Injection) {
	j.gate.whileOpen(func() { out = j.datapath.Injections() })
	return out
}

// InjectionsEnd returns when that ends by itself, by direction; the zero time: it does not.
func (j *injector) InjectionsEnd() [2]time.Time {
	j.timed.Lock()
	defer j.timed.Unlock()
	return j.until
}
