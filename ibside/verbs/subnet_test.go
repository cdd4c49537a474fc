// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"causeway/ibside/ib"
)

// fakeSubnet answers as a test says and remembers what it was asked.
type fakeSubnet struct {
	mlid   ib.LID
	err    error
	joined []ib.MCMemberFields
	left   []ib.GID
}

func (s *fakeSubnet) Join(_ context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	s.joined = append(s.joined, f)
	f.MLID, f.SL, f.HopLimit, f.MTU = s.mlid, 3, 7, 4
	return f, s.err
}

func (s *fakeSubnet) Leave(_ context.Context, mgid ib.GID) error {
	s.left = append(s.left, mgid)
	return s.err
}

func (s *fakeSubnet) Path(context.Context, ib.GID) (ib.PathFields, error) {
	return ib.PathFields{DLID: 9, SL: 2, MTU: 4}, s.err
}

// fakeQP remembers its attachments in order, and refuses one MLID.
type fakeQP struct {
	calls  []string
	refuse ib.LID
}

func (q *fakeQP) attach(_ ib.GID, mlid ib.LID) error {
	q.calls = append(q.calls, fmt.Sprintf("+%v", mlid))
	if mlid == q.refuse {
		return errors.New("refused")
	}
	return nil
}

func (q *fakeQP) detach(_ ib.GID, mlid ib.LID) error {
	q.calls = append(q.calls, fmt.Sprintf("-%v", mlid))
	return nil
}

func (q *fakeQP) take() []string {
	c := q.calls
	q.calls = nil
	return c
}

// newSubnetDoor is a door without a device, with a queue pair for groups.
func newSubnetDoor(ethernet bool) (*Door, *fakeSubnet, *fakeQP) {
	d := &Door{log: slog.New(slog.DiscardHandler), groups: map[ib.GID]*member{}, workers: make([]*worker, 1)}
	d.port = PortInfo{PKeys: []ib.PKey{0x8001, ib.PKeyDefault}, MTU: 5, Ethernet: ethernet}
	s, q := &fakeSubnet{mlid: 0xc001}, &fakeQP{}
	d.shared = []*sharedQP{{key: sharedKey{0, groupQKey, 1}, qp: &queuePair{handle: 5, qpn: 6}, to: q, groups: 1}}
	d.UseSubnet(s)
	return d, s, q
}

var testMGID = gid("ff12:401b:ffff::1")

// TestSubnet joins, renews and leaves by the subnet administrator's answers.
func TestSubnet(t *testing.T) {
	d, s, q := newSubnetDoor(false)
	m, err := d.Join(t.Context(), testMGID, groupQKey, ib.PKeyDefault, 0, true, true)
	want := Membership{MLID: 0xc001, SL: 3, HopLimit: 7, MTU: 4, QKey: groupQKey, QP: 5, QPN: 6}
	if err != nil || m != want {
		t.Fatalf("joined as %+v, %v, want %+v", m, err, want)
	}
	if f := s.joined[0]; f.JoinState != ib.JoinFull || f.QKey != groupQKey || f.PKey != ib.PKeyDefault {
		t.Errorf("asked for %+v", f)
	}
	if c := q.take(); !slices.Equal(c, []string{"+0xc001"}) {
		t.Errorf("attachments: %v", c)
	}
	moved := ib.MCMemberFields{MGID: testMGID, MLID: 0xc002, QKey: groupQKey, MTU: 4}
	if m, there, err := d.Renew(moved); err != nil || !there || m.MLID != 0xc002 || m.QP != 5 {
		t.Errorf("renewed: %+v, %v, %v", m, there, err)
	}
	if c := q.take(); !slices.Equal(c, []string{"-0xc001", "+0xc002"}) {
		t.Errorf("attachments after the MLID changed: %v", c)
	}
	q.refuse, moved.MLID = 0xc003, 0xc003
	if _, _, err := d.Renew(moved); err == nil || d.groups[testMGID].granted.mlid != 0xc002 {
		t.Errorf("an attachment that is refused: %v", err)
	}
	if c := q.take(); !slices.Equal(c, []string{"-0xc002", "+0xc003", "+0xc002"}) {
		t.Errorf("attachments after a refusal: %v", c)
	}
	if err := d.Leave(t.Context(), testMGID); err != nil || !slices.Equal(s.left, []ib.GID{testMGID}) {
		t.Errorf("left %v, %v", s.left, err)
	}
	if c := q.take(); !slices.Equal(c, []string{"-0xc002"}) || d.shared[0].groups != 1 {
		t.Errorf("attachments after leaving: %v, %d groups", c, d.shared[0].groups)
	}
	if _, there, err := d.Renew(moved); there || err != nil {
		t.Errorf("renewed what was left: %v", err)
	}
	if lid, sl, mtu, err := d.Path(t.Context(), gid("fe80::9")); lid != 9 || sl != 2 || mtu != 4 || err != nil {
		t.Errorf("path: %v %v %v %v", lid, sl, mtu, err)
	}
}

