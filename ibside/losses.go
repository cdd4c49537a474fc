// SPDX-License-Identifier: Apache-2.0

package ibside

import "slices"

// A LossKind says what a LossCounter counts.
type LossKind uint8

// The kinds of LossCounter.
const (
	LostReceives LossKind = iota // messages that came to the port, and that no queue pair received
	LostSends                    // messages that the port should have sent
	LossEvents                   // what may damage messages, or what is counted elsewhere, too: no number of messages
)

// A LossCounter is one of the kernel's counters that say what a port, or its device, has lost or damaged. Its name is
// that of a file in sysfs: in counters or hw_counters of the port, or in hw_counters of the device.
type LossCounter struct {
	Name string
	Kind LossKind
}

// lossCounters are those of ports (IBTA vol 1 §16.1.3.5, PortCounters), then those of drivers. A device has some of
// them.
var lossCounters = []LossCounter{
	{"port_rcv_errors", LostReceives}, {"port_rcv_remote_physical_errors", LostReceives}, {"port_rcv_switch_relay_errors", LostReceives},
	{"port_rcv_constraint_errors", LostReceives}, {"port_xmit_discards", LostSends}, {"port_xmit_constraint_errors", LostSends},
	{"excessive_buffer_overrun_errors", LossEvents}, {"link_downed", LossEvents}, {"link_error_recovery", LossEvents},
	{"local_link_integrity_errors", LossEvents}, {"symbol_error", LossEvents}, {"VL15_dropped", LossEvents},

	{"out_of_buffer", LostReceives}, {"rx_icrc_encapsulated", LostReceives}, {"rx_discards", LostReceives}, {"send_err", LostSends},
	// Completions in error, which the InfiniBand port counts as wc_error.
	{"resp_cqe_error", LossEvents}, {"resp_local_length_error", LossEvents}, {"req_cqe_error", LossEvents},
}

// LossCounters returns all counters of losses that are known.
func LossCounters() []LossCounter { return slices.Clone(lossCounters) }
