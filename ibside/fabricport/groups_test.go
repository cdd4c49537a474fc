// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"testing"

	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

func TestPortJoinAgain(t *testing.T) {
	mgid, _ := ib.ParseGID("ff12:4001:ffff::1")
	other := fabric.NodeConfig{Name: "listen", GUID: 0x1e, Role: fabric.RoleListen, Groups: []fabric.GroupConfig{{MGID: mgid, QKey: groupQKey}}}
	r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{other}}, 64, 0)
	state := func() uint8 {
		for _, g := range r.fabric.SA().Groups() {
			return g.Members[r.port.Own().GIDs[0]]
		}
		return 0
	}
	for _, c := range []struct {
		name               string
		worker             int
		receive, nonMember bool
		state              uint8
		shared             int
	}{
		{"receive", 0, true, false, ib.JoinFull, 1},
		{"the same again", 0, true, false, ib.JoinFull, 1},
		{"on another worker", 1, true, false, ib.JoinFull, 1},
		{"send only", 1, false, false, ib.JoinSendOnlyFull, 0},
		{"and back", 0, true, false, ib.JoinFull, 1},
		{"as a non-member", 0, true, true, ib.JoinNonMember, 1},
		{"a non-member that sends", 1, false, true, ib.JoinSendOnly, 0},
		{"a member again", 0, true, false, ib.JoinFull, 1},
	} {
		m, err := r.port.Join(t.Context(), ibside.Join{
			MGID: mgid, QKey: groupQKey, PKey: 0xffff, Worker: c.worker, Receive: c.receive, NonMember: c.nonMember,
		})
		if err != nil || state() != c.state || len(r.groupQPNs()) != c.shared || len(r.port.qps) != c.shared {
			t.Errorf("%s: %+v, %v; join state %d, want %d; %d queue pairs, want %d",
				c.name, m, err, state(), c.state, len(r.port.qps), c.shared)
		}
	}
	second, _ := ib.ParseGID("ff12:4001:ffff::2")
	_, err := r.port.Join(t.Context(), ibside.Join{MGID: second, QKey: groupQKey, PKey: 0xffff, Receive: true})
	if err != nil || len(r.groupQPNs()) != 1 {
		t.Errorf("a second group of the same keys: %v, %d queue pairs", err, len(r.groupQPNs()))
	}
	if err := r.port.DestroyProxyQP(r.port.lastQP); err == nil {
		t.Error("destroyed the queue pair of a group as a proxy QP")
	}
	for _, g := range []ib.GID{mgid, second} {
		if err := r.port.Leave(t.Context(), g); err != nil {
			t.Error(err)
		}
	}
	if err := r.port.Leave(t.Context(), mgid); err == nil {
		t.Error("left a group twice")
	}
	if n := len(r.fabric.SA().Groups()); n != 1 || state() != 0 || len(r.port.qps) != 0 {
		t.Errorf("%d groups and %d queue pairs left, join state %d; want the listener's group", n, len(r.port.qps), state())
	}
}

// TestPortRenew changes the group's record: the queue pair that receives then has the new Q_Key.
func TestPortRenew(t *testing.T) {
	mgid, _ := ib.ParseGID("ff12:4001:ffff::1")
	r := newRig(t, fabric.Config{}, 64, 0)
	if _, err := r.port.Join(t.Context(), ibside.Join{MGID: mgid, QKey: groupQKey, PKey: 0xffff, Worker: 1, Receive: true}); err != nil {
		t.Fatal(err)
	}
	var m ibside.Membership
	done := func(got ibside.Membership) { m = got }
	err := r.port.groups.Renew(ib.MCMemberFields{MGID: mgid, QKey: groupQKey + 1, MLID: 0xc123}, done)
	if err != nil || m.MLID != 0xc123 || len(r.port.qps) != 1 {
		t.Fatalf("%+v, %v, %d queue pairs", m, err, len(r.port.qps))
	}
	for _, h := range r.port.qps {
		if !h.groups || h.worker != 1 || h.qp.QKey() != groupQKey+1 {
			t.Errorf("worker %d receives with Q_Key %v", h.worker, h.qp.QKey())
		}
	}
	m = ibside.Membership{}
	if err := r.port.groups.Renew(ib.MCMemberFields{MGID: ib.GID{0xff, 0x12, 15: 9}}, done); err != nil || m.MLID != 0 {
		t.Errorf("a group that was never joined: %v, %v", m, err)
	}
}
