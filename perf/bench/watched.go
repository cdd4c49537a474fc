// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"

	"causeway/lcore"
)

// headersKept is what a watch keeps of a packet, bytes.
const headersKept = 128

// watchedRows compares a worker whose packets somebody watches, as captures and traces do, with one alone. No gate: who
// watches wants to know what it costs.
func watchedRows(cfg *Config) ([]Row, error) {
	alone := square(Small)
	by := func(f lcore.Filter) shape {
		s := alone
		s.watch = &lcore.Watch{Filter: f, Snap: headersKept}
		return s
	}
	top := by(lcore.Filter{Point: lcore.Received})
	top.watch.Sampled = true
	return compare(cfg, 0, []variant{
		{"unwatched", alone},
		{"watched for drops", by(lcore.Filter{AnyDrop: true})},
		{"watched, 1 host of 1 k", by(lcore.Filter{Host: alone.hostIP(1)})},
		{"watched, all", by(lcore.Filter{})},
		{"watched by top", top},
	})
}

// watch has somebody look at what the shape says, until the rig is closed.
func (r *rig) watch() error {
	ctx, cancel := context.WithCancel(context.Background())
	began, ended := make(chan struct{}), make(chan error, 1)
	w := *r.shape.watch
	w.Began = func() { close(began) }
	go func() {
		_, err := r.bench.Watch(ctx, w, func(lcore.Sight) bool { return true })
		ended <- err
	}()
	r.onClose(func() error {
		cancel()
		return <-ended
	})
	select {
	case <-began:
		return nil
	case err := <-ended:
		ended <- err
		return err
	}
}
