// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"
	"time"

	"causeway/config"
	"causeway/ibside/stamp"
	"causeway/lcore"
)

// TestFleetFiles checks that the bridges' configurations have no problems and no remarks.
func TestFleetFiles(t *testing.T) {
	b := &fleetbed{dir: "/run/x"}
	for n := range fleetBridges {
		cfg, err := config.Parse("demo", []byte(b.bridgeFile(n)))
		if err != nil || len(cfg.Notes) != 0 || len(cfg.Groups) != 1+len(fleetGroups) || cfg.Name != bridgeNames[n] || len(cfg.Fleet.Etcd) != fleetBridges {
			t.Errorf("%+v, %v", cfg, err)
		}
	}
}

// sentAt returns a message that was sent so many pauses after another time.
func sentAt(number uint64, begin time.Time) []byte {
	b := stamp.Message(number, sizeOf(number))
	s, _ := stamp.Read(b)
	s.Time = uint64(begin.Add(time.Duration(number) * fleetPause).UnixNano())
	s.Put(b)
	return b
}

// TestFleetCounts checks what is told of a flow whose messages were lost, are on their way, came twice and out of order.
func TestFleetCounts(t *testing.T) {
	f, begin := &fleetFlow{flow: newFlow("", "", 1), way: lcore.IBToRoCE}, time.Now()
	flows := []*fleetFlow{f}
	f.sent.Store(20)
	for _, n := range []uint64{3, 4, 5, 11, 12, 10, 12} { // lost are 6 to 9
		f.note(sentAt(n, begin))
	}
	want := counts{doubled: 1, disorderly: 1}
	want.sent[f.way], want.received[f.way], want.lost[f.way] = 18, 6, 4
	settle(flows)
	if got := look(flows); got != want {
		t.Errorf("13 to 20 are on their way: %+v, want %+v", got, want)
	}
	if got, want := f.takeOutage(), 6*fleetPause; got != want || f.takeOutage() != 0 {
		t.Errorf("nothing came for %v, want %v", got, want)
	}
	settle(flows)
	want.lost[f.way] = 4 + 8
	if got := look(flows); got != want {
		t.Errorf("they have not come: %+v, want %+v", got, want)
	}
	if f.newest() != 12 {
		t.Errorf("the newest is %d", f.newest())
	}
}

// TestFleetResult checks what makes the demonstration fail: not what was lost.
func TestFleetResult(t *testing.T) {
	for _, c := range []struct {
		come      []uint64
		conserved bool
		ok        bool
	}{{[]uint64{1, 2, 9}, true, true}, {[]uint64{1, 2, 2}, true, false}, {[]uint64{1, 3, 2}, true, false}, {[]uint64{1}, false, false}, {[]uint64{99}, true, false}} {
		f := &fleetFlow{flow: newFlow("a flow", "", 1)}
		f.sent.Store(10)
		for _, n := range c.come {
			f.note(sentAt(n, time.Now()))
		}
		r, flows := &fleetResult{}, []*fleetFlow{f}
		r.take(look(flows), flows, c.conserved)
		if r.OK != c.ok || (len(r.Wrong) == 0) != c.ok {
			t.Errorf("%v: %+v", c.come, r)
		}
	}
}
