// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"errors"
	"testing"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

var testMGID = gid("ff15:a01b::1267:ef01:203")

// group is a group with the parameters that a bridge requests.
func group(mgid ib.GID, state uint8) ib.MCMemberFields {
	return ib.MCMemberFields{MGID: mgid, QKey: ib.QKeyRDMAUDP, PKey: ib.PKeyDefault, JoinState: state}
}

// trusted is the SM_Key that opensm uses by default.
var trusted = sa.Config{SMKey: 1}

// members returns the ports of a group with their join states, as in the SA's records.
func members(t *testing.T, c *sa.Client, mgid ib.GID) map[ib.GID]uint8 {
	t.Helper()
	found, err := c.Groups(t.Context(), ib.MCMemberMGID, ib.MCMemberFields{MGID: mgid})
	if err != nil {
		t.Fatal(err)
	}
	all := map[ib.GID]uint8{}
	for _, m := range found {
		all[m.PortGID] = m.JoinState
	}
	return all
}

func testJoin(t *testing.T, s *site) {
	c, other := s.Client("bridge", trusted), s.Client("hosta", sa.Config{})
	port, _ := c.PortState()
	first, err := c.Join(t.Context(), group(testMGID, ib.JoinFull))
	if err != nil || !first.MLID.IsMulticast() || first.PortGID != port.GID || first.QKey != ib.QKeyRDMAUDP {
		t.Fatalf("join: %+v, %v", first, err)
	}
	if again, err := c.Join(t.Context(), group(testMGID, ib.JoinFull)); err != nil || again.MLID != first.MLID {
		t.Errorf("join again: %+v, %v", again, err)
	}
	second, err := other.Join(t.Context(), group(testMGID, ib.JoinSendOnly))
	if err != nil || second.MLID != first.MLID {
		t.Errorf("another joins as send-only member: %+v, %v", second, err)
	}
	if all := members(t, c, testMGID); len(all) != 2 || all[port.GID] != ib.JoinFull || all[second.PortGID] != ib.JoinSendOnly {
		t.Errorf("members: %v", all)
	}
	if path, err := other.Path(t.Context(), testMGID); err != nil || path.DLID != first.MLID {
		t.Errorf("path to the group: %+v, %v", path, err)
	}
	got, err := other.Groups(t.Context(), ib.MCMemberMGID, ib.MCMemberFields{MGID: testMGID})
	if err != nil || len(got) != 1 || got[0].MLID != first.MLID || !got[0].PortGID.IsZero() {
		t.Errorf("the group for one who is not trusted: %+v, %v", got, err)
	}
	if err := c.Leave(t.Context(), testMGID, ib.GID{}, ib.JoinFull); err != nil {
		t.Error(err)
	}
	if err := c.Leave(t.Context(), testMGID, ib.GID{}, ib.JoinFull); !errors.Is(err, sa.RequestInvalid) {
		t.Errorf("leave again: %v", err)
	}
	if all := members(t, c, testMGID); len(all) != 0 {
		t.Errorf("a group without a full member: %v", all)
	}
}

