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
	r, now := newRig(t, proxyqps.Config{Max: 6, PerHost: 3, Every: time.Second, Workers: 1}), time.Now()
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

// TestPromisedRoom checks that nobody else takes the room that is promised to a host, and that the host itself does only by the
// queue pairs that it was promised room for.
func TestPromisedRoom(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 6, PerHost: 4, Every: time.Second, Workers: 1}), time.Now()
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
	r, now := newRig(t, proxyqps.Config{Max: 6, PerHost: 2, Every: time.Second, Workers: 1}), time.Now()
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
