// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"

	"causeway/perf/profile"
)

// Method says in sentences how the figures of a report came about.
func Method(p *profile.Profile) []string {
	t := &p.Throughput
	slices := "Trials are whole: every stall of the machine counts against the device."
	if d := p.Device.Slice.D(); d > 0 {
		slices = fmt.Sprintf("Trials are made of slices of %v. Those in which the device or the generator stood still for more than %v do not count: "+
			"neither their loss nor their latency is in any figure.", d, Stall)
	}
	return []string{
		slices,
		"Each message begins with a stamp: flow, number, time and a check value. Lost is what was offered and never arrived, a full queue of the " +
			"device included; duplicates, reordering, corruption and misdelivery are told by stamps, lengths, addresses, QPNs and Q_Keys.",
		fmt.Sprintf("One message in %d is compared to the last byte, and at RoCE its ICRC is verified.", max(1, p.Device.CheckEvery)),
		fmt.Sprintf("Throughput: binary search by trials of %v down to %.2g %% of the ceiling that a flood shows; NDR is the largest rate without "+
			"loss, PDR with at most %g of the messages lost. A rate fails when %d trials of it do (TST009's loss verification); the rate "+
			"found passed %d more. A failed trial during which other programs had the CPUs is repeated a few times more.",
			t.Trial.D(), t.Resolution*100, t.PDR, 1+t.Retries, t.Confirm),
		fmt.Sprintf("A trial counts when at least %.2g %% of the load was offered. A generator that was away does not make up for it.", (1-Shortfall(p))*100),
		"Latency: from the stamp, before the message is queued to the device, until the receiver takes it out of the device's other queue. The " +
			"generator's own part, its loop, is in it: see the generator by itself. Reference is the PDR.",
		"A burst: what workers received, divided by the turns of their loop that found anything (both sides of a turn together).",
		"Loss rate: from 100 % down by tenths until two trials lose nothing (RFC 2544 §26.3), of 1.25 PDR.",
		"Burst: the longest at the generator's full rate of which nothing is lost (RFC 2544 §26.4), buffer time after RFC 9004.",
		"Multicast: RFC 3918. A join is the group's entry put on the shelves, a leave its removal: management and subnet administration are not in it.",
	}
}