// createRules are an SA's answers to joins, each to an MGID of its own.
var createRules = []struct {
	name string
	mask uint64
	f    ib.MCMemberFields
	want error
}{
	{"to create", ib.MCMemberCreate, group(gid("ff12::1"), ib.JoinFull), nil},
	{"send-only full creates", ib.MCMemberCreate, group(gid("ff12::2"), ib.JoinSendOnlyFull), nil},
	{"send-only does not create", ib.MCMemberCreate, group(gid("ff12::3"), ib.JoinSendOnly), sa.RequestInvalid},
	{"non-member does not create", ib.MCMemberCreate, group(gid("ff12::4"), ib.JoinNonMember), sa.RequestInvalid},
	{"only to join", ib.MCMemberJoin, group(gid("ff12::5"), ib.JoinFull), sa.InsufficientComponents},
	{"no Q_Key", ib.MCMemberCreate &^ ib.MCMemberQKey, group(gid("ff12::6"), ib.JoinFull), sa.InsufficientComponents},
	{"no P_Key", ib.MCMemberCreate &^ ib.MCMemberPKey, group(gid("ff12::7"), ib.JoinFull), sa.InsufficientComponents},
	{"no SL", ib.MCMemberCreate &^ ib.MCMemberSL, group(gid("ff12::8"), ib.JoinFull), sa.InsufficientComponents},
	{"no flow label", ib.MCMemberCreate &^ ib.MCMemberFlowLabel, group(gid("ff12::9"), ib.JoinFull), sa.InsufficientComponents},
	{"no traffic class", ib.MCMemberCreate &^ ib.MCMemberTClass, group(gid("ff12::a"), ib.JoinFull), sa.InsufficientComponents},
	{"no join state", ib.MCMemberCreate &^ ib.MCMemberJoinState, group(gid("ff12::b"), ib.JoinFull), sa.InsufficientComponents},
	{"the SA chooses an MGID", ib.MCMemberCreate, group(ib.GID{}, ib.JoinFull), nil},
	{"foreign P_Key", ib.MCMemberCreate, func() ib.MCMemberFields {
		f := group(gid("ff12:401b:8001::c"), ib.JoinFull)
		f.PKey = 0x8001
		return f
	}(), sa.RequestInvalid},
	{"not a multicast GID", ib.MCMemberCreate, group(gid("::ffff:239.1.2.3"), ib.JoinFull), sa.RequestInvalid},
	{"rdma_cm's MGID", ib.MCMemberCreate, group(gid("ff12:4001:ffff::f01:203"), ib.JoinFull), nil},
	{"IPoIB's MGID with another Q_Key than the broadcast group's", ib.MCMemberCreate,
		group(gid("ff12:401b:ffff::f01:203"), ib.JoinFull), sa.RequestInvalid},
	{"IPoIB's MGID in a scope without broadcast group", ib.MCMemberCreate,
		group(gid("ff15:401b:ffff::f01:203"), ib.JoinFull), sa.RequestInvalid},
}

// isIPoIB reports whether an MGID is one of IPoIB, in the subnet's partition.
func isIPoIB(g ib.GID) bool { return [4]byte(g[2:]) == [4]byte{0x40, 0x1b, 0xff, 0xff} }

func testCreateRules(t *testing.T, s *site) {
	c := s.Client("bridge", sa.Config{})
	for _, r := range createRules {
		if s.isLenient && isIPoIB(r.f.MGID) {
			r.want = nil
		}
		got, err := c.JoinWith(t.Context(), r.mask, r.f)
		if !errors.Is(err, r.want) || err == nil && !got.MLID.IsMulticast() {
			t.Errorf("%s: %+v, %v; want %v", r.name, got, err, r.want)
		}
		if err == nil && r.f.MGID.IsZero() && !got.MGID.IsIBMulticast() {
			t.Errorf("%s: %v", r.name, got.MGID)
		}
	}
	if s.isLenient {
		return
	}
	if _, err := c.Join(t.Context(), group(gid("ff15:401b:ffff::ffff:ffff"), ib.JoinFull)); err != nil {
		t.Errorf("create a broadcast group: %v", err)
	}
	if _, err := c.Join(t.Context(), group(gid("ff15:401b:ffff::f01:203"), ib.JoinFull)); err != nil {
		t.Errorf("IPoIB's MGID, now with a broadcast group: %v", err)
	}
}

