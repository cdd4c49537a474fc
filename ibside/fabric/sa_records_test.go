// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"
	"time"

	"causeway/ibside/ib"
)

func (c *saAsker) guids(t testing.TB, method uint8, mask uint64, f ib.GUIDInfoFields) (uint16, ib.GUIDInfoFields) {
	t.Helper()
	data := make([]byte, ib.GUIDInfoRecordLen)
	ib.PutGUIDInfoRecord(data, f)
	status, data := c.query(t, method, ib.AttrGUIDInfoRecord, mask, data)
	rec, _ := ib.AsGUIDInfoRecord(data)
	return status, rec.Fields()
}

func (c *saAsker) service(t testing.TB, method uint8, mask uint64, f ib.ServiceFields) (uint16, ib.ServiceFields) {
	t.Helper()
	data := make([]byte, ib.ServiceRecordLen)
	ib.PutServiceRecord(data, f)
	status, data := c.query(t, method, ib.AttrServiceRecord, mask, data)
	rec, _ := ib.AsServiceRecord(data)
	return status, rec.Fields()
}

// TestAliasRules tests what the cases that OpenSM gets, too, do not cover: other ports' tables, several entries at
// once, and the end of a port.
func TestAliasRules(t *testing.T) {
	r := newJoinRig(t)
	lid, first := r.b.hca.Info().LID, [8]ib.GUID{1: 0x111, 2: 0xa, 3: 0x333}
	const which, three = ib.GUIDInfoLID | ib.GUIDInfoBlock, 7 * ib.GUIDInfoGUID0 << 1
	for _, c := range []struct {
		name   string
		method uint8
		mask   uint64
		f      ib.GUIDInfoFields
		want   uint16
		guids  [8]ib.GUID
	}{
		{"three, of which one is another port's", ib.MethodSet, which | three, ib.GUIDInfoFields{LID: lid, GUIDs: first}, 0,
			[8]ib.GUID{0xb, 0x111, 0, 0x333}},
		{"look", ib.MethodGet, which, ib.GUIDInfoFields{LID: lid}, 0, [8]ib.GUID{0xb, 0x111, 0, 0x333}},
		{"for another port", ib.MethodSet, which | three, ib.GUIDInfoFields{LID: 2, GUIDs: first}, ib.SAStatusRequestInvalid, [8]ib.GUID{}},
		{"for nobody", ib.MethodSet, which | three, ib.GUIDInfoFields{LID: 99, GUIDs: first}, ib.SAStatusRequestInvalid, [8]ib.GUID{}},
		{"no LID", ib.MethodSet, ib.GUIDInfoBlock | three, ib.GUIDInfoFields{LID: lid}, ib.SAStatusInsufficientFields, [8]ib.GUID{}},
		{"no block", ib.MethodDelete, ib.GUIDInfoLID, ib.GUIDInfoFields{LID: lid}, ib.SAStatusInsufficientFields, [8]ib.GUID{}},
		{"delete the port's own", ib.MethodDelete, which | ib.GUIDInfoGUID0, ib.GUIDInfoFields{LID: lid}, ib.SAStatusRequestInvalid, [8]ib.GUID{}},
		{"another in its place", ib.MethodSet, which | ib.GUIDInfoGUID0<<1, ib.GUIDInfoFields{LID: lid, GUIDs: [8]ib.GUID{1: 0x112}}, 0,
			[8]ib.GUID{0xb, 0x112, 0, 0x333}},
		{"delete one that exists and one that does not", ib.MethodDelete, which | three, ib.GUIDInfoFields{LID: lid}, 0, [8]ib.GUID{0xb}},
		{"all blocks", ib.MethodGet, ib.GUIDInfoLID, ib.GUIDInfoFields{LID: lid}, ib.SAStatusTooManyRecords, [8]ib.GUID{}},
		{"once more", ib.MethodSet, which | three, ib.GUIDInfoFields{LID: lid, GUIDs: first}, 0, [8]ib.GUID{0xb, 0x111, 0, 0x333}},
	} {
		status, got := r.b.guids(t, c.method, c.mask, c.f)
		if status != c.want || status == 0 && got.GUIDs != c.guids {
			t.Errorf("%s: status %#x, %v; want %#x, %v", c.name, status, got.GUIDs, c.want, c.guids)
		}
	}
	alias := mustGID("fe80::333")
	if status, _ := ask(t, r.a, ib.MethodSet, joinMask, ib.MCMemberFields{MGID: testMGID, PortGID: alias, JoinState: ib.JoinFull}); status != ib.SAStatusRequestInvalid {
		t.Errorf("another port joins as an alias: status %#x", status)
	}
	if status, _ := ask(t, r.b, ib.MethodSet, joinMask, ib.MCMemberFields{MGID: testMGID, PortGID: alias, JoinState: ib.JoinFull}); status != 0 {
		t.Errorf("the alias joins: status %#x", status)
	}
	if status, _ := r.b.guids(t, ib.MethodSet, which|three, ib.GUIDInfoFields{LID: lid, GUIDs: [8]ib.GUID{3: 0x334}}); status != ib.SAStatusDenied {
		t.Errorf("another alias in place of a group's member: status %#x", status)
	}
	sa := r.fabric.SA()
	r.b.hca.Close()
	if groups := sa.Groups(); len(groups) != 1 || len(groups[0].Members) != 1 || len(sa.guids.owner)+len(sa.guids.tables) != 0 {
		t.Errorf("when the port has gone: groups %+v, aliases %+v", groups, sa.guids)
	}
}

