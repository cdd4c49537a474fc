// SPDX-License-Identifier: Apache-2.0

package proxyqps_test

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
	"causeway/tables"
)

// punt passes a pending packet of a host's queue pair.
func (r *rig) punt(src netip.Addr, qpn ib.QPN, now time.Time) *pending {
	r.t.Helper()
	p := roce.Packet{
		Version: 2, Src: mac, Dst: frame.MAC{2, 0, 0, 0, 0, 0xfe}, SrcIP: src, DstIP: netip.MustParseAddr("10.9.0.7"), HopLimit: 64,
		SrcPort: 0xc000, PKey: ib.PKeyDefault, DestQP: 0x77, QKey: 7, SrcQP: qpn,
	}
	f, fault := frame.Open(p.AppendTo(nil))
	if fault != "" {
		r.t.Fatal(fault)
	}
	packet := &pending{}
	r.HandlePending(f, packet, now)
	return packet
}

// slowRig is a rig whose port makes nothing until slow is closed.
func slowRig(t *testing.T, c proxyqps.Config) *rig {
	r := newRig(t, c)
	r.slow = make(chan struct{})
	return r
}

var wide = proxyqps.Config{Max: 8, Limits: proxyqps.Limits{PerHost: 4}, Every: time.Second, Workers: 1}

// TestSlowPort checks that nothing waits for the port but the packets and the services of a proxy QP that is being
// made, and that it counts in the limits.
func TestSlowPort(t *testing.T) {
	r, now := slowRig(t, wide), time.Now()
	var packets []*pending
	for i := range 6 { // two of each queue pair
		packets = append(packets, r.punt(host, ib.QPN(11+i%3), now))
	}
	service, same := r.askFor(host, 14, 7, now), r.askFor(host, 11, 7, now)
	if p := r.punt(host, 15, now); p.rejected != 1 || p.why != punt.RejectFull || r.Of(host) != 4 {
		t.Errorf("the fifth of a host: %+v, %d are counted", p, r.Of(host))
	}
	for i, p := range packets {
		if p.requeued+p.rejected != 0 {
			t.Errorf("packet %d has ended: %+v", i, p)
		}
	}
	close(r.slow)
	r.want("made", 4)
	for i, p := range packets {
		if p.requeued != 1 || p.rejected != 0 {
			t.Errorf("packet %d: %+v", i, p)
		}
	}
	s, _, _ := r.tables.ProxyQPs.Find(tables.HostQP{Host: host, HostQPN: 11})
	if service.ends != 1 || service.err != nil || same.ends != 1 || same.qpn != s.QPN {
		t.Errorf("services: %+v, %+v; %+v", service, same, s)
	}
}

// TestEndsWhileMade checks that a proxy QP that is being made ends with its host, by policy and by another Q_Key, and
// that the queue pair that comes too late is destroyed.
func TestEndsWhileMade(t *testing.T) {
	for name, c := range map[string]struct {
		end      func(r *rig)
		why      punt.Rejection
		requeued int
	}{
		"its host is removed": {func(r *rig) { r.RemoveHost(host, "test") }, punt.RejectSource, 0},
		"its host is denied":  {func(r *rig) { r.SetAllow([]netip.Prefix{netip.PrefixFrom(other, 32)}) }, punt.RejectDenied, 0},
		"a service's Q_Key":   {func(r *rig) { r.askFor(host, 11, 8, time.Now()) }, 0, 1},
		"the tables reject it": {func(r *rig) {
			if err := r.tables.Hosts.Delete(host); err != nil {
				r.t.Fatal(err)
			}
		}, punt.RejectFull, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := slowRig(t, wide), time.Now()
			p, others := r.punt(host, 11, now), r.punt(other, 11, now)
			c.end(r)
			close(r.slow)
			r.want(name, 1+c.requeued)
			if p.requeued != c.requeued || p.rejected != 1-c.requeued || p.why != c.why || others.requeued != 1 {
				t.Errorf("%+v; another host's %+v", p, others)
			}
			if n := r.Of(host); n != c.requeued || r.given[host] != (n > 0) {
				t.Errorf("%d are counted, a source is given: %v", n, r.given[host])
			}
			if s, _, ok := r.tables.ProxyQPs.Find(tables.HostQP{Host: host, HostQPN: 11}); ok && s.QKey != 8 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestStopsWhileMade checks that the packets end whose queue pair the port has not begun when the loop stops, and that
// one that it makes is used.
func TestStopsWhileMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, now := slowRig(t, proxyqps.Config{Max: 16 + 4, Limits: proxyqps.Limits{PerHost: 16 + 4}, Workers: 1}), time.Now()
		var packets []*pending
		for i := range 16 + 4 { // more than the port makes at a time
			packets = append(packets, r.punt(host, ib.QPN(11+i), now))
		}
		synctest.Wait()
		r.stop()
		synctest.Wait()
		close(r.slow)
		r.settle()
		made, stopped := 0, 0
		for _, p := range packets {
			made += p.requeued
			if p.rejected == 1 && p.why == punt.RejectStopped {
				stopped++
			}
		}
		if made != 16 || stopped != 4 || len(r.open) != 16 || r.Of(host) != 16 {
			t.Errorf("%d made, %d stopped, %d open, %d counted", made, stopped, len(r.open), r.Of(host))
		}
	})
}

