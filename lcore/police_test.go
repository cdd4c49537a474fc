// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"testing"
	"time"

	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// policed limits group4, in a fixture with policing enabled.
func policed(w *fixture) { w.group(group4).Policed = true }

func (s *rig) police(rate uint64) {
	s.t.Helper()
	_, id, ok := s.tables.Groups.Find(group4)
	if !ok {
		s.t.Fatal("the group is not there")
	}
	s.datapath.Police(int(id), rate)
}

// burstOf is how many packets may pass at once at a low rate.
const burstOf = 64

// A group's packets pass at its rate, however many come; the other direction and other groups have rates of their own.
func TestPoliceRate(t *testing.T) {
	s := newRig(t, smallFixture().with(policed))
	const rate, chunk = 20_000, 256
	s.police(rate)
	start, lost := time.Now(), 0.0
	last := start
	for last.Sub(start) < 100*time.Millisecond {
		s.fromRoCE(repeat(v4(to(group4)), chunk)...)
		s.toIB(0)
		// Credit is for ten milliseconds at most; a busy machine loses the rest.
		lost += max(0, time.Since(last).Seconds()-0.009)
		last = time.Now()
	}
	took := last.Sub(start).Seconds() // what comes after is no time in which packets could pass
	c := s.counters(lcore.RoCEToIB)
	least, most := rate*(took-lost)*0.9, rate*(took+0.011)*1.05+burstOf
	if sent := float64(c.Sent); sent < least || sent > most || c.Dropped() == 0 {
		t.Errorf("%.0f packets passed in %.3f s, want %.0f to %.0f; %d dropped", sent, took, least, most, c.Dropped())
	}
	s.fromIB(received(toGroup(mgidOf(group4))))
	s.fromRoCE(v4(to(groupOut)))
	if got := s.counters(lcore.IBToRoCE).Sent; got != 1 {
		t.Errorf("the other way, %d of 1 passed", got)
	}
	if got := s.counters(lcore.RoCEToIB); got.Sent != c.Sent+1 {
		t.Error("another group suffers")
	}
}

// What is dropped takes nothing of a group's rate: who may not cross cannot keep others from it.
func TestDroppedTakeNoCredit(t *testing.T) {
	for name, wrong := range map[string]func(*roce.Packet){
		"acl":          fromNewcomer(strangerIP),
		"qkey":         func(p *roce.Packet) { p.QKey = groupIB },
		"mtu_exceeded": payload(2049),
	} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t, smallFixture().with(policed))
			s.police(1)
			s.fromRoCE(repeat(v4(to(group4), wrong), 10*burstOf)...)
			s.fromRoCE(repeat(v4(to(group4)), burstOf)...)
			s.toIB(0)
			c := s.counters(lcore.RoCEToIB)
			want(t, "dropped", int(c.Drops[dropNamed(t, name)]), 10*burstOf)
			want(t, "passed", int(c.Sent), burstOf)
		})
	}
}

// A limit that is removed has no effect any more, and one that is set again has.
func TestPoliceChanges(t *testing.T) {
	s := newRig(t, smallFixture().with(policed))
	for _, step := range []struct {
		rate          uint64
		passed, stuck int
	}{{0, 500, 0}, {1, burstOf, 500 - burstOf}, {0, 500, 0}, {100_000_000, 500, 0}} {
		before := s.counters(lcore.RoCEToIB)
		s.police(step.rate)
		s.fromRoCE(repeat(v4(to(group4)), 500)...)
		s.toIB(0)
		after := s.counters(lcore.RoCEToIB)
		passed, stuck := int(after.Sent-before.Sent), int(after.Dropped()-before.Dropped())
		if passed != step.passed || stuck != step.stuck {
			t.Errorf("at %d packets a second %d passed and %d did not, want %d and %d", step.rate, passed, stuck, step.passed, step.stuck)
		}
	}
}
