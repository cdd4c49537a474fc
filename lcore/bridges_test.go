// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"testing"

	"causeway/lcore"
)

// What another bridge has sent on Ethernet, in whosever name, crosses no second one, until it is none any more. Hosts
// that are known by another MAC address stay.
func TestBridgesOnEthernet(t *testing.T) {
	s := newRig(t, smallFixture())
	stranger, moved := v4(fromNewcomer(newcomerIP)), v4()
	const other = 0x5e
	for _, frame := range [][]byte{stranger, moved} {
		frame[11] = other
	}
	mac := [6]byte(stranger[6:12])
	expect := func(frame []byte, drop string) {
		t.Helper()
		before := s.counters(lcore.RoCEToIB)
		s.fromRoCE(frame)
		checkVerdict(t, s, lcore.RoCEToIB, before, drop)
	}
	for _, step := range []struct {
		macs [][6]byte
		drop string
	}{
		{[][6]byte{{2}, mac}, "loop_bridge"}, {[][6]byte{mac}, "loop_bridge"},
	} {
		if err := s.datapath.SetBridges(step.macs); err != nil {
			t.Fatal(err)
		}
		expect(stranger, step.drop)
		expect(moved, step.drop)
		expect(v4(), "")
	}
	if err := s.datapath.SetPolicy(s.fixture.config.Policy); err != nil {
		t.Fatal(err)
	}
	expect(stranger, "loop_bridge")
	if err := s.datapath.SetBridges(nil); err != nil {
		t.Fatal(err)
	}
	s.ignorePunts = true
	s.fromRoCE(stranger)
	got := s.workers[0].TakePunted()
	if len(got) != 1 || got[0].Pending == nil {
		t.Fatalf("%d frames came to management when there is no other bridge", len(got))
	}
	got[0].Pending.Drop(lcore.DropACL)
}
