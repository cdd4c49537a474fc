// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"sync"

	"causeway/lcore"
)

// runner starts and stops the workers, one call at a time.
type runner struct {
	mu      sync.Mutex
	workers []*lcore.Worker
	lcores  []uint // of each
	runs    bool
}

func (r *runner) set(workers []*lcore.Worker, lcores []uint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers, r.lcores = workers, lcores
}

// start starts all workers, or none.
func (r *runner) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.startAll()
}

func (r *runner) startAll() error {
	for i, w := range r.workers {
		if err := w.Start(r.lcores[i]); err != nil {
			r.stopAll()
			return err
		}
	}
	r.runs = true
	return nil
}

// stop has the workers send the packets that they have, and ends them.
func (r *runner) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopAll()
	r.runs = false
}

func (r *runner) stopAll() {
	for _, w := range r.workers {
		w.Stop()
	}
}

// paused calls f while no worker runs. Those that ran before run again then, even if f has failed.
func (r *runner) paused(f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.runs {
		return f()
	}
	r.stopAll()
	r.runs = false
	err := f()
	return errors.Join(err, r.startAll())
}
