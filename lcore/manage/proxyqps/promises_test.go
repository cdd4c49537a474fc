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

// promise promises room, or is denied it for a reason; "": it is not.
func (r *rig) promise(host netip.Addr, port uint16, now time.Time, denied string) {
	r.t.Helper()
	err := r.Promise(host, port, 0, now)
	if denied == "" && err != nil || denied != "" && (err == nil || !strings.Contains(err.Error(), denied)) {
		r.t.Errorf("%v port %d: %v, want %q", host, port, err, denied)
	}
}

// TestPromises checks that there is room for the proxy QP of each host that was told of a service, until it has it or
// does not come.
func TestPromises(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 6, Limits: proxyqps.Limits{PerHost: 3}, Every: time.Second, Workers: 1}), time.Now()
	r.must(host, 11, 7, now)
	r.promise(host, 1, now, "")
	r.promise(host, 1, now, "") // the same program once more
	r.promise(host, 2, now, "")
	r.promise(host, 3, now, "all its 3")
	r.Release(host, 2, 0) // the node has said no
	r.promise(host, 3, now, "")
	for i := range ib.QPN(2) {
		r.punt(host, 12+i, now)
	}
	r.want("promised", 3)
	r.promise(host, 4, now, "all its 3")
	now = now.Add(2 * time.Minute) // then they are idle, and make room
	r.promise(host, 4, now, "")
	for i := range ib.QPN(3) { // and now they are in use again
		r.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: host, HostQPN: 11 + i})
	}
	r.promise(other, 1, now, "")
	r.promise(other, 2, now, "")
	r.promise(other, 3, now, "all 6")
	now = now.Add(time.Minute)
	r.Tick(now)
	r.promise(other, 3, now, "")
	if n := r.Counters().ProxyQPsDenied; n != 3 {
		t.Errorf("%d denied", n)
	}
}

// TestPromisedRoom checks that nobody else takes the room that is promised to a host, and that the host itself does
// only by the queue pairs that it was promised room for.
func TestPromisedRoom(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 6, Limits: proxyqps.Limits{PerHost: 4}, Every: time.Second, Workers: 1}), time.Now()
	for port := range uint16(3) {
		r.promise(host, port, now, "")
	}
	r.must(host, 20, 7, now) // a service of the host's own
	if _, err := r.get(host, 21, 7, now); err == nil || !strings.Contains(err.Error(), "all its 4") {
		t.Errorf("a second service of the host's: %v", err)
	}
	r.must(other, 11, 7, now)
	r.must(other, 12, 7, now)
	if _, err := r.get(other, 13, 7, now); err == nil || !strings.Contains(err.Error(), "all 6") {
		t.Errorf("another host's service: %v", err)
	}
	if p := r.punt(other, 14, now); p.rejected != 1 || p.why != punt.RejectFull {
		t.Errorf("another host's queue pair: %+v", p)
	}
	for qpn := range ib.QPN(3) {
		p := r.punt(host, 30+qpn, now)
		if r.settle(); p.requeued != 1 {
			t.Errorf("promised queue pair %d: %+v", qpn, p)
		}
	}
	r.want("in the end", 6)
}

// TestPromisedPartitions checks that a queue pair has room in each partition that it was told of a service in.
func TestPromisedPartitions(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 6, Limits: proxyqps.Limits{PerHost: 2}, Every: time.Second, Workers: 1}), time.Now()
	for _, partition := range []uint8{0, 3, 0, 3} {
		if err := r.Promise(host, 1, partition, now); err != nil {
			t.Errorf("in partition %d: %v", partition, err)
		}
	}
	if err := r.Promise(host, 1, 4, now); err == nil || !strings.Contains(err.Error(), "all its 2") {
		t.Errorf("in a third one: %v", err)
	}
	r.Release(host, 1, 3) // it was told of another service there
	if err := r.Promise(host, 1, 4, now); err == nil {
		t.Error("what is still promised makes room")
	}
	r.Release(host, 1, 3)
	if err := r.Promise(host, 1, 4, now); err != nil {
		t.Errorf("in place of another: %v", err)
	}
}

// TestPromisesGiveWay checks that hosts that ask for services without end, and never send, do not keep a host out that
// has less: it is served at once where their promises are old enough, and theirs stay where it has as many.
func TestPromisesGiveWay(t *testing.T) {
	const most, each = 2048, 512
	r, now := newRig(t, proxyqps.Config{Max: most, Limits: limits(each), Every: time.Second, Workers: 1}), time.Now()
	for i := range most {
		r.promise(netip.AddrFrom4([4]byte{10, 9, 0, byte(10 + i%4)}), uint16(i), now, "")
		now = now.Add(10 * time.Millisecond) // 100 a second in all: far from a minute until the last
		r.Tick(now)
	}
	r.promise(other, 1, now, "")
	p := r.punt(other, 5, now)
	if r.settle(); p.requeued != 1 {
		t.Errorf("the newcomer's queue pair: %+v", p)
	}
	for i := range uint16(9) {
		r.promise(other, 2+i, now, "")
	}
	r.must(other, 6, 7, now)
	late := netip.MustParseAddr("10.9.0.99")
	for i := range ib.QPN(20) { // without a request before
		if why, ok := r.sends(late, 5+i, now); !ok {
			t.Errorf("its queue pair %d: %v", i, why)
		}
	}
}

// TestPromisesOfEquals checks that a host's promises make room for one that has less, and not for one that has as many.
func TestPromisesOfEquals(t *testing.T) {
	for _, c := range []struct {
		theirs, own uint16
		denied      string
	}{{3, 1, ""}, {2, 2, "all 4"}} {
		r, now := newRig(t, proxyqps.Config{Max: 4, Limits: limits(4), Every: time.Second, Workers: 1}), time.Now()
		for port := range c.theirs {
			r.promise(host, port, now, "")
		}
		for port := range c.own {
			r.promise(other, port, now, "")
		}
		r.promise(other, c.own, now.Add(10*time.Second), c.denied) // when the first ones are not firm any more
	}
}

// TestForgedRequests checks that requests for services from forged addresses keep nobody out, who may be known or new.
func TestForgedRequests(t *testing.T) {
	const most = 64
	r, now := newRig(t, proxyqps.Config{Max: most, Limits: limits(32), Every: time.Second, Workers: 1}), time.Now()
	r.promise(host, 1, now, "")
	r.must(host, 9, 7, now)
	for i := range 100 { // each has as many as a stranger gets
		ip := r.stranger(byte(i))
		_, _ = r.Promise(ip, 1, 0, now), r.Promise(ip, 2, 0, now)
	}
	for i := range ib.QPN(10) {
		if why, ok := r.sends(other, 5+i, now); !ok {
			t.Errorf("a newcomer's queue pair %d: %v", i, why)
		}
	}
	r.promise(other, 1, now, "")
	if why, ok := r.sends(r.stranger(200), 5, now); !ok {
		t.Errorf("one that cannot be told from them: %v", why)
	}
	if _, err := r.get(host, 10, 7, now); err != nil {
		t.Errorf("a service of the one that is known: %v", err)
	}
	for i := range 100 {
		_ = r.Promise(r.stranger(byte(i)), 3, 0, now)
	}
	if why, ok := r.sends(host, 20, now); !ok {
		t.Errorf("the one that was promised: %v", why)
	}
}
