// SPDX-License-Identifier: Apache-2.0

package proxyqps_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
)

// TestShortDevice checks that nobody is promised a proxy QP that the device has not made for others, that idle ones
// make room for it, and that the log says so once; and that more are made when the device makes them again.
func TestShortDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, proxyqps.Config{Max: 8, Limits: proxyqps.Limits{PerHost: 8}, Every: time.Second, Workers: 1})
		r.most = 3
		for i := range ib.QPN(3) {
			r.must(host, 11+i, 7, time.Now())
		}
		r.promise(other, 1, time.Now(), "") // nothing is known of the device yet
		if p := r.punt(other, 11, time.Now()); p.rejected != 0 {
			t.Errorf("before the device was asked: %+v", p)
		}
		r.want("what the device makes", 3)
		for port := range uint16(3) {
			r.promise(other, 2+port, time.Now(), "makes no more than 3")
		}
		if p := r.punt(other, 12, time.Now()); p.rejected != 1 || p.why != punt.RejectFull || r.Most(time.Now()) != 3 {
			t.Errorf("%+v; at most %d", p, r.Most(time.Now()))
		}
		for range 12 { // the device is tried now and then
			time.Sleep(10 * time.Second)
			for i := range ib.QPN(3) {
				r.must(host, 11+i, 7, time.Now()) // in use
			}
			r.punt(other, 12, time.Now())
			r.settle()
		}
		if n := bytes.Count(r.log.Bytes(), []byte("proxy_qps_short made=3 limit=8")); n != 1 {
			t.Errorf("the log has it %d times:\n%s", n, r.log)
		}
		if _, err := r.get(other, 12, 7, time.Now()); err == nil || r.Of(host) != 3 {
			t.Errorf("%v; the host has %d", err, r.Of(host))
		}
		time.Sleep(9 * time.Second)
		r.punt(other, 13, time.Now())
		r.settle()
		time.Sleep(2 * time.Minute) // those of the host are idle
		r.punt(other, 14, time.Now())
		r.settle()
		p := r.punt(other, 14, time.Now())
		if r.settle(); p.requeued != 1 || r.Of(host) != 2 {
			t.Errorf("%+v; the host has %d", p, r.Of(host))
		}
		r.want("one for another", 3)
		r.most = 0
		time.Sleep(10 * time.Second)
		for i := range ib.QPN(4) {
			r.must(other, 21+i, 7, time.Now())
		}
		if r.want("all", 7); r.Most(time.Now()) != 8 {
			t.Errorf("at most %d", r.Most(time.Now()))
		}
	})
}
