// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"time"

	"causeway/lcore"
)

// extras are what the extras gate compares, with few entries.
var extras = map[string][]variant{
	"unicast":   extrasOf(square(64)),
	"multicast": extrasOf(shape{hosts: 64, qpns: 1, nodes: 64, groups: 16}),
}

// The bare worker forwards as the production worker does, and counts nothing. The worker that it is compared with
// counts everything, including each group's packets, and polices.
func TestBareWorkerIsTheWorkerWithoutCounters(t *testing.T) {
	for name, all := range extras {
		for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
			t.Run(name+" "+d.String(), func(t *testing.T) {
				for _, v := range all {
					r := testRig(t, v.shape, d, 64)
					l := r.lanes[0].loop()
					before := l.done()
					for l.done()-before < inFlight { // a busy machine does less in the time of one
						run(t, r, l)
					}
					moved := l.done() - before
					frames(t, r.lanes[0])
					r.checkCounted(t, d, moved)
				}
			})
		}
	}
}

// checkCounted checks that all packets are counted everywhere or, by a bare worker, nowhere.
func (r *rig) checkCounted(t *testing.T, d lcore.Direction, moved uint64) {
	t.Helper()
	if r.shape.bare {
		moved = 0
	}
	c := r.datapath.Counters()
	x := c.Direction[d]
	if x.Received < moved || x.Sent < moved || x.SentBytes < 64*moved || moved == 0 && x.Received+x.Sent+x.SentBytes+c.Loops+c.Busy != 0 {
		t.Errorf("%d packets: counted %+v, %d loops", moved, x, c.Loops)
	}
	if !r.shape.multicast() {
		return
	}
	sum := uint64(0)
	for i := range r.shape.groups {
		_, id, ok := r.tables.Groups.Find(groupIP(i))
		if !ok {
			t.Fatal("a group is not on the tables")
		}
		sum += r.datapath.Group(int(id)).Packets[d]
	}
	if sum != x.Sent {
		t.Errorf("groups' counters say %d, the direction's %d", sum, x.Sent)
	}
}

// Groups of the extras row are policed: at a low rate packets are dropped.
func TestGroupsOfExtrasArePoliced(t *testing.T) {
	policed, ok := lcore.DropNamed("policed")
	if !ok {
		t.Fatal("no such drop")
	}
	for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
		r := testRig(t, extras["multicast"][1].shape, d, 64)
		if err := r.police(1); err != nil {
			t.Fatal(err)
		}
		l := r.lanes[0].loop()
		if err := l.start(lcores[0].id); err != nil {
			t.Fatal(err)
		}
		// The ring is also empty while the worker has the last packets.
		dropped := func() uint64 {
			x := r.datapath.Counters().Direction[d]
			return x.Dropped()
		}
		for deadline := time.Now().Add(time.Minute); dropped() < inFlight && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		l.stop()
		x := r.datapath.Counters().Direction[d]
		if x.Drops[policed] != inFlight || x.Dropped() != inFlight {
			t.Errorf("%v: %+v", d, x)
		}
	}
}
