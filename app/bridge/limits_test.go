// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"log/slog"
	"slices"
	"testing"
	"time"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// TestLimits checks that each limit that refuses something is named for a minute, and logged once until it was not
// reached for as long.
func TestLimits(t *testing.T) {
	var log bytes.Buffer
	l, now := newLimits(slog.New(slog.NewTextHandler(&log, nil))), time.Now()
	names := func() (got []string) {
		for _, x := range l.reached(now) {
			got = append(got, x.Name)
		}
		return got
	}
	counts := map[string]uint64{}
	for _, name := range LimitNames() {
		l.notice(counts, now)
		if got := names(); len(got) > 0 {
			t.Errorf("before it is reached: %v", got)
		}
		for range 5 {
			counts[name]++
			now = now.Add(refusedFor - time.Second)
			l.notice(counts, now)
		}
		now = now.Add(refusedFor - time.Second)
		l.notice(counts, now)
		if got := names(); !slices.Equal(got, []string{name}) {
			t.Errorf("%s: %v", name, got)
		}
		now = now.Add(time.Second)
		if n := bytes.Count(log.Bytes(), []byte("limit_reached limit="+name+" refused=1 note=")); n != 1 {
			t.Errorf("%s: %d lines in\n%s", name, n, &log)
		}
	}
}

// TestRefusals checks which counters are which limit's.
func TestRefusals(t *testing.T) {
	var c lcore.Counters
	c.Punt.Full = 1
	c.Direction[lcore.RoCEToIB].Drops = map[lcore.Drop]uint64{lcore.DropPuntFull: 2, lcore.DropProxyQPFull: 100}
	c.Direction[lcore.IBToRoCE].Drops = map[lcore.Drop]uint64{lcore.DropPuntFull: 4}
	s := manage.Status{AliasesRefused: 8}
	s.Counters.GroupsRejected = map[string]uint64{"range_full": 16, "source": 100}
	got := refusalsOf(c, map[string]uint64{"ah_full": 32, "ah_pending": 64, "ah_failed": 100}, &s)
	for name, want := range map[string]uint64{"management_ring": 7, "alias_guids": 8, "range_groups": 16, "address_handles": 32, "messages_waiting": 64} {
		if got[name] != want || !slices.Contains(LimitNames(), name) {
			t.Errorf("%s: %d, want %d", name, got[name], want)
		}
	}
	if len(got) != len(LimitNames()) {
		t.Errorf("%v, want %v", got, LimitNames())
	}
}
