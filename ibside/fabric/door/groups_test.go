// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"testing"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// plainSubnet remembers one join state of each group, and nothing else.
type plainSubnet struct {
	*sa.Client
	states map[ib.GID]uint8
}

func (s *plainSubnet) Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	got, err := s.Client.Join(ctx, f)
	if before := s.states[f.MGID] &^ f.JoinState; err == nil && before != 0 {
		err = s.Client.Leave(ctx, f.MGID, ib.GID{}, before)
	}
	if err == nil {
		s.states[f.MGID] = f.JoinState
	}
	return got, err
}

func (s *plainSubnet) Leave(ctx context.Context, mgid ib.GID) error {
	return s.Client.Leave(ctx, mgid, ib.GID{}, s.states[mgid])
}

func TestBridgeJoinAgain(t *testing.T) {
	mgid, _ := ib.ParseGID("ff12:4001:ffff::1")
	other := fabric.NodeConfig{Name: "listen", GUID: 0x1e, Role: fabric.RoleListen, Groups: []fabric.GroupConfig{{MGID: mgid, QKey: groupQKey}}}
	r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{other}}, 64, BridgeConfig{})
	state := func() uint8 {
		for _, g := range r.fabric.SA().Groups() {
			return g.Members[r.bridge.Port().GID]
		}
		return 0
	}
	for _, c := range []struct {
		name           string
		worker         int
		receive, guest bool
		state          uint8
		shared         int
	}{
		{"receive", 0, true, false, ib.JoinFull, 1},
		{"the same again", 0, true, false, ib.JoinFull, 1},
		{"on another worker", 1, true, false, ib.JoinFull, 1},
		{"send only", 1, false, false, ib.JoinSendOnlyFull, 0},
		{"and back", 0, true, false, ib.JoinFull, 1},
		{"as a guest of the listener's", 0, true, true, ib.JoinNonMember, 1},
		{"a guest that sends", 1, false, true, ib.JoinSendOnly, 0},
		{"a member again", 0, true, false, ib.JoinFull, 1},
	} {
		join := r.bridge.Join
		if c.guest {
			join = r.bridge.JoinAsGuest
		}
		m, err := join(t.Context(), mgid, groupQKey, 0xffff, c.worker, c.receive)
		if err != nil || state() != c.state || len(r.bridge.shared) != c.shared || len(r.bridge.qps) != c.shared {
			t.Errorf("%s: %+v, %v; join state %d, want %d; %d queue pairs, want %d",
				c.name, m, err, state(), c.state, len(r.bridge.qps), c.shared)
		}
	}
	second, _ := ib.ParseGID("ff12:4001:ffff::2")
	m, err := r.bridge.Join(t.Context(), second, groupQKey, 0xffff, 0, true)
	if err != nil || len(r.bridge.shared) != 1 {
		t.Errorf("a second group of the same keys: %v, %d queue pairs", err, len(r.bridge.shared))
	}
	if err := r.bridge.DestroyStandIn(m.QP); err == nil {
		t.Error("destroyed the queue pair of a group as a stand-in")
	}
	for _, g := range []ib.GID{mgid, second} {
		if err := r.bridge.Leave(t.Context(), g); err != nil {
			t.Error(err)
		}
	}
	if err := r.bridge.Leave(t.Context(), mgid); err == nil {
		t.Error("left a group twice")
	}
	if n := len(r.fabric.SA().Groups()); n != 1 || state() != 0 || len(r.bridge.qps) != 0 {
		t.Errorf("%d groups and %d queue pairs left, join state %d; want the listener's group", n, len(r.bridge.qps), state())
	}
}

// TestBridgeRenew has the group's record change: the queue pair that receives has the new Q_Key.
func TestBridgeRenew(t *testing.T) {
	mgid, _ := ib.ParseGID("ff12:4001:ffff::1")
	r := newRig(t, fabric.Config{}, 64, BridgeConfig{})
	if _, err := r.bridge.Join(t.Context(), mgid, groupQKey, 0xffff, 1, true); err != nil {
		t.Fatal(err)
	}
	m, there, err := r.bridge.Renew(ib.MCMemberFields{MGID: mgid, QKey: groupQKey + 1, MLID: 0xc123})
	if err != nil || !there || m.MLID != 0xc123 || len(r.bridge.shared) != 1 {
		t.Fatalf("%+v, %v, %v, %d queue pairs", m, there, err, len(r.bridge.shared))
	}
	for key, s := range r.bridge.shared {
		if key.worker != 1 || s.qp.QKey() != groupQKey+1 || s.qp.QPN() != m.QPN {
			t.Errorf("worker %d receives with Q_Key %v by %v; the membership says %v", key.worker, s.qp.QKey(), s.qp.QPN(), m.QPN)
		}
	}
	if _, there, err := r.bridge.Renew(ib.MCMemberFields{MGID: ib.GID{0xff, 0x12, 15: 9}}); there || err != nil {
		t.Errorf("a group that was never joined: %v, %v", there, err)
	}
}
