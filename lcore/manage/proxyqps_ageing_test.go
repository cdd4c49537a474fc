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

// wait lets time pass while the loop runs.
func (s *rig) wait(d time.Duration) {
	// For the race detector: the test's reads come before the loop's writes, because both take the worker's lock.
	s.w.give()
	time.Sleep(d)
	synctest.Wait()
}

// TestProxyQPsAge checks that an unused proxy QP ends after its time, and that one in use, in either direction, stays.
func TestProxyQPsAge(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const idle = 40 * time.Second
		s := start(t, func(c *manageConfig, _ *ibPort) { c.ProxyQPLimits.Idle = idle })
		for qpn := range ib.QPN(3) {
			s.punt(hostLink, host4, 0x10+qpn)
		}
		towardsRoCE, _, _ := s.tables.ProxyQPs.Find(tables.HostQP{Host: host4, HostQPN: 0x12})
		for range 10 {
			s.wait(idle / 5)
			s.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: host4, HostQPN: 0x11})
			s.tables.ProxyQPs.MarkUsedQP(towardsRoCE.QPN)
		}
		for qpn, want := range map[ib.QPN]bool{0x10: false, 0x11: true, 0x12: true} {
			if _, _, there := s.tables.ProxyQPs.Find(tables.HostQP{Host: host4, HostQPN: qpn}); there != want {
				t.Errorf("the proxy QP of QP %v is there: %v, want %v", qpn, there, want)
			}
		}
		if n := s.count(); n.ProxyQPsAged != 1 || s.ibPort.open() != 2 {
			t.Errorf("%d aged, %d queue pairs open", n.ProxyQPsAged, s.ibPort.open())
		}
		s.wait(2 * idle)
		if s.ibPort.open() != 0 || s.tables.ProxyQPs.Len() != 0 || s.count().ProxyQPsAged != 3 {
			t.Errorf("%d queue pairs, %d proxy QPs after all fell silent", s.ibPort.open(), s.tables.ProxyQPs.Len())
		}
		if p := s.punt(hostLink, host4, 0x10); p.ended() != "requeued" || s.ibPort.open() != 1 {
			t.Errorf("one that sends again ended by %q", p.ended())
		}
	})
}

// TestProxyQPAge checks that the age is exact to an eighth, and that proxy QPs do not end where it is 0.
func TestProxyQPAge(t *testing.T) {
	const never = time.Minute
	for idle, last := range map[time.Duration]time.Duration{8 * time.Second: 10 * time.Second, 100 * time.Second: 112 * time.Second, 0: 0} {
		bubble(t, idle.String(), func(t *testing.T) {
			s := start(t, func(c *manageConfig, _ *ibPort) { c.ProxyQPLimits.Idle = idle })
			s.punt(hostLink, host4, 0x10)
			s.wait(cmp.Or(idle, never) - time.Second)
			if s.ibPort.open() != 1 {
				t.Fatal("it ended too early")
			}
			if idle == 0 {
				return
			}
			s.wait(last - idle + 2*time.Second)
			if s.ibPort.open() != 0 {
				t.Error("it is still there")
			}
		})
	}
}

// TestManyProxyQPsAge checks that thousands of proxy QPs end some at a time, each once.
func TestManyProxyQPsAge(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const n, idle = 10_000, 10 * time.Second
		s := startWith(t, tables.Config{MaxHosts: 16, MaxProxyQPs: n, MaxNodes: 16, MaxGroups: 64, MaxReaders: 1},
			func(c *manageConfig, _ *ibPort) {
				c.ProxyQPs, c.ProxyQPLimits.PerHost, c.ProxyQPLimits.Idle = n, n, idle
			})
		for i := range n {
			p := &packet{}
			s.w.give(manage.Punted{Data: data(hostLink, 2, host4, ib.QPN(0x100+i)), Pending: p})
		}
		s.settle()
		if s.ibPort.open() != n {
			t.Fatalf("%d of %d were made", s.ibPort.open(), n)
		}
		s.wait(idle - 2*time.Second)
		if s.ibPort.open() != n {
			t.Errorf("%d of %d are left before their time", s.ibPort.open(), n)
		}
		s.wait(4*time.Second + n/128*100*time.Millisecond)
		if s.ibPort.open() != 0 || s.count().ProxyQPsAged != n {
			t.Errorf("%d are left, %d aged", s.ibPort.open(), s.count().ProxyQPsAged)
		}
	})
}

// TestProxyQPGivesWay checks that a host at its limit gets a new proxy QP in exchange for the one that has been idle
// for longest, not for one in use.
func TestProxyQPGivesWay(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := start(t, func(c *manageConfig, _ *ibPort) { c.ProxyQPLimits.Idle = 10 * time.Minute })
		for qpn := range ib.QPN(3) { // as many as a host may have
			s.punt(hostLink, host4, 0x10+qpn)
			s.wait(time.Second)
		}
		if p := s.punt(hostLink, host4, 0x20); p.ended() != "full" {
			t.Errorf("with none idle for long: ended by %q", p.ended())
		}
		s.wait(20 * time.Second)
		s.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: host4, HostQPN: 0x10})
		s.wait(2 * time.Minute)
		s.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: host4, HostQPN: 0x10})
		if p := s.punt(hostLink, host4, 0x20); p.ended() != "requeued" {
			t.Errorf("with two idle for long: ended by %q", p.ended())
		}
		for qpn, want := range map[ib.QPN]bool{0x10: true, 0x11: false, 0x12: true, 0x20: true} {
			if _, _, there := s.tables.ProxyQPs.Find(tables.HostQP{Host: host4, HostQPN: qpn}); there != want {
				t.Errorf("the proxy QP of QP %v is there: %v, want %v", qpn, there, want)
			}
		}
		if s.ibPort.open() != 3 {
			t.Errorf("%d queue pairs", s.ibPort.open())
		}
	})
}
