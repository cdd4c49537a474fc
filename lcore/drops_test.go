// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"encoding/hex"
	"maps"
	"slices"
	"testing"

	"causeway/lcore"
)

// A roceCase is a frame from Ethernet that must be dropped for one reason, and no other. An empty reason: it is
// forwarded.
type roceCase struct {
	name    string
	drop    string
	frame   []byte
	fixture func(*fixture) // what differs from smallFixture
}

// An ibCase is the same from the IB port.
type ibCase struct {
	name    string
	drop    string
	msg     message
	fixture func(*fixture)
}

// roceCases are all of that direction, in the order of the checks.
func roceCases() []roceCase {
	return slices.Concat(etherCases, ip4Cases, ip6Cases, grhCases, udpCases, transportCases, messageCases, policyCases, plainCases)
}

func named(t *testing.T, name string) map[lcore.Drop]uint64 {
	t.Helper()
	if name == "" {
		return map[lcore.Drop]uint64{}
	}
	d, ok := lcore.DropNamed(name)
	if !ok {
		t.Fatalf("there is no drop %q", name)
	}
	return map[lcore.Drop]uint64{d: 1}
}

// rigFor returns a rig with the changed fixture, or the common one when the case changes nothing.
func rigFor(t *testing.T, common *rig, change func(*fixture)) *rig {
	t.Helper()
	if change == nil {
		return common
	}
	return newRig(t, smallFixture().with(change))
}

// checkVerdict asserts that one packet came in and was dropped for the reason, or left by a port.
func checkVerdict(t *testing.T, s *rig, d lcore.Direction, before lcore.DirectionCounters, drop string) {
	t.Helper()
	want, after := named(t, drop), s.counters(d)
	if got := s.droppedSince(d, before); !maps.Equal(got, want) {
		t.Errorf("dropped %v, want %v", got, want)
	}
	sent := uint64(1 - len(want))
	if after.Received != before.Received+1 || after.Sent != before.Sent+sent {
		t.Errorf("received %d and sent %d, want 1 and %d", after.Received-before.Received, after.Sent-before.Sent, sent)
	}
	toManagement := 0
	if drop == "mad_served" {
		toManagement = 1
	}
	if n := len(s.takePunted()); n != toManagement {
		t.Errorf("management got %d frames", n)
	}
}

func TestDropsFromRoCE(t *testing.T) {
	common := newRig(t, smallFixture())
	for _, c := range roceCases() {
		t.Run(c.name, func(t *testing.T) {
			s := rigFor(t, common, c.fixture)
			before := s.counters(lcore.RoCEToIB)
			s.fromRoCE(c.frame)
			checkVerdict(t, s, lcore.RoCEToIB, before, c.drop)
			if got := s.toIB(0); len(got) != 1-len(named(t, c.drop)) {
				t.Errorf("the port got %d messages", len(got))
			}
			if t.Failed() {
				t.Logf("frame %s", hex.EncodeToString(c.frame))
			}
		})
	}
}

func TestDropsFromIB(t *testing.T) {
	common := newRig(t, smallFixture())
	for _, c := range ibCases {
		t.Run(c.name, func(t *testing.T) {
			s := rigFor(t, common, c.fixture)
			before := s.counters(lcore.IBToRoCE)
			s.fromIB(c.msg)
			checkVerdict(t, s, lcore.IBToRoCE, before, c.drop)
			if got := s.toRoCE(0); len(got) != 1-len(named(t, c.drop)) {
				t.Errorf("the port got %d frames", len(got))
			}
		})
	}
}

// TestEveryDropHasACase fails when a reason is added to drop.def without a case that provokes it.
func TestEveryDropHasACase(t *testing.T) {
	provoked := map[string]bool{}
	for _, c := range roceCases() {
		provoked[c.drop] = true
	}
	for _, c := range ibCases {
		provoked[c.drop] = true
	}
	for _, c := range wayCases {
		provoked[c.drop] = true
	}
	for _, d := range lcore.Drops() {
		if !provoked[d.String()] {
			t.Errorf("no case provokes %v: %s", d, d.Sentence())
		}
	}
}

func TestDropNames(t *testing.T) {
	for _, d := range lcore.Drops() {
		if back, ok := lcore.DropNamed(d.String()); !ok || back != d || d.Sentence() == "" {
			t.Errorf("drop %d: named %q, which is %d; sentence %q", d, d, back, d.Sentence())
		}
	}
	if d, ok := lcore.DropNamed("pass"); ok {
		t.Errorf("the value for a packet that is not dropped has a name: drop %d", d)
	}
	if d := lcore.Drop(lcore.DropCount); d.String() != "unknown" || d.Sentence() != "unknown" {
		t.Errorf("a number that is no drop has the name %q", d)
	}
}
