// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"causeway/app/fleettest"
)

// messagesIn returns how many messages of a stream there are in a time.
func messagesIn(d time.Duration) uint64 { return uint64(d * fleetRate / time.Second) }

// judge checks what was captured since the traffic began, with what the listeners received.
func (x *fleetTraffic) judge(what string, most time.Duration, reports ...report) {
	x.f.t.Helper()
	e := fleettest.Egress{
		All: x.f.capture.Take(nil), Assignments: x.f.assignment() - x.assignment, Arrived: map[uint32]uint64{}, Most: messagesIn(most), Behind: messagesIn(x.f.behind),
	}
	for _, r := range reports {
		for _, s := range r.Streams {
			var id uint32
			if _, err := fmt.Sscanf(s.Stream, "0x%x", &id); err != nil {
				x.f.t.Fatalf("%s: stream %q: %v", what, s.Stream, err)
			}
			e.Arrived[id] += s.Unique
		}
	}
	wrong, lost := e.Check()
	x.f.t.Logf("%s: %d messages captured, %d assignments; a stream lost %d at most", what, len(e.All), e.Assignments, lost)
	if len(wrong) > 0 {
		x.f.t.Errorf("%s: %d mistakes at egress:\n%s", what, len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
}

// assignment returns the number of the newest assignment that a member which runs knows of.
func (f *bridgeFleet) assignment() (newest int) {
	f.t.Helper()
	for _, n := range slices.Sorted(maps.Keys(f.members)) {
		p := launch(f.t, "ctl", "-s", f.console(n), "show", "fleet")
		if p.wait() != exitOK {
			continue // it has ended
		}
		_, after, found := strings.Cut(p.stdout.String(), "its assignment number ")
		var number int
		if _, err := fmt.Sscan(strings.TrimRight(strings.Fields(after + " .")[0], "."), &number); err != nil || !found {
			f.t.Fatalf("m%d has no assignment: %v\n%s", n, err, &p.stdout)
		}
		newest = max(newest, number)
	}
	return newest
}

// conserved ends the members, and checks that each has sent what it received but for what it dropped, by its own counters,
// and that what it sent is what was captured. A cable that was cut may have had messages of the second member.
func (f *bridgeFleet) conserved() {
	f.t.Helper()
	for _, m := range f.members {
		m.end(syscall.SIGTERM)
	}
	for n, m := range f.members {
		for _, line := range m.lines() {
			if line["msg"] != "stopped" {
				continue
			}
			if line["conserved"] != true {
				f.t.Errorf("m%d: %v", n, line)
			}
			captured, toIB := f.capture.Sent(n)
			if line["direction"] == "roce_to_ib" {
				captured = toIB
			}
			sent := uint64(line["sent"].(float64))
			f.t.Logf("m%d, %v: %d sent, %d captured", n, line["direction"], sent, captured)
			if captured > sent || n != 2 && captured != sent {
				f.t.Errorf("m%d, %v: %d sent, and %d captured", n, line["direction"], sent, captured)
			}
		}
	}
}
