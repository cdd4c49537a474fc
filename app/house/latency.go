// SPDX-License-Identifier: Apache-2.0

package house

import "causeway/lcore"

// Latency returns how long packets were in the bridge, by worker and direction, since ClearLatency was called last; nil
// after Close.
func (h *House) Latency() [][2]lcore.Latency {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	return h.bench.Latency()
}

// ClearLatency has Latency count from now.
func (h *House) ClearLatency() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.bench.ClearLatency()
	}
}
