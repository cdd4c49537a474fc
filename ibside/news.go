// SPDX-License-Identifier: Apache-2.0

package ibside

import "sync"

// News collects what a subnet has changed until management takes it. It implements Renewer. Any goroutine may call its
// methods.
type News struct {
	mu      sync.Mutex
	pending Renewals
	added   uint64
	changed chan struct{}
}

// NewNews returns News with nothing in it.
func NewNews() *News { return &News{changed: make(chan struct{}, 1)} }

// Add adds to what Renewed returns next, and wakes who waits for it. It does not block.
func (n *News) Add(add func(*Renewals)) {
	n.mu.Lock()
	add(&n.pending)
	n.added++
	n.mu.Unlock()
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// Renewed implements Renewer.
func (n *News) Renewed() Renewals {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.pending
	n.pending = Renewals{}
	return r
}

// Changed implements Renewer.
func (n *News) Changed() <-chan struct{} { return n.changed }

// Added returns how often something was added, whether it has been taken or not.
func (n *News) Added() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.added
}
