// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// Link has a value when Down or Info may have changed. It is the same channel each time.
func (h *HCA) Link() <-chan struct{} { return h.link }

// Down returns why the adapter's port carries nothing; "": it does.
func (h *HCA) Down() string { return h.port.Down() }

// Sent reports whether the subnet has all that was sent, as far as there is a link.
func (h *HCA) Sent() bool { return h.port.Sent() }

// Drained reports whether all that had come to the port when it was called is with its queue pairs' receive queues, or dropped.
func (h *HCA) Drained() bool { return h.port.Drained() }

// linkChanged takes what the port has been told by its subnet. Queue pairs stay; those of a partition that the port is
// not in any more carry nothing until it is again.
func (h *HCA) linkChanged() {
	info := h.port.Info()
	h.mu.Lock()
	h.info.Store(&info)
	for _, q := range h.qps {
		if q == h.gsi.qp {
			continue
		}
		index := slices.Index(info.PKeys, q.pkey)
		if index >= 0 {
			q.index = uint16(index)
		}
		q.outside.Store(index < 0)
	}
	h.mu.Unlock()
	select {
	case h.link <- struct{}{}:
	default:
	}
}
