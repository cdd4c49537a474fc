// SPDX-License-Identifier: Apache-2.0

package igmp_test

import (
	"net/netip"
	"testing"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/groups/igmp"
)

// TestElection checks that there are two queries at the start and then one each 125 s, and that the bridge yields to a
// lower address.
func TestElection(t *testing.T) {
	const ask4 = "0: IGMPv3 who listens to 0.0.0.0"
	for _, c := range []struct {
		name string
		from netip.Addr
		own  bool
	}{
		{"lower", first4, false},
		{"higher", netip.MustParseAddr("10.9.0.255"), true},
		{"a snooping switch", all4, true},
	} {
		w := &wire{t: t, now: begin}
		q := igmp.NewQuerier(w.port())
		q.Enabled = true
		q.Heard(c.from, &frame.Query{Group: all4}, w.now)
		if got := q.IsOwn(group4, w.now); got != c.own || !q.IsPresent(group4, w.now) || q.IsPresent(group6, w.now) || !q.IsOwn(group6, w.now) {
			t.Errorf("%s: the bridge asks: %v", c.name, got)
		}
	}
	w := &wire{t: t, now: begin}
	q := igmp.NewQuerier(w.port())
	q.Enabled = true
	q.Heard(netip.MustParseAddr("fe80::1"), &frame.Query{Group: all6}, w.now) // another is the querier for IPv6 for 255 s
	w.pass(40*time.Second, q.Tick)
	w.want("at the start", ask4, ask4)
	if !q.IsPresent(group4, w.now) {
		t.Error("the bridge queries, but does not report that there is a querier")
	}
	w.pass(120*time.Second, q.Tick)
	w.want("then", ask4)
	w.pass(100*time.Second, q.Tick)
	w.want("when the other has gone", "0: MLDv2 who listens to ::")
	q.Enabled = false
	w.pass(time.Hour, q.Tick)
	w.want("no more")
}

// TestSilentQuerier checks that one packet that promises the longest times silences the bridge for minutes, not for hours.
func TestSilentQuerier(t *testing.T) {
	w := &wire{t: t, now: begin}
	q := igmp.NewQuerier(w.port())
	q.Enabled = true
	q.Heard(first4, &frame.Query{Group: all4, Interval: 9 * time.Hour, Robustness: 7}, w.now)
	if w.now = w.now.Add(19 * time.Minute); q.IsOwn(group4, w.now) || !q.IsPresent(group4, w.now) {
		t.Error("it is not believed for 19 minutes")
	}
	if w.now = w.now.Add(2 * time.Minute); !q.IsOwn(group4, w.now) || q.IsPresent(group4, w.now) {
		t.Error("it is believed for 21 minutes")
	}
}