// testJoinRejections changes one thing of a join that would succeed.
func testJoinRejections(t *testing.T, s *site) {
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	made := group(testMGID, ib.JoinFull)
	made.MTU, made.Rate = ib.MTU1024, 3
	if got, err := c.Join(t.Context(), made); err != nil || got.MTU != ib.MTU1024 || got.Rate != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := c.Stats().Requests; n != 1 {
		t.Errorf("%d requests created a group; opensm logs an error for a join before", n)
	}
	asked := other.Stats().Requests
	wrong := made
	wrong.QKey++
	if _, err := other.Join(t.Context(), wrong); !errors.Is(err, sa.RequestInvalid) || other.Stats().Requests != asked+2 {
		t.Errorf("%v after %d requests; want one that creates or joins, and one that joins", err, other.Stats().Requests-asked)
	}
	absent := func(f ib.MCMemberFields) ib.MCMemberFields { f.MGID = gid("ff12::1"); return f }
	for _, r := range []struct {
		name   string
		change func(ib.MCMemberFields) ib.MCMemberFields
		want   error
	}{
		{"nothing", func(f ib.MCMemberFields) ib.MCMemberFields { return f }, nil},
		{"another Q_Key", func(f ib.MCMemberFields) ib.MCMemberFields { f.QKey++; return f }, sa.RequestInvalid},
		{"another P_Key", func(f ib.MCMemberFields) ib.MCMemberFields { f.PKey = 0x8001; return f }, sa.RequestInvalid},
		{"a guest", func(f ib.MCMemberFields) ib.MCMemberFields { f.JoinState = ib.JoinNonMember; return f }, nil},
		{"a non-member that sends", func(f ib.MCMemberFields) ib.MCMemberFields { f.JoinState = ib.JoinSendOnly; return f }, nil},
		{"a non-member of a group that does not exist", func(f ib.MCMemberFields) ib.MCMemberFields {
			f.JoinState = ib.JoinNonMember
			return absent(f)
		}, sa.RequestInvalid},
		{"no join state", func(f ib.MCMemberFields) ib.MCMemberFields { f.JoinState = 0; return f }, sa.RequestInvalid},
		{"an unknown port", func(f ib.MCMemberFields) ib.MCMemberFields { f.PortGID = gid("fe80::99"); return f }, sa.RequestInvalid},
		{"a new group, MTU above the port's", func(f ib.MCMemberFields) ib.MCMemberFields {
			f.MTU = ib.MTU4096
			return absent(f)
		}, sa.RequestInvalid},
		{"a new group, rate above the port's", func(f ib.MCMemberFields) ib.MCMemberFields {
			f.Rate = 24
			return absent(f)
		}, sa.RequestInvalid},
		{"a new group", absent, nil},
	} {
		if _, err := other.Join(t.Context(), r.change(made)); !errors.Is(err, r.want) {
			t.Errorf("%s: %v, want %v", r.name, err, r.want)
		}
	}
}

// testNonMembers joins a group as non-members: they get its messages, but do not keep it alive.
func testNonMembers(t *testing.T, s *site) {
	c, other, third := s.Client("bridge", trusted), s.Client("hosta", sa.Config{}), s.Client("hostb", sa.Config{})
	if _, err := c.Join(t.Context(), group(testMGID, ib.JoinFull)); err != nil {
		t.Fatal(err)
	}
	nonMember, err := other.Join(t.Context(), group(testMGID, ib.JoinNonMember))
	if err != nil || nonMember.JoinState != ib.JoinNonMember {
		t.Errorf("a non-member: %+v, %v", nonMember, err)
	}
	sender, err := third.Join(t.Context(), group(testMGID, ib.JoinSendOnly))
	if err != nil || sender.JoinState != ib.JoinSendOnly {
		t.Errorf("a sender: %+v, %v", sender, err)
	}
	if sender, err = third.Join(t.Context(), group(testMGID, ib.JoinNonMember)); err != nil || sender.JoinState != ib.JoinSendOnly|ib.JoinNonMember {
		t.Errorf("a send-only member that becomes a non-member, too: %+v, %v", sender, err)
	}
	if err := third.Leave(t.Context(), testMGID, ib.GID{}, ib.JoinSendOnly); err != nil {
		t.Error(err)
	}
	all := members(t, c, testMGID)
	if len(all) != 3 || all[nonMember.PortGID] != ib.JoinNonMember || all[sender.PortGID] != ib.JoinNonMember {
		t.Errorf("members: %v", all)
	}
	if err := c.Leave(t.Context(), testMGID, ib.GID{}, ib.JoinFull); err != nil {
		t.Error(err)
	}
	if all := members(t, c, testMGID); len(all) != 0 {
		t.Errorf("non-members alone keep a group: %v", all)
	}
	if err := other.Leave(t.Context(), testMGID, ib.GID{}, ib.JoinNonMember); !errors.Is(err, sa.RequestInvalid) {
		t.Errorf("a non-member leaves a group that has ended: %v", err)
	}
}

func gid(s string) ib.GID {
	g, err := ib.ParseGID(s)
	if err != nil {
		panic(err)
	}
	return g
}
