// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"cmp"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage"
	"causeway/tables"
)

// wait lets time go by, with the loop at work.
func (s *stand) wait(d time.Duration) {
	s.w.give() // what the test has read until now comes before what the loop writes: both take the worker's lock
	time.Sleep(d)
	synctest.Wait()
}

// A stand-in that nothing crosses by ends after its time, in both directions; one that is used stays.
func TestStandInsAge(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const idle = 40 * time.Second
		s := start(t, func(c *manageConfig, _ *door) { c.StandInIdle = idle })
		for qpn := range ib.QPN(3) {
			s.hold(hostLink, host4, 0x10+qpn)
		}
		towardsRoCE, _, _ := s.tables.FindStandIn(host4, 0x12)
		for range 10 {
			s.wait(idle / 5)
			s.tables.MarkUsed(host4, 0x11)
			s.tables.MarkUsedQP(towardsRoCE.QPN)
		}
		for qpn, want := range map[ib.QPN]bool{0x10: false, 0x11: true, 0x12: true} {
			if _, _, there := s.tables.FindStandIn(host4, qpn); there != want {
				t.Errorf("the stand-in of QP %v is there: %v, want %v", qpn, there, want)
			}
		}
		if n := s.count(); n.StandInsAged != 1 || s.door.open() != 2 {
			t.Errorf("%d aged, %d queue pairs open", n.StandInsAged, s.door.open())
		}
		s.wait(2 * idle)
		if s.door.open() != 0 || s.tables.LenStandIns() != 0 || s.count().StandInsAged != 3 {
			t.Errorf("%d queue pairs, %d stand-ins after all fell silent", s.door.open(), s.tables.LenStandIns())
		}
		if h := s.hold(hostLink, host4, 0x10); h.ended() != "again" || s.door.open() != 1 {
			t.Errorf("one that speaks again ended by %q", h.ended())
		}
	})
}

// Age is exact to an eighth, and never is never.
func TestStandInAge(t *testing.T) {
	const never = time.Minute
	for idle, last := range map[time.Duration]time.Duration{8 * time.Second: 10 * time.Second, 100 * time.Second: 112 * time.Second, 0: 0} {
		bubble(t, idle.String(), func(t *testing.T) {
			s := start(t, func(c *manageConfig, _ *door) { c.StandInIdle = idle })
			s.hold(hostLink, host4, 0x10)
			s.wait(cmp.Or(idle, never) - time.Second)
			if s.door.open() != 1 {
				t.Fatal("it ended too early")
			}
			if idle == 0 {
				return
			}
			s.wait(last - idle + 2*time.Second)
			if s.door.open() != 0 {
				t.Error("it is still there")
			}
		})
	}
}

// Thousands age a part at a time, each once.
func TestManyStandInsAge(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const n, idle = 10_000, 10 * time.Second
		s := startWith(t, tables.Config{MaxHosts: 16, MaxStandIns: n, MaxNodes: 16, MaxGroups: 64, MaxReaders: 1},
			func(c *manageConfig, _ *door) { c.StandIns, c.StandInsPerHost, c.StandInIdle = n, n, idle })
		for i := range n {
			h := &held{}
			s.w.give(manage.Odd{Data: data(hostLink, 2, host4, ib.QPN(0x100+i)), Held: h})
		}
		s.settle()
		if s.door.open() != n {
			t.Fatalf("%d of %d were made", s.door.open(), n)
		}
		s.wait(idle - 2*time.Second)
		if s.door.open() != n {
			t.Errorf("%d of %d are left before their time", s.door.open(), n)
		}
		s.wait(4*time.Second + n/128*100*time.Millisecond)
		if s.door.open() != 0 || s.count().StandInsAged != n {
			t.Errorf("%d are left, %d aged", s.door.open(), s.count().StandInsAged)
		}
	})
}

// A host that has all its stand-ins gets a new one for the one that has been idle for longest, not for one in use.
func TestStandInGivesWay(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *door) { c.StandInIdle = 10 * time.Minute })
		for qpn := range ib.QPN(3) { // as many as a host may have
			s.hold(hostLink, host4, 0x10+qpn)
			s.wait(time.Second)
		}
		if h := s.hold(hostLink, host4, 0x20); h.ended() != "full" {
			t.Errorf("with none idle for long: ended by %q", h.ended())
		}
		s.wait(20 * time.Second)
		s.tables.MarkUsed(host4, 0x10)
		s.wait(2 * time.Minute)
		s.tables.MarkUsed(host4, 0x10)
		if h := s.hold(hostLink, host4, 0x20); h.ended() != "again" {
			t.Errorf("with two idle for long: ended by %q", h.ended())
		}
		for qpn, want := range map[ib.QPN]bool{0x10: true, 0x11: false, 0x12: true, 0x20: true} {
			if _, _, there := s.tables.FindStandIn(host4, qpn); there != want {
				t.Errorf("the stand-in of QP %v is there: %v, want %v", qpn, there, want)
			}
		}
		if s.door.open() != 3 {
			t.Errorf("%d queue pairs", s.door.open())
		}
	})
}
