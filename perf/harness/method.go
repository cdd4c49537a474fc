// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"

	"causeway/perf/profile"
)

// method describes in sentences how the figures of a report were measured.
func method(p *profile.Profile) []string {
	t := &p.Throughput
	slices := "Trials are whole: every stall of the machine counts against the device."
	if d := p.Device.Slice.D(); d > 0 {
		slices = fmt.Sprintf("Trials are made of slices of %v. Slices in which the device or the generator stalled for more than %v do not count: "+
			"neither their loss nor their latency is in any figure.", d, Stall)
	}
	return []string{
		slices,
		"Each message begins with a stamp: flow, sequence number, time and a check value. Lost messages were offered and did not arrive, or found a " +
			"queue of the device full; duplicates, reordering, corruption and misdelivery are found by stamps, lengths, addresses, QPNs and Q_Keys.",
		fmt.Sprintf("One message in %d is compared to the last byte, and at RoCE its ICRC is verified.", max(1, p.Device.CheckEvery)),
		fmt.Sprintf("Throughput: binary search by trials of %v down to %.2g %% of the ceiling that a flood shows; NDR is the largest rate without "+
			"loss, PDR with at most a ratio of %g. A rate fails when %d trials of it fail (TST009's loss verification); the rate "+
			"found passed %d more. A failed trial in which other programs used the CPUs is repeated a few more times.",
			t.Trial.D(), t.Resolution*100, t.PDR, 1+t.Retries, t.Confirm),
		fmt.Sprintf("A trial counts when at least %.2g %% of the load was offered. A generator that was preempted does not catch up.", (1-Shortfall(p))*100),
		"Latency: from the stamp, before the message is queued to the device, until the receiver takes it from the device's output queue. The " +
			"generator's loop is included; see the generator by itself. Loads are parts of the PDR.",
		"Messages a burst: messages that workers received, divided by the turns of their loop that received any (both sides together).",
		"Loss rate: from 1.25 times the PDR down in steps of a tenth until two trials lose nothing (RFC 2544 §26.3).",
		"Back-to-back: the longest burst at the generator's full rate without loss (RFC 2544 §26.4); buffer time after RFC 9004.",
		"Multicast: RFC 3918. A join puts the group's entry into the tables, a leave removes it: management and subnet administration are not included.",
	}
}
