// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"testing"

	"causeway/ibside/ib"
)

const (
	joinMask   = ib.MCMemberJoin
	createMask = ib.MCMemberCreate
)

// joinRig is a subnet with two ports, A and B; A has created the group testMGID.
type joinRig struct {
	fabric *Fabric
	a, b   *saAsker
}

func newJoinRig(t *testing.T) *joinRig {
	f := newFabric(t, Config{PKeys: []ib.PKey{0xffff, 0x8001}})
	r := &joinRig{
		fabric: f,
		a:      newSAAsker(attachHCA(t, f, PortConfig{Name: "a", GUID: 0xa})),
		b:      newSAAsker(attachHCA(t, f, PortConfig{Name: "b", GUID: 0xb, MTU: ib.MTU2048})),
	}
	status, rec := ask(t, r.a, ib.MethodSet, createMask|ib.MCMemberMTUSelector|ib.MCMemberMTU, ib.MCMemberFields{
		MGID: testMGID, PortGID: mustGID("fe80::a"), QKey: testQKey, PKey: 0xffff, SL: 3, TClass: 4, FlowLabel: 5,
		MTUSelector: ib.SelectExactly, MTU: ib.MTU2048, JoinState: ib.JoinFull,
	})
	if status != 0 || rec.MLID != 0xc000 {
		t.Fatalf("create: status %#x, %+v", status, rec)
	}
	return r
}

// joiner is a request of port B that fits the group of newJoinRig.
func joiner(change func(*ib.MCMemberFields)) ib.MCMemberFields {
	rec := ib.MCMemberFields{
		MGID: testMGID, PortGID: mustGID("fe80::b"), QKey: testQKey, PKey: 0xffff, SL: 3, TClass: 4, FlowLabel: 5, Scope: 2,
		JoinState: ib.JoinFull,
	}
	if change != nil {
		change(&rec)
	}
	return rec
}

// creator is the same for a group that does not exist.
func creator(change func(*ib.MCMemberFields)) ib.MCMemberFields {
	rec := joiner(nil)
	rec.MGID = mustGID("ff15:4001:ffff::1")
	if change != nil {
		change(&rec)
	}
	return rec
}

const mtuMask, rateMask = ib.MCMemberMTUSelector | ib.MCMemberMTU, ib.MCMemberRateSelector | ib.MCMemberRate

// joinCase is a join of port B, and the status it must get.
type joinCase struct {
	name string
	mask uint64
	rec  ib.MCMemberFields
	want uint16
}

func joinCases() []joinCase {
	return []joinCase{
		{"join", joinMask, joiner(nil), 0},
		{"join with all components of a creator", createMask, joiner(nil), 0},
		{"limited P_Key of the same partition", createMask, joiner(func(r *ib.MCMemberFields) { r.PKey = 0x7fff }), 0},
		{"non-member", joinMask, joiner(func(r *ib.MCMemberFields) { r.JoinState = ib.JoinNonMember }), 0},
		{"send only", joinMask, joiner(func(r *ib.MCMemberFields) { r.JoinState = ib.JoinSendOnly }), 0},
		{"no port", joinMask &^ ib.MCMemberPortGID, joiner(nil), ib.SAStatusInsufficientFields},
		{"no join state", joinMask &^ ib.MCMemberJoinState, joiner(nil), ib.SAStatusInsufficientFields},
		{"join state 0", joinMask, joiner(func(r *ib.MCMemberFields) { r.JoinState = 0 }), ib.SAStatusRequestInvalid},
		{"unknown port", joinMask, joiner(func(r *ib.MCMemberFields) { r.PortGID = mustGID("fe80::c") }), ib.SAStatusRequestInvalid},
		{"port of another subnet", joinMask, joiner(func(r *ib.MCMemberFields) { r.PortGID = mustGID("fe80:1::b") }), ib.SAStatusRequestInvalid},
		{"for another port", joinMask, joiner(func(r *ib.MCMemberFields) { r.PortGID = mustGID("fe80::a") }), ib.SAStatusRequestInvalid},
		{"Q_Key", joinMask | ib.MCMemberQKey, joiner(func(r *ib.MCMemberFields) { r.QKey++ }), ib.SAStatusRequestInvalid},
		{"P_Key", joinMask | ib.MCMemberPKey, joiner(func(r *ib.MCMemberFields) { r.PKey = 0x8001 }), ib.SAStatusRequestInvalid},
		{"SL", joinMask | ib.MCMemberSL, joiner(func(r *ib.MCMemberFields) { r.SL = 0 }), ib.SAStatusRequestInvalid},
		{"TClass", joinMask | ib.MCMemberTClass, joiner(func(r *ib.MCMemberFields) { r.TClass = 0 }), ib.SAStatusRequestInvalid},
		{"flow label", joinMask | ib.MCMemberFlowLabel, joiner(func(r *ib.MCMemberFields) { r.FlowLabel = 0 }), ib.SAStatusRequestInvalid},
		{"hop limit", joinMask | ib.MCMemberHopLimit, joiner(func(r *ib.MCMemberFields) { r.HopLimit = 1 }), ib.SAStatusRequestInvalid},
		{"scope", joinMask | ib.MCMemberScope, joiner(func(r *ib.MCMemberFields) { r.Scope = 5 }), ib.SAStatusRequestInvalid},
		{"MTU fits", joinMask | mtuMask, joiner(func(r *ib.MCMemberFields) { r.MTUSelector, r.MTU = ib.SelectGreater, ib.MTU1024 }), 0},
		{"MTU", joinMask | mtuMask, joiner(func(r *ib.MCMemberFields) { r.MTUSelector, r.MTU = ib.SelectGreater, ib.MTU2048 }), ib.SAStatusRequestInvalid},
		{"rate", joinMask | rateMask, joiner(func(r *ib.MCMemberFields) { r.RateSelector, r.Rate = ib.SelectLess, 16 }), ib.SAStatusRequestInvalid},
	}
}

