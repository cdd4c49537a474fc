// SPDX-License-Identifier: Apache-2.0

package multicast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
)

const qkey = ib.QKey(0x01234567)

func mgid(n byte) ib.GID {
	return ib.GIDFromAddr(netip.MustParseAddr(fmt.Sprintf("ff12:401b:ffff::%x", n)))
}

// fakeSubnet answers as a test sets and records the requests.
type fakeSubnet struct {
	mlid   ib.LID
	err    error
	joined []ib.MCMemberFields
	left   []ib.GID
}

func (s *fakeSubnet) Join(_ context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	s.joined = append(s.joined, f)
	f.MLID, f.SL, f.HopLimit, f.MTU, f.Rate = s.mlid, 3, 7, 4, 3
	return f, s.err
}

func (s *fakeSubnet) Leave(_ context.Context, mgid ib.GID) error {
	s.left = append(s.left, mgid)
	return s.err
}

// fakeQP records its attachments in order, and rejects one MLID, or all. As devices do, it detaches no other MLID than
// the one that was attached, and its device knows one MLID of a group.
type fakeQP struct {
	key       Key
	calls     []string
	reject    ib.LID
	rejects   bool
	at        map[ib.GID]ib.LID
	device    func(ib.GID) ib.LID // at which any of its queue pairs receives the group; 0: at none
	destroyed bool
}

func (q *fakeQP) Attach(mgid ib.GID, mlid ib.LID) error {
	q.calls = append(q.calls, fmt.Sprintf("+%v", mlid))
	if was := q.device(mgid); q.rejects || mlid == q.reject || was != 0 && was != mlid {
		return errors.New("rejected")
	}
	q.at[mgid] = mlid
	return nil
}

func (q *fakeQP) Detach(mgid ib.GID, mlid ib.LID) error {
	q.calls = append(q.calls, fmt.Sprintf("-%v", mlid))
	if was, attached := q.at[mgid]; !attached || was != mlid {
		return errors.New("not attached")
	}
	delete(q.at, mgid)
	return nil
}

func (q *fakeQP) Destroy() error {
	q.destroyed = true
	return nil
}

func (q *fakeQP) take() []string {
	c := q.calls
	q.calls = nil
	return c
}

// rig is groups on a fake port.
type rig struct {
	*Groups
	subnet *fakeSubnet
	qps    []*fakeQP
	reject ib.LID // of queue pairs that are made
}

func newRig() *rig {
	r := &rig{subnet: &fakeSubnet{mlid: 0xc001}}
	r.Groups = New(Config{
		Create: func(k Key) (QP, error) {
			r.qps = append(r.qps, &fakeQP{key: k, reject: r.reject, at: map[ib.GID]ib.LID{}, device: r.received})
			return r.qps[len(r.qps)-1], nil
		},
		MTU: func() ib.MTU { return ib.MTU4096 }, Mbps: func() int { return 100000 }, PerQP: 2, Log: slog.New(slog.DiscardHandler),
	})
	return r
}

// received is the MLID at which any queue pair receives a group.
func (r *rig) received(mgid ib.GID) ib.LID {
	for _, q := range r.qps {
		if mlid, ok := q.at[mgid]; ok {
			return mlid
		}
	}
	return 0
}

func receiving(n byte) ibside.Join {
	return ibside.Join{MGID: mgid(n), QKey: qkey, PKey: ib.PKeyDefault, Receive: true}
}

// TestGroups joins, renews and leaves groups according to the subnet administrator's answers.
func TestGroups(t *testing.T) {
	r := newRig()
	m, err := r.Join(t.Context(), r.subnet, receiving(1))
	want := ibside.Membership{MLID: 0xc001, SL: 3, HopLimit: 7, MTU: 4, Rate: 3, QKey: qkey}
	if err != nil || m != want {
		t.Fatalf("joined as %+v, %v, want %+v", m, err, want)
	}
	if f := r.subnet.joined[0]; f.JoinState != ib.JoinFull || f.QKey != qkey || f.PKey != ib.PKeyDefault {
		t.Errorf("asked for %+v", f)
	}
	q := r.qps[0]
	if c := q.take(); !slices.Equal(c, []string{"+0xc001"}) || q.key != (Key{0, qkey, ib.PKeyDefault}) {
		t.Errorf("attachments: %v, key %+v", c, q.key)
	}
	var renewed []ibside.Membership
	done := func(m ibside.Membership) { renewed = append(renewed, m) }
	moved := ib.MCMemberFields{MGID: mgid(1), MLID: 0xc002, QKey: qkey, MTU: 4}
	if err := r.Renew(moved, done); err != nil || len(renewed) != 1 || renewed[0].MLID != 0xc002 {
		t.Errorf("renewed: %+v, %v", renewed, err)
	}
	if c := q.take(); !slices.Equal(c, []string{"-0xc001", "+0xc002"}) {
		t.Errorf("attachments after the MLID changed: %v", c)
	}
	q.reject, moved.MLID = 0xc003, 0xc003
	if err := r.Renew(moved, done); err == nil || r.members[mgid(1)].granted.MLID != 0xc002 {
		t.Errorf("an attachment that is rejected: %v", err)
	}
	if c := q.take(); !slices.Equal(c, []string{"-0xc002", "+0xc003", "+0xc002"}) {
		t.Errorf("attachments after a rejection: %v", c)
	}
	if err := r.Leave(t.Context(), r.subnet, mgid(1)); err != nil || !slices.Equal(r.subnet.left, []ib.GID{mgid(1)}) {
		t.Errorf("left %v, %v", r.subnet.left, err)
	}
	if c := q.take(); !slices.Equal(c, []string{"-0xc002"}) || !q.destroyed {
		t.Errorf("attachments after leaving: %v, destroyed: %v", c, q.destroyed)
	}
	if err := r.Renew(moved, done); err != nil || len(renewed) != 1 {
		t.Errorf("renewed a group that was left: %v", err)
	}
	if err := r.Leave(t.Context(), r.subnet, mgid(1)); err == nil {
		t.Error("left a group twice")
	}
}

