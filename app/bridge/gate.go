// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"sync"
)

// gate keeps readers away from what Close has freed.
type gate struct {
	mu     sync.Mutex
	closed bool
}

// whileOpen calls f, unless the bridge is closed; f and Close exclude each other.
func (g *gate) whileOpen(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		f()
	}
}

// teardown undoes what was built, in the opposite order.
type teardown struct{ steps []func() error }

func (t *teardown) add(f func() error) { t.steps = append(t.steps, f) }

func (t *teardown) run() error {
	var errs []error
	for i := len(t.steps) - 1; i >= 0; i-- {
		errs = append(errs, t.steps[i]())
	}
	t.steps = nil
	return errors.Join(errs...)
}