// TestSubnetRefuses wants no membership to stay behind where one side failed.
func TestSubnetRefuses(t *testing.T) {
	d, s, q := newSubnetDoor(false)
	if _, err := d.Join(t.Context(), testMGID, groupQKey, ib.PKeyDefault, 0, true, false); err != nil ||
		s.joined[0].JoinState != ib.JoinSendOnlyFull || len(q.take()) != 0 {
		t.Errorf("send only: %v, asked for %+v", err, s.joined)
	}
	other := gid("ff12:401b:ffff::2")
	q.refuse = s.mlid
	if _, err := d.Join(t.Context(), other, groupQKey, ib.PKeyDefault, 0, true, true); err == nil || !slices.Equal(s.left, []ib.GID{other}) {
		t.Errorf("not attached: %v, left %v", err, s.left)
	}
	for _, receive := range []bool{false, true} {
		guest := gid("ff12:401b:ffff::3")
		q.refuse = 0
		if _, err := d.JoinAsGuest(t.Context(), guest, groupQKey, ib.PKeyDefault, 0, receive); err != nil {
			t.Errorf("as a guest: %v", err)
		}
		want := map[bool]uint8{false: ib.JoinSendOnly, true: ib.JoinNonMember}[receive]
		if got := s.joined[len(s.joined)-1].JoinState; got != want {
			t.Errorf("a guest (receives: %v) joined as %d, want %d", receive, got, want)
		}
		if err := d.Leave(t.Context(), guest); err != nil {
			t.Error(err)
		}
	}
	s.err = errors.New("refused")
	if _, err := d.Join(t.Context(), other, groupQKey, ib.PKeyDefault, 0, true, true); !errors.Is(err, s.err) || d.counts.sum.JoinErrors != 1 {
		t.Errorf("refused: %v, %+v", err, d.counts.sum)
	}
	if _, _, _, err := d.Path(t.Context(), gid("fe80::9")); !errors.Is(err, s.err) {
		t.Errorf("path: %v", err)
	}
	if len(d.groups) != 1 || d.shared[0].groups != 1 {
		t.Errorf("%d groups, %d at the queue pair", len(d.groups), d.shared[0].groups)
	}
}

// TestReseat follows the P_Key table to another queue pair, and keeps the old one where it cannot.
func TestReseat(t *testing.T) {
	d, _, q := newSubnetDoor(false)
	to := &fakeQP{}
	d.shared = append(d.shared, &sharedQP{key: sharedKey{0, groupQKey, 0}, qp: &queuePair{handle: 7}, to: to, groups: 1})
	if _, err := d.Join(t.Context(), testMGID, groupQKey, ib.PKeyDefault, 0, true, true); err != nil {
		t.Fatal(err)
	}
	d.port.PKeys = []ib.PKey{0x8001}
	d.reseat()
	if got := d.groups[testMGID].qp.qp.handle; got != 5 {
		t.Errorf("at the queue pair %d though the P_Key is lost", got)
	}
	d.port.PKeys = []ib.PKey{ib.PKeyDefault}
	d.reseat()
	if got := d.groups[testMGID].qp.qp.handle; got != 7 || !slices.Equal(to.take(), []string{"+0xc001"}) ||
		!slices.Equal(q.take(), []string{"+0xc001", "-0xc001"}) {
		t.Errorf("at the queue pair %d", got)
	}
}

// TestSubnetOnEthernet wants nothing to change where there is no subnet manager.
func TestSubnetOnEthernet(t *testing.T) {
	d, s, _ := newSubnetDoor(true)
	if d.subnet != nil {
		t.Error("the subnet is used")
	}
	if lid, _, mtu, err := d.Path(t.Context(), gid("fe80::9")); lid != 0 || mtu != 5 || err != nil || len(s.joined) != 0 {
		t.Errorf("path: %v %v %v", lid, mtu, err)
	}
}