func createCases() []joinCase {
	return []joinCase{
		{"create", createMask, creator(nil), 0},
		{"create as send-only full", createMask, creator(func(r *ib.MCMemberFields) { r.JoinState = ib.JoinSendOnlyFull }), 0},
		{"create send only", createMask, creator(func(r *ib.MCMemberFields) { r.JoinState = ib.JoinSendOnly }), ib.SAStatusRequestInvalid},
		{"create as non-member", createMask, creator(func(r *ib.MCMemberFields) { r.JoinState = ib.JoinNonMember }), ib.SAStatusRequestInvalid},
		{"create without Q_Key", createMask &^ ib.MCMemberQKey, creator(nil), ib.SAStatusInsufficientFields},
		{"create without SL", createMask &^ ib.MCMemberSL, creator(nil), ib.SAStatusInsufficientFields},
		{"create in a foreign partition", createMask, creator(func(r *ib.MCMemberFields) { r.PKey = 0x8009 }), ib.SAStatusRequestInvalid},
		{"create with P_Key 0", createMask, creator(func(r *ib.MCMemberFields) { r.PKey = 0 }), ib.SAStatusRequestInvalid},
		{"create with the port's MTU", createMask | mtuMask, creator(func(r *ib.MCMemberFields) { r.MTUSelector, r.MTU = ib.SelectExactly, ib.MTU2048 }), 0},
		{"create beyond the port's MTU", createMask | mtuMask, creator(func(r *ib.MCMemberFields) { r.MTUSelector, r.MTU = ib.SelectExactly, ib.MTU4096 }), ib.SAStatusRequestInvalid},
		{"create with a smaller MTU", createMask | mtuMask, creator(func(r *ib.MCMemberFields) { r.MTUSelector, r.MTU = ib.SelectLess, ib.MTU1024 }), 0},
		{"create with less than the least MTU", createMask | mtuMask, creator(func(r *ib.MCMemberFields) { r.MTUSelector, r.MTU = ib.SelectLess, ib.MTU256 }), ib.SAStatusRequestInvalid},
		{"create with too high a rate", createMask | rateMask, creator(func(r *ib.MCMemberFields) { r.RateSelector, r.Rate = ib.SelectExactly, 24 }), ib.SAStatusRequestInvalid},
		{"create with another scope", createMask | ib.MCMemberScope, creator(nil), ib.SAStatusRequestInvalid},
		{"create a unicast group", createMask, creator(func(r *ib.MCMemberFields) { r.MGID = mustGID("fe80::1") }), ib.SAStatusRequestInvalid},
		{"create in a reserved scope", createMask, creator(func(r *ib.MCMemberFields) { r.MGID[1] = 0x1f }), ib.SAStatusRequestInvalid},
		{"create with reserved flags", createMask, creator(func(r *ib.MCMemberFields) { r.MGID[1] = 0x32 }), ib.SAStatusRequestInvalid},
		{"create with an MGID that only the SA may give", createMask, creator(func(r *ib.MCMemberFields) { r.MGID = mustGID("ff12:a01b::1") }), ib.SAStatusRequestInvalid},
		{"let the SA choose", createMask &^ ib.MCMemberMGID, creator(nil), 0},
	}
}