// TestWaitingPackets checks that the packets that wait are bounded, and that their places are free afterwards.
func TestWaitingPackets(t *testing.T) {
	r, now := slowRig(t, wide), time.Now()
	busy := 0
	for range 260 {
		if p := r.punt(host, 11, now); p.rejected == 1 && p.why == punt.RejectBusy {
			busy++
		}
	}
	if busy != 4 {
		t.Errorf("%d of 260 packets of one queue pair do not wait, want 4", busy)
	}
	close(r.slow)
	r.settle()
	if p := r.punt(host, 12, now); p.rejected != 0 {
		t.Errorf("later: %+v", p)
	}
	r.want("after all", 2)
}

// TestWaitingRoom checks that the packets that wait are no more than there is room for, of one host half of them.
func TestWaitingRoom(t *testing.T) {
	c := wide
	c.Waiting = 10
	r, now := slowRig(t, c), time.Now()
	waits := func(src netip.Addr) (n int) {
		for range 20 {
			if r.punt(src, 11, now).rejected == 0 {
				n++
			}
		}
		return n
	}
	if one, two := waits(host), waits(other); one != 5 || two != 3 { // half of what is left
		t.Errorf("%d and %d wait", one, two)
	}
	close(r.slow)
	r.want("in the end", 2)
}

// TestPortFails checks that all that wait for a queue pair learn that there is none.
func TestPortFails(t *testing.T) {
	r, now := slowRig(t, wide), time.Now()
	r.failed = errors.New("no QP is left")
	p, service := r.punt(host, 11, now), r.askFor(host, 11, 7, now)
	close(r.slow)
	r.want("failed", 0)
	if p.why != punt.RejectFull || p.rejected != 1 || !errors.Is(service.err, r.failed) || service.ends != 1 || r.Of(host) != 0 {
		t.Errorf("%+v, %+v, %d are counted", p, service, r.Of(host))
	}
}

// TestWaitingShares checks that one host's packets leave room for others' to wait.
func TestWaitingShares(t *testing.T) {
	r, now := slowRig(t, proxyqps.Config{Max: 32, Limits: proxyqps.Limits{PerHost: 24}, Every: time.Second, Workers: 1}), time.Now()
	busy := 0
	for i := range 20 * 256 {
		if p := r.punt(host, ib.QPN(11+i%20), now); p.rejected == 1 && p.why == punt.RejectBusy {
			busy++
		}
	}
	if busy != 20*256-2048 {
		t.Errorf("%d of %d packets of one host do not wait, want all but 2048", busy, 20*256)
	}
	if p := r.punt(other, 11, now); p.rejected != 0 {
		t.Errorf("another host's: %+v", p)
	}
	close(r.slow)
	r.want("made", 21)
	r.slow = make(chan struct{})
	for range 256 {
		if p := r.punt(host, 99, now); p.rejected == 1 && p.why == punt.RejectBusy {
			t.Fatal("the room is not free again")
		}
	}
	close(r.slow)
	r.settle()
}
