// SPDX-License-Identifier: Apache-2.0

package proxyqps_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
	"causeway/tables"
)

func limits(perHost int) proxyqps.Limits { return proxyqps.Limits{PerHost: perHost, Unconfirmed: 2} }

// stranger is the i-th host that has not shown that it exists.
func (r *rig) stranger(i byte) netip.Addr {
	ip := netip.AddrFrom4([4]byte{10, 9, 1, i})
	r.strange[ip] = true
	return ip
}

// sends makes a queue pair's first packet cross, or reports why it does not.
func (r *rig) sends(host netip.Addr, qpn ib.QPN, now time.Time) (why punt.Rejection, crossed bool) {
	r.t.Helper()
	p := r.punt(host, qpn, now)
	r.settle()
	if p.requeued+p.rejected != 1 {
		r.t.Errorf("%v QP %v: %+v", host, qpn, p)
	}
	return p.why, p.requeued == 1
}

func (r *rig) has(host netip.Addr, qpn ib.QPN) bool {
	_, _, ok := r.tables.ProxyQPs.Find(tables.HostQP{Host: host, HostQPN: qpn})
	return ok
}

// TestEviction checks which proxy QP of any host makes room: strangers' before others', those that nothing came back to
// before those that are answered, those that have been idle for longest before all; and that what is in use stays.
func TestEviction(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 5, Limits: limits(4), Every: time.Second, Workers: 1}), time.Now()
	a, b := r.stranger(1), r.stranger(2)
	for _, x := range []tables.HostQP{{Host: host, HostQPN: 11}, {Host: host, HostQPN: 12}, {Host: a, HostQPN: 5}, {Host: a, HostQPN: 6}, {Host: b, HostQPN: 5}} {
		if why, ok := r.sends(x.Host, x.HostQPN, now); !ok {
			t.Fatalf("%v: %v", &x, why)
		}
		s, _, _ := r.tables.ProxyQPs.Find(x)
		if x.HostQPN != 12 && x.HostQPN != 6 {
			r.tables.ProxyQPs.MarkUsedQP(s.QPN) // an answer
		}
		now = now.Add(time.Second)
		r.LastUsed(x.Host, now)
	}
	for i, gone := range []tables.HostQP{{Host: a, HostQPN: 6}, {Host: host, HostQPN: 12}, {Host: a, HostQPN: 5}, {Host: b, HostQPN: 5}} {
		if i == 1 { // long after
			now = now.Add(2 * time.Minute)
		}
		if why, ok := r.sends(other, ib.QPN(21+i), now); !ok {
			t.Fatalf("room %d: %v", i, why)
		}
		s, _, _ := r.tables.ProxyQPs.Find(tables.HostQP{Host: other, HostQPN: ib.QPN(21 + i)})
		r.tables.ProxyQPs.MarkUsedQP(s.QPN)
		if r.has(gone.Host, gone.HostQPN) {
			t.Errorf("room %d: %v is still there", i, &gone)
		}
	}
	r.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: host, HostQPN: 11})
	if why, ok := r.sends(netip.MustParseAddr("10.9.0.3"), 5, now); ok || why != punt.RejectFull {
		t.Errorf("all are in use: %v, %v", why, ok)
	}
	if c := r.Counters(); c.ProxyQPsEvicted != 4 || c.ProxyQPsAged != 0 {
		t.Errorf("%+v", c)
	}
	r.want("in the end", 5)
}

// TestStrangersGoSoon checks that a stranger's proxy QP makes room though it has just been answered, and that of a host which has shown
// that it exists does not.
func TestStrangersGoSoon(t *testing.T) {
	for _, strange := range []bool{true, false} {
		r, now := newRig(t, proxyqps.Config{Max: 1, Limits: limits(4), Every: time.Second, Workers: 1}), time.Now()
		from := host
		if strange {
			from = r.stranger(1)
		}
		r.sends(from, 5, now)
		s, _, _ := r.tables.ProxyQPs.Find(tables.HostQP{Host: from, HostQPN: 5})
		r.tables.ProxyQPs.MarkUsedQP(s.QPN) // an answer
		r.LastUsed(from, now)
		now = now.Add(10 * time.Second)
		if why, ok := r.sends(other, 21, now); ok != strange || r.has(from, 5) == strange {
			t.Errorf("of a stranger %t: room %t, %v", strange, ok, why)
		}
	}
}

// TestEvictStranger checks that a stranger's proxy QPs make room for another host, and a host's that has shown that it
// exists never do.
func TestEvictStranger(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 8, Limits: limits(4), Every: time.Second, Workers: 1}), time.Now()
	r.must(host, 11, 7, now)
	r.LastUsed(host, now)
	now = now.Add(time.Hour) // it is idle
	if gone, found := r.EvictStranger(now); found || !r.has(host, 11) {
		t.Errorf("%v makes room", gone)
	}
	a := r.stranger(1)
	for qpn := range ib.QPN(2) {
		if why, ok := r.sends(a, 5+qpn, now); !ok {
			t.Fatal(why)
		}
	}
	r.LastUsed(a, now)
	now = now.Add(time.Hour)
	if gone, found := r.EvictStranger(now); !found || gone != a || r.has(a, 5) || r.has(a, 6) || !r.has(host, 11) {
		t.Errorf("%v makes room, %t", gone, found)
	}
}