func TestJoin(t *testing.T) {
	for _, c := range append(joinCases(), createCases()...) {
		t.Run(c.name, func(t *testing.T) {
			r := newJoinRig(t)
			status, rec := ask(t, r.b, ib.MethodSet, c.mask, c.rec)
			if status != c.want {
				t.Fatalf("status %#x, want %#x", status, c.want)
			}
			if groups := r.fabric.SA().Groups(); status != 0 && (len(groups) != 1 || len(groups[0].Members) != 1) {
				t.Errorf("a rejected join left %+v", groups)
			}
			if status == 0 && (rec.PortGID != c.rec.PortGID || rec.JoinState != c.rec.JoinState || !rec.MLID.IsMulticast() || !rec.MTU.Valid()) {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

func TestGroupLife(t *testing.T) {
	r := newJoinRig(t)
	rec := ib.MCMemberFields{MGID: testMGID, PortGID: mustGID("fe80::b")}
	state := func(c *saAsker, port string, method uint8, join uint8) string {
		rec.PortGID, rec.JoinState = mustGID(port), join
		status, got := ask(t, c, method, joinMask, rec)
		if status != 0 {
			return statusWord(status)
		}
		return fmt.Sprint(got.JoinState)
	}
	programmed := func() string {
		e, ok := r.fabric.sw.mlids[0xc000]
		if !ok {
			return "none"
		}
		var lids []ib.LID
		for _, p := range e.receivers {
			lids = append(lids, p.info.LID)
		}
		return fmt.Sprint(len(e.members), lids)
	}
	for i, c := range []struct {
		client, port    string
		method          uint8
		join            uint8
		want, switchHas string
	}{
		{"b", "fe80::b", ib.MethodSet, ib.JoinSendOnly, "4", "2 [0x0002]"},
		{"b", "fe80::b", ib.MethodSet, ib.JoinNonMember, "6", "2 [0x0002 0x0003]"},
		{"b", "fe80::b", ib.MethodDelete, ib.JoinFull | ib.JoinNonMember, "request_invalid", "2 [0x0002 0x0003]"}, // it has one of them
		{"b", "fe80::b", ib.MethodSet, ib.JoinFull, "7", "2 [0x0002 0x0003]"},
		{"b", "fe80::b", ib.MethodDelete, ib.JoinSendOnlyFull, "request_invalid", "2 [0x0002 0x0003]"},
		{"b", "fe80::a", ib.MethodDelete, ib.JoinFull, "request_invalid", "2 [0x0002 0x0003]"},
		{"b", "fe80::b", ib.MethodDelete, ib.JoinFull | ib.JoinNonMember, "4", "2 [0x0002]"},
		{"b", "fe80::b", ib.MethodSet, ib.JoinSendOnlyFull, "12", "2 [0x0002]"},
		{"a", "fe80::a", ib.MethodDelete, ib.JoinFull, "0", "1 []"}, // B keeps the group alive
		{"a", "fe80::a", ib.MethodDelete, ib.JoinFull, "request_invalid", "1 []"},
		{"b", "fe80::b", ib.MethodDelete, ib.JoinSendOnlyFull, "4", "none"}, // a mere sender does not
		{"b", "fe80::b", ib.MethodDelete, ib.JoinSendOnly, "request_invalid", "none"},
	} {
		client := r.a
		if c.client == "b" {
			client = r.b
		}
		if got := state(client, c.port, c.method, c.join); got != c.want || programmed() != c.switchHas {
			t.Fatalf("step %d: %s, switch %s; want %s, %s", i, got, programmed(), c.want, c.switchHas)
		}
	}
	if n := len(r.fabric.SA().groups.mlids); n != 0 {
		t.Errorf("%d MLIDs are still in use", n)
	}
	status, again := r.a.create(t, testMGID, 1)
	if status != 0 || again.MLID != 0xc001 {
		t.Errorf("the new group: %+v, status %#x; want MLID 0xc001: one given back does not come again at once", again, status)
	}
}

func TestPortGoneLeaves(t *testing.T) {
	r := newJoinRig(t)
	if status, _ := ask(t, r.b, ib.MethodSet, joinMask, joiner(nil)); status != 0 {
		t.Fatalf("status %#x", status)
	}
	r.a.hca.Close()
	groups := r.fabric.SA().Groups()
	if len(groups) != 1 || len(groups[0].Members) != 1 || groups[0].Members[mustGID("fe80::b")] != ib.JoinFull {
		t.Errorf("groups %+v; want B alone", groups)
	}
	r.b.hca.Close()
	if groups := r.fabric.SA().Groups(); len(groups) != 0 || len(r.fabric.sw.mlids) != 0 {
		t.Errorf("groups %+v; want none", groups)
	}
}

func TestGetMember(t *testing.T) {
	r := newJoinRig(t)
	if status, _ := r.a.create(t, mustGID("ff12::2"), 1); status != 0 {
		t.Fatalf("status %#x", status)
	}
	for _, c := range []struct {
		name string
		mask uint64
		rec  ib.MCMemberFields
		want uint16
		join uint8
	}{
		{"by MGID", ib.MCMemberMGID, ib.MCMemberFields{MGID: testMGID}, 0, 0},
		{"by MLID", ib.MCMemberMLID, ib.MCMemberFields{MLID: 0xc000}, 0, 0},
		{"by MGID and port", ib.MCMemberMGID | ib.MCMemberPortGID, ib.MCMemberFields{MGID: testMGID, PortGID: mustGID("fe80::a")}, 0, 1},
		{"not a member", ib.MCMemberMGID | ib.MCMemberPortGID, ib.MCMemberFields{MGID: testMGID, PortGID: mustGID("fe80::b")}, ib.SAStatusNoRecords, 0},
		{"no such group", ib.MCMemberMGID, ib.MCMemberFields{MGID: mustGID("ff12::3")}, ib.SAStatusNoRecords, 0},
		{"both groups", ib.MCMemberPortGID, ib.MCMemberFields{PortGID: mustGID("fe80::a")}, ib.SAStatusTooManyRecords, 0},
	} {
		status, rec := ask(t, r.b, ib.MethodGet, c.mask, c.rec)
		if status != c.want || status == 0 && (rec.MGID != testMGID || rec.JoinState != c.join || rec.SL != 3 || rec.MTU != ib.MTU2048) {
			t.Errorf("%s: status %#x, %+v", c.name, status, rec)
		}
	}
}

func TestPath(t *testing.T) {
	r := newJoinRig(t)
	var a, b, other = mustGID("fe80::a"), mustGID("fe80::b"), mustGID("fe80::c")
	for _, c := range []struct {
		name string
		mask uint64
		path ib.PathFields
		want uint16
		dlid ib.LID
		mtu  ib.MTU
	}{
		{"by GIDs", ib.PathResolve, ib.PathFields{SGID: b, DGID: a}, 0, 2, ib.MTU2048},
		{"to the port with less", ib.PathResolve, ib.PathFields{SGID: a, DGID: b}, 0, 3, ib.MTU2048},
		{"from the asker", ib.PathDGID, ib.PathFields{DGID: mustGID("fe80::2:c903:0:1")}, 0, 1, ib.MTU2048},
		{"by LIDs", ib.PathDLID | ib.PathSLID, ib.PathFields{SLID: 1, DLID: 2}, 0, 2, ib.MTU4096},
		{"GID and LID agree", ib.PathDGID | ib.PathDLID, ib.PathFields{DGID: a, DLID: 2}, 0, 2, ib.MTU2048},
		{"GID and LID differ", ib.PathDGID | ib.PathDLID, ib.PathFields{DGID: a, DLID: 1}, ib.SAStatusNoRecords, 0, 0},
		{"to a group", ib.PathDGID, ib.PathFields{DGID: testMGID}, 0, 0xc000, ib.MTU2048},
		{"with P_Key", ib.PathDGID | ib.PathPKey, ib.PathFields{DGID: a, PKey: 0x8001}, 0, 2, ib.MTU2048},
		{"with a foreign P_Key", ib.PathDGID | ib.PathPKey, ib.PathFields{DGID: a, PKey: 0x8002}, ib.SAStatusNoRecords, 0, 0},
		{"MTU", ib.PathDGID | ib.PathMTU, ib.PathFields{DGID: a, MTUSelector: ib.SelectExactly, MTU: ib.MTU4096}, ib.SAStatusNoRecords, 0, 0},
		{"to nowhere", ib.PathSGID, ib.PathFields{SGID: b}, ib.SAStatusInsufficientFields, 0, 0},
		{"to an unknown GID", ib.PathDGID, ib.PathFields{DGID: other}, ib.SAStatusNoRecords, 0, 0},
		{"to an unknown LID", ib.PathDLID, ib.PathFields{DLID: 99}, ib.SAStatusNoRecords, 0, 0},
		{"from an unknown GID", ib.PathDGID | ib.PathSGID, ib.PathFields{DGID: a, SGID: other}, ib.SAStatusNoRecords, 0, 0},
		{"to an unknown group", ib.PathDGID, ib.PathFields{DGID: mustGID("ff12::9")}, ib.SAStatusNoRecords, 0, 0},
	} {
		data := make([]byte, ib.PathRecordLen)
		ib.PutPathRecord(data, c.path)
		status, data := r.b.query(t, ib.MethodGet, ib.AttrPathRecord, c.mask, data)
		if status != c.want {
			t.Errorf("%s: status %#x; want %#x", c.name, status, c.want)
			continue
		}
		rec, _ := ib.AsPathRecord(data)
		if status == 0 && (rec.DLID() != c.dlid || rec.MTU() != c.mtu || !rec.Reversible() || rec.NumbPath() != 1) {
			t.Errorf("%s: %+v", c.name, rec.Fields())
		}
	}
}

// TestAllPaths asks for all paths from a port: to the administrator's port and to both others.
func TestAllPaths(t *testing.T) {
	r := newJoinRig(t)
	for _, c := range []struct {
		mask uint64
		want []ib.LID
	}{{0, []ib.LID{1, 2, 3}}, {ib.PathDLID, []ib.LID{2}}} {
		data := make([]byte, ib.PathRecordLen)
		ib.PutPathRecord(data, ib.PathFields{DLID: 2})
		status, data := r.b.query(t, ib.MethodGetTable, ib.AttrPathRecord, c.mask, data)
		var lids []ib.LID
		for ; len(data) >= ib.PathRecordLen; data = data[ib.PathRecordLen:] {
			if rec, _ := ib.AsPathRecord(data); rec.DLID() != 0 {
				lids = append(lids, rec.DLID())
			}
		}
		if slices.Sort(lids); status != 0 || !slices.Equal(lids, c.want) {
			t.Errorf("components %#x: status %#x, paths to %v, want %v", c.mask, status, lids, c.want)
		}
	}
}

func TestSARejectsWhatItDoesNotKnow(t *testing.T) {
	r := newJoinRig(t)
	for _, c := range []struct {
		name   string
		method uint8
		attr   uint16
		want   uint16
	}{
		{"method", ib.MethodSend, ib.AttrPathRecord, madStatusBadMethod},
		{"attribute", ib.MethodGet, ib.AttrNotice, madStatusBadAttribute},
		{"a table of subscriptions", ib.MethodGetTable, ib.AttrInformInfo, madStatusBadAttribute},
		{"set a path", ib.MethodSet, ib.AttrPathRecord, madStatusBadAttribute},
		{"class port info", ib.MethodGet, ib.AttrClassPortInfo, 0},
	} {
		if status, _ := r.a.query(t, c.method, c.attr, 0, nil); status != c.want {
			t.Errorf("%s: status %#x; want %#x", c.name, status, c.want)
		}
	}
	_, data := r.a.query(t, ib.MethodGet, ib.AttrClassPortInfo, 0, nil)
	if data[0] != 1 || data[1] != 2 || data[5]&2 == 0 { // bit 12 of the upper 27
		t.Errorf("ClassPortInfo % x: no SendOnlyFullMember", data[:8])
	}
}

func TestTooManyGroups(t *testing.T) {
	r := newJoinRig(t)
	sa := r.fabric.SA()
	sa.mu.Lock()
	for i := len(sa.groups.groups); i < maxGroups; i++ {
		sa.groups.groups[ib.GID{0: 1, 14: byte(i >> 8), 15: byte(i)}] = &group{}
	}
	sa.mu.Unlock()
	if status, _ := r.b.create(t, mustGID("ff12::5"), 1); status != ib.SAStatusNoResources {
		t.Errorf("one group too many: status %#x", status)
	}
}
