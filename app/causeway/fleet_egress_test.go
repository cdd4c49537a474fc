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
func (f *bridgeFleet) messagesIn(d time.Duration) uint64 { return uint64(d * f.rate / time.Second) }

// judge checks what was sent up to these numbers, by the captures and by what has come. next is the assignment that was the newest
// before.
func (x *fleetTraffic) judge(what string, most time.Duration, next int, until map[uint32]uint64) {
	t := x.f.t
	t.Helper()
	e := fleettest.Egress{
		All: x.f.capture.Take(func(m fleettest.Seen) bool { return m.Number <= until[m.Stream] }), Assignments: x.f.assignment() - x.assignment,
		Arrived: map[uint32]uint64{}, Most: x.f.messagesIn(most), Behind: x.f.messagesIn(x.f.behind), Joined: true,
	}
	lost := uint64(0)
	for id, came := range x.f.capture.Came(until) {
		last := x.marks[id]
		for _, number := range came {
			if number <= last {
				t.Errorf("%s: message %d of stream %08x came after %d", what, number, id, last)
			}
			last = number
		}
		e.Arrived[id] = uint64(len(came))
		lost = max(lost, until[id]-x.marks[id]-e.Arrived[id])
	}
	wrong, unsent := e.Check()
	t.Logf("%s: %d messages captured, %d assignments; of a stream at most %d did not leave, and %d did not come, of %d", what, len(e.All), e.Assignments, unsent, lost, e.Most)
	if lost > e.Most {
		wrong = append(wrong, fmt.Sprintf("%d messages of a stream did not come, of %d", lost, e.Most))
	}
	if len(wrong) > 0 {
		t.Errorf("%s: %d mistakes:\n%s", what, len(wrong), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
	x.marks, x.assignment = until, next
	x.f.figure(what, time.Duration(lost)*time.Second/x.f.rate)
}

// assignment returns how many assignments there have been, as far as a member which runs knows.
func (f *bridgeFleet) assignment() (newest int) {
	f.t.Helper()
	for _, n := range slices.Sorted(maps.Keys(f.members)) {
		code, says, _ := try("ctl", "-s", f.console(n), "show", "fleet")
		if code != exitOK {
			continue // it has ended
		}
		_, after, found := strings.Cut(says, "its assignment number ")
		var number int
		if _, err := fmt.Sscan(strings.TrimRight(strings.Fields(after + " .")[0], "."), &number); err != nil || !found {
			f.t.Fatalf("m%d has no assignment: %v\n%s", n, err, says)
		}
		newest = max(newest, number)
	}
	return f.gone + newest
}

// conserved ends the members, and checks that each has sent what it received but for what it dropped, by its own counters,
// and that what it sent is what was captured. A cable that was cut may have had messages of the second member.
func (f *bridgeFleet) conserved() {
	f.t.Helper()
	f.traffic.end()
	for _, m := range f.members {
		signalTo(f.t, m, syscall.SIGTERM)
	}
	for n, m := range f.members {
		if code := m.wait(); code != exitOK {
			f.t.Errorf("m%d: exit code %d", n, code)
		}
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
