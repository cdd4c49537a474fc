// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// An outage is what one flow has shown from a mark on.
type outage struct {
	name    string
	came    int           // messages
	longest time.Duration // silence
	after   time.Duration // the same, after a moment, and after the node itself was in the group again
	joined  time.Duration // how long after the moment that was
}

// mark begins a new measurement.
func (f *flows) mark() {
	for _, x := range f.all {
		x.mark = x.receiver.Received()
	}
}

// since returns what each flow has shown since the mark. clocks tells when each guest's clock was zero.
func (f *flows) since(t *testing.T, moment time.Time, clocks map[*Guest]time.Time) (all []outage) {
	t.Helper()
	for _, x := range f.all {
		received := Only(soFar(t, x.receiver), "received")[max(0, x.mark-1):]
		o, last, from := outage{name: x.name, came: len(received)}, moment, moment
		if joined := x.joined(t, clocks[f.node]); joined.After(moment) {
			o.joined, from = joined.Sub(moment), joined
		}
		for i, e := range received {
			at := clocks[x.at].Add(time.Duration(e.At * float64(time.Second)))
			if i > 0 {
				o.longest = max(o.longest, at.Sub(last))
			}
			o.after = max(o.after, min(at.Sub(last), at.Sub(from)))
			last = at
		}
		all = append(all, o)
	}
	return all
}

// joined returns when the node's program joined the flow's group, last. Its kernel may take seconds for that after a
// change of the subnet, whatever the bridge does (guest/udend/group.c).
func (x *flow) joined(t *testing.T, zero time.Time) time.Time {
	t.Helper()
	if x.member == nil {
		return time.Time{}
	}
	var at time.Time
	for _, e := range Only(soFar(t, x.member), "joined") {
		at = zero.Add(time.Duration(e.At * float64(time.Second)))
	}
	return at
}

func soFar(t *testing.T, u *UDEnd) []Event {
	t.Helper()
	events, err := u.SoFar()
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// booted returns when the guest's clock was zero, by this process's clock, to some hundredths of a second.
func (g *Guest) booted(t *testing.T) (zero time.Time) {
	t.Helper()
	var fastest time.Duration
	for range 5 {
		before := time.Now()
		text := diagnose(t, g, "cut -d ' ' -f 1 /proc/uptime")
		took := time.Since(before)
		var up float64
		if _, err := fmt.Sscan(text, &up); err != nil {
			t.Fatal(err)
		}
		if zero.IsZero() || took < fastest {
			zero, fastest = before.Add(took/2-time.Duration(up*float64(time.Second))), took
		}
	}
	return zero
}
