// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

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

// TestAliasRules has what the cases that OpenSM gets too do not: other ports' tables, several entries at once, and the
// end of a port.
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
