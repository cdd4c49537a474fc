// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"net/netip"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore"
)

// TestPolicyWhileRunning changes the policy repeatedly while a worker runs: a source that all of the policies allow is
// never dropped, and in the end the last policy applies.
func TestPolicyWhileRunning(t *testing.T) {
	w := smallFixture()
	w.config.Idle = lcore.IdleSleep
	s := newRig(t, w)
	s.start()
	wide, narrow := w.config.Policy, w.config.Policy
	narrow.Allow = []netip.Prefix{netip.PrefixFrom(newcomerIP, 32)}
	narrow.BridgeUnknown = true
	for i := range narrow.SLOfDSCP {
		narrow.SLOfDSCP[i] = ib.SL(i % 16)
	}
	const rounds = 500
	for pending := 0; pending < rounds; {
		for _, p := range []lcore.Policy{narrow, wide} {
			if err := s.datapath.SetPolicy(p); err != nil {
				t.Fatal(err)
			}
		}
		s.arrive(0, newcomer())
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Microsecond) {
			punted := s.workers[0].TakePunted()
			for _, o := range punted {
				o.Pending.Drop(lcore.DropACL)
			}
			if pending += len(punted); len(punted) > 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d of %d are pending: %+v", pending, rounds, s.datapath.Counters().Direction[lcore.RoCEToIB])
			}
		}
	}
	if got := s.counters(lcore.RoCEToIB).Drops[lcore.DropACL]; got != rounds {
		t.Errorf("%d dropped as acl, %d by management", got, rounds)
	}
	none := wide
	none.Allow = nil
	if err := s.datapath.SetPolicy(none); err != nil {
		t.Fatal(err)
	}
	s.arrive(0, newcomer())
	for end := time.Now().Add(time.Minute); s.counters(lcore.RoCEToIB).Drops[lcore.DropACL] != rounds+1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not dropped: %v", s.counters(lcore.RoCEToIB).Drops)
		}
	}
	many := none
	many.Allow = make([]netip.Prefix, 65)
	if err := s.datapath.SetPolicy(many); err == nil {
		t.Error("65 prefixes are taken")
	}
}

// TestClassChange checks that a new service level applies from the next packet on.
func TestClassChange(t *testing.T) {
	w := smallFixture()
	s := newRig(t, w)
	p := w.config.Policy
	for _, sl := range []ib.SL{5, 6} {
		p.SLOfDSCP[0x62>>2] = sl
		if err := s.datapath.SetPolicy(p); err != nil {
			t.Fatal(err)
		}
		s.fromRoCE(v4())
		if got := s.toIB(0); len(got) != 1 || got[0].SL != sl {
			t.Errorf("%d messages, %+v", len(got), got)
		}
	}
}
