// SPDX-License-Identifier: Apache-2.0

package house

import (
	"errors"

	"causeway/lcore"
)

// Inject has all workers do this to the packets of a direction, in place of what they did before; the zero Injection ends it.
// It is refused with one line that says why, and then nothing changes.
func (h *House) Inject(d lcore.Direction, i lcore.Injection) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errors.New("house: the bridge is down; there is nothing to inject into")
	}
	if err := h.bench.Inject(d, i); err != nil {
		return err
	}
	if i == (lcore.Injection{}) {
		h.log.Info("injection_off", "direction", d.String())
		return nil
	}
	h.log.Warn("injection_on", "direction", d.String(), "drop", i.Drop, "duplicate", i.Duplicate,
		"reorder", i.Reorder, "delay_share", i.DelayShare, "delay", i.Delay, "seed", i.Seed)
	return nil
}

// Injections returns what is injected, by direction; nothing after Close.
func (h *House) Injections() [2]lcore.Injection {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return [2]lcore.Injection{}
	}
	return h.bench.Injections()
}