// TestForgedAddresses checks that new addresses without end leave the proxy QPs that are in use where they are, those
// that are promised free, and room for a host that has shown that it exists.
func TestForgedAddresses(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 12, Limits: limits(8), Every: time.Second, Workers: 1}), time.Now()
	for qpn := range ib.QPN(3) {
		r.sends(host, 11+qpn, now)
	}
	r.promise(other, 1, now, "")
	newcomer := netip.MustParseAddr("10.9.0.3")
	for i := range 200 {
		now = now.Add(time.Millisecond)
		r.sends(r.stranger(byte(i)), ib.QPN(100+i), now)
		for qpn := range ib.QPN(3) {
			r.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: host, HostQPN: 11 + qpn})
		}
		if n := r.tables.ProxyQPs.Len(); n > 11 {
			t.Fatalf("%d proxy QPs besides the one that is promised", n)
		}
	}
	if n := strings.Count(r.log.String(), "proxy_qps_under_pressure"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, r.log)
	}
	for qpn := range ib.QPN(3) {
		if !r.has(host, 11+qpn) {
			t.Errorf("QP %d that is in use has lost its proxy QP", 11+qpn)
		}
	}
	if why, ok := r.sends(newcomer, 5, now); !ok {
		t.Errorf("a newcomer: %v", why)
	}
	if why, ok := r.sends(other, 5, now); !ok {
		t.Errorf("the promised one: %v", why)
	}
	r.want("in the end", 12)
}

// TestUnconfirmed checks that a host gets a few proxy QPs until it has shown that it exists, that it is asked to, and
// that one behind a router, which cannot be, is not bound by that.
func TestUnconfirmed(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 12, Limits: limits(6), Every: time.Second, Workers: 1}), time.Now()
	a, routed := r.stranger(1), netip.MustParseAddr("192.0.2.1")
	r.strange[routed], r.routed[routed] = true, true
	for qpn := range ib.QPN(4) {
		why, ok := r.sends(a, 5+qpn, now)
		if few := qpn < 2; ok != few || !few && why != punt.RejectUnconfirmed {
			t.Errorf("stranger's QP %d: %v, %v", qpn, ok, why)
		}
		if why, ok := r.sends(routed, 5+qpn, now); !ok {
			t.Errorf("QP %d behind a router: %v", qpn, why)
		}
	}
	if r.asked[a] != 4 || r.asked[routed] != 0 {
		t.Errorf("asked %v", r.asked)
	}
	if err := r.Promise(a, 1, 0, now); !proxyqps.IsOfStranger(err) {
		t.Errorf("it is promised another one: %v", err)
	}
	delete(r.strange, a)
	if why, ok := r.sends(a, 9, now); !ok {
		t.Errorf("it has answered: %v", why)
	}
}

// TestRates checks that new proxy QPs are bounded in a second, in all and of one host, and that strangers leave others
// their part.
func TestRates(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 16, Limits: proxyqps.Limits{PerHost: 9, Unconfirmed: 2, Rate: 8, RatePerHost: 5}, Every: time.Second, Workers: 1}), time.Now()
	made := func(of func(i int) netip.Addr, most int, want punt.Rejection) (n int) {
		for i := range most {
			why, ok := r.sends(of(i), ib.QPN(100+n), now)
			switch {
			case ok:
				n++
			case why != want:
				t.Errorf("rejected as %v, want %v", why, want)
			}
		}
		return n
	}
	if n := made(func(i int) netip.Addr { return r.stranger(byte(i)) }, 8, punt.RejectUnconfirmed); n != 2 {
		t.Errorf("strangers get %d, want 2", n)
	}
	if n := made(func(int) netip.Addr { return host }, 8, punt.RejectRate); n != 5 {
		t.Errorf("a host gets %d, want 5", n)
	}
	if n := made(func(int) netip.Addr { return other }, 8, punt.RejectRate); n != 1 {
		t.Errorf("what is left is %d, want 1", n)
	}
	now = now.Add(time.Second)
	r.Tick(now)
	r.SetLimits(proxyqps.Limits{PerHost: 9, Unconfirmed: 2})
	if n := made(func(int) netip.Addr { return other }, 8, 0); n != 8 {
		t.Errorf("without a limit a host gets %d, want 8", n)
	}
}

// TestRemove checks that an operator ends the proxy QPs of one queue pair, or of all.
func TestRemove(t *testing.T) {
	r, now := newRig(t, wide), time.Now()
	for qpn := range ib.QPN(3) {
		r.must(host, 11+qpn, 7, now)
	}
	r.must(other, 11, 7, now)
	for _, step := range []struct {
		qpn  ib.QPN
		want int
	}{{12, 1}, {12, 0}, {0, 2}, {0, 0}} {
		if n := r.Remove(host, step.qpn); n != step.want {
			t.Errorf("QP %v: %d were removed, want %d", step.qpn, n, step.want)
		}
	}
	r.want("the other host's", 1)
}