// TestServiceRules tests what the cases that OpenSM gets, too, do not cover.
func TestServiceRules(t *testing.T) {
	r := newJoinRig(t)
	mine := ib.ServiceFields{ID: 7, GID: mustGID("fe80::b"), PKey: 0xffff, LeaseSeconds: ib.ServiceLeaseForever, Key: [16]byte{1}}
	mine.Data[0], mine.Data[17], mine.Data[63] = 1, 2, 3
	change := func(f func(*ib.ServiceFields)) ib.ServiceFields {
		c := mine
		f(&c)
		return c
	}
	const all = ib.ServiceRecordWhich | ib.ServiceRecordLease | ib.ServiceRecordKey | ib.ServiceRecordName | ib.ServiceRecordData
	const word = ib.ServiceRecordName << 1 // the component bit of the first data byte
	for _, c := range []struct {
		name   string
		who    *saAsker
		method uint8
		mask   uint64
		f      ib.ServiceFields
		want   uint16
	}{
		{"offer", r.b, ib.MethodSet, all, mine, 0},
		{"renew", r.b, ib.MethodSet, all, mine, 0},
		{"with another key", r.b, ib.MethodSet, all, change(func(f *ib.ServiceFields) { f.Key[0]++ }), ib.SAStatusDenied},
		{"for another port", r.a, ib.MethodSet, all, mine, ib.SAStatusRequestInvalid},
		{"in a foreign partition", r.b, ib.MethodSet, all, change(func(f *ib.ServiceFields) { f.PKey = 0x8009 }), ib.SAStatusRequestInvalid},
		{"no ID", r.b, ib.MethodSet, all &^ ib.ServiceRecordID, mine, ib.SAStatusInsufficientFields},
		{"by the first byte", r.a, ib.MethodGet, word, mine, 0},
		{"by another first byte", r.a, ib.MethodGet, word, change(func(f *ib.ServiceFields) { f.Data[0]++ }), ib.SAStatusNoRecords},
		{"by the first of 16 bits", r.a, ib.MethodGet, word << 16, mine, 0},
		{"by another", r.a, ib.MethodGet, word << 16, change(func(f *ib.ServiceFields) { f.Data[17]++ }), ib.SAStatusNoRecords},
		{"by the last of 64 bits", r.a, ib.MethodGet, word << 29, mine, 0},
		{"by another", r.a, ib.MethodGet, word << 29, change(func(f *ib.ServiceFields) { f.Data[63]++ }), ib.SAStatusNoRecords},
		{"withdraw with another key", r.b, ib.MethodDelete, ib.ServiceRecordWhich, change(func(f *ib.ServiceFields) { f.Key[0]++ }), ib.SAStatusDenied},
		{"withdraw for another port", r.a, ib.MethodDelete, ib.ServiceRecordWhich, mine, ib.SAStatusRequestInvalid},
		{"withdraw", r.b, ib.MethodDelete, ib.ServiceRecordWhich, mine, 0},
		{"withdraw again", r.b, ib.MethodDelete, ib.ServiceRecordWhich, mine, ib.SAStatusNoRecords},
		{"for a second", r.b, ib.MethodSet, all, change(func(f *ib.ServiceFields) { f.LeaseSeconds = 1 }), 0},
		{"within it", r.a, ib.MethodGet, ib.ServiceRecordID, mine, 0},
	} {
		status, got := c.who.service(t, c.method, c.mask, c.f)
		if status != c.want || status == 0 && (got.ID != 7 || got.Key != [16]byte{} || got.Data != mine.Data) {
			t.Errorf("%s: status %#x, %+v; want %#x", c.name, status, got, c.want)
		}
	}
	time.Sleep(1100 * time.Millisecond)
	if status, _ := r.a.service(t, ib.MethodGet, ib.ServiceRecordID, mine); status != ib.SAStatusNoRecords {
		t.Errorf("after the lease: status %#x", status)
	}
}

// TestServicesBounded registers more services than a port may; then the port goes.
func TestServicesBounded(t *testing.T) {
	r := newJoinRig(t)
	f := ib.ServiceFields{GID: mustGID("fe80::b"), PKey: 0xffff}
	for i := range ib.ServiceID(servicesPerPort + 1) {
		want := uint16(0)
		f.ID = i
		if i == servicesPerPort {
			want = ib.SAStatusNoResources
		}
		if status, _ := r.b.service(t, ib.MethodSet, ib.ServiceRecordWhich, f); status != want {
			t.Errorf("service %d: status %#x, want %#x", i, status, want)
		}
	}
	r.b.hca.Close()
	if n := len(r.fabric.SA().services.services); n != 0 {
		t.Errorf("%d services of a port that has gone", n)
	}
}