// TestGroupsMoveAgain has a group move while nothing can be attached: neither its new MLID nor, again, the old one. The
// next move succeeds.
func TestGroupsMoveAgain(t *testing.T) {
	r := newRig()
	if _, err := r.Join(t.Context(), r.subnet, receiving(1)); err != nil {
		t.Fatal(err)
	}
	q, moved := r.qps[0], ib.MCMemberFields{MGID: mgid(1), MLID: 0xc002, QKey: qkey, MTU: 4}
	q.rejects = true
	if err := r.Renew(moved, func(ibside.Membership) {}); err == nil {
		t.Error("nothing can be attached, and the group moves")
	}
	q.rejects = false
	if err := r.Renew(moved, func(ibside.Membership) {}); err != nil || q.at[mgid(1)] != 0xc002 {
		t.Errorf("%v; attached at %v", err, q.at)
	}
}

// TestGroupsMoveToAnotherQP has a subnet manager make a group anew with another Q_Key and MLID, or with another Q_Key
// alone.
func TestGroupsMoveToAnotherQP(t *testing.T) {
	for _, mlid := range []ib.LID{0xc001, 0xc002} {
		r := newRig()
		if _, err := r.Join(t.Context(), r.subnet, receiving(1)); err != nil {
			t.Fatal(err)
		}
		anew := ib.MCMemberFields{MGID: mgid(1), MLID: mlid, QKey: qkey + 1, MTU: 4}
		if err := r.Renew(anew, func(ibside.Membership) {}); err != nil {
			t.Fatalf("MLID %v: %v", mlid, err)
		}
		if first, second := r.qps[0], r.qps[1]; !first.destroyed || len(first.at) != 0 || second.at[mgid(1)] != mlid {
			t.Errorf("MLID %v: attached at %v, and before at %v", mlid, second.at, first.at)
		}
	}
}

// TestGroupsShare fills queue pairs, and empties them.
func TestGroupsShare(t *testing.T) {
	r := newRig()
	for n := range byte(5) {
		if _, err := r.Bind(receiving(n), ibside.Membership{MLID: 0xc000 + ib.LID(n), QKey: qkey}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.qps) != 3 || len(r.MGIDs()) != 5 {
		t.Errorf("%d queue pairs for %d groups, 2 a queue pair", len(r.qps), len(r.MGIDs()))
	}
	r.Unbind(mgid(0))
	if r.Unbind(mgid(1)); !r.qps[0].destroyed || r.qps[1].destroyed {
		t.Error("the last group to leave did not destroy its queue pair alone")
	}
	r.Close()
	if !r.qps[1].destroyed || !r.qps[2].destroyed || len(r.MGIDs()) != 0 {
		t.Error("groups are there after Close")
	}
	if _, err := r.Bind(receiving(9), ibside.Membership{}); !errors.Is(err, errClosed) {
		t.Errorf("bound after Close: %v", err)
	}
}

// TestGroupsReject checks that no membership stays behind where one side failed.
func TestGroupsReject(t *testing.T) {
	r := newRig()
	send := receiving(1)
	send.Receive = false
	if _, err := r.Join(t.Context(), r.subnet, send); err != nil || r.subnet.joined[0].JoinState != ib.JoinSendOnlyFull || len(r.qps) != 0 {
		t.Errorf("send only: %v, asked for %+v", err, r.subnet.joined)
	}
	r.reject = r.subnet.mlid
	if _, err := r.Join(t.Context(), r.subnet, receiving(2)); err == nil || !slices.Equal(r.subnet.left, []ib.GID{mgid(2)}) {
		t.Errorf("not attached: %v, left %v", err, r.subnet.left)
	}
	r.reject = 0
	for receive, want := range map[bool]uint8{false: ib.JoinSendOnly, true: ib.JoinNonMember} {
		j := receiving(3)
		j.Receive, j.NonMember = receive, true
		if _, err := r.Join(t.Context(), r.subnet, j); err != nil {
			t.Errorf("as a non-member: %v", err)
		}
		if got := r.subnet.joined[len(r.subnet.joined)-1].JoinState; got != want {
			t.Errorf("a non-member (receives: %v) joined as %d, want %d", receive, got, want)
		}
		if err := r.Leave(t.Context(), r.subnet, j.MGID); err != nil {
			t.Error(err)
		}
	}
	r.subnet.err = errors.New("rejected")
	if _, err := r.Join(t.Context(), r.subnet, receiving(2)); !errors.Is(err, r.subnet.err) {
		t.Errorf("rejected: %v", err)
	}
	if len(r.members) != 1 || len(r.shared) != 0 {
		t.Errorf("%d groups, %d queue pairs", len(r.members), len(r.shared))
	}
}
