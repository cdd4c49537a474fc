// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"strings"
	"testing"

	"causeway/ibside/ib"
)

func TestRecords(t *testing.T) {
	checkCodec(t, "GUIDInfoRecord", "two entries", unhex(t, `12 34 03 00 00 00 00 00 00 02 c9 03 00 00 00 01
		`+strings.Repeat("00 ", 48)+`02 00 5e ff fe 00 00 01`), ib.GUIDInfoFields{
		LID: 0x1234, Block: 3, GUIDs: [8]ib.GUID{0: 0x0002c90300000001, 7: 0x02005efffe000001},
	})
	checkCodec(t, "PortInfoRecord", "every field", unhex(t, `12 35 03 00 `+strings.Repeat("00 ", 8)+`fe c0 00 00 00 00 00 01
		12 34 00 05 `+strings.Repeat("00 ", 12)+`04 00 02 00 06 `+strings.Repeat("00 ", 27)), ib.PortInfoFields{
		LID: 0x1235, PortNum: 3, Prefix: 0xfec0000000000001, BaseLID: 0x1234, SMLID: 5, State: 4, LMC: 2, SMSL: 6,
	})
	checkCodec(t, "ServiceRecord", "every field", unhex(t, `02 43 61 75 73 65 77 00 fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 01
		80 01 00 00 00 00 00 78 `+strings.Repeat("00 ", 16)+`61 20 62 72 69 64 67 65 `+strings.Repeat("00 ", 56)+`01 02 `+
		strings.Repeat("00 ", 61)+`03`), ib.ServiceRecordFields{
		ID: 0x0243617573657700, GID: gid("fe80::2:c903:0:1"), PKey: 0x8001, Lease: 120, Name: ib.ServiceNameOf("a bridge"),
		Data: [ib.ServiceDataLen]byte{0: 1, 1: 2, 63: 3},
	})
	checkCodec(t, "Notice", "group created", unhex(t, `83 00 00 04 00 42 00 01 92 34 00 00 00 00 00 00
		ff 12 40 1b ff ff 00 00 00 00 00 00 0f 01 02 03 `+strings.Repeat("00 ", 32)+
		`fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 01`), created)
}

// created is the notice of a group that was made.
var created = ib.NoticeFields{
	IsGeneric: true, Type: 3, Producer: ib.ProducerSM, Trap: ib.TrapGroupCreated, IssuerLID: 1, Toggle: true, Count: 0x1234,
	Data: [ib.NoticeDataLen]byte{
		6: 0xff, 7: 0x12, 8: 0x40, 9: 0x1b, 10: 0xff, 11: 0xff, 18: 0x0f, 19: 1, 20: 2, 21: 3,
	},
	IssuerGID: gid("fe80::2:c903:0:1"),
}

func TestNoticeAbout(t *testing.T) {
	link := ib.NoticeFields{IsGeneric: true, Trap: ib.TrapLinkState, Data: [ib.NoticeDataLen]byte{0: 1, 1: 2, 2: 3, 3: 4}}
	port, vendor, deleted, comes := link, created, created, created
	port.Trap, vendor.IsGeneric, deleted.Trap, comes.Trap = ib.TrapCapability, false, ib.TrapGroupDeleted, ib.TrapGIDInService
	mgid := gid("ff12:401b:ffff::f01:203")
	for _, c := range []struct {
		name string
		n    ib.NoticeFields
		gid  ib.GID
		lid  ib.LID
	}{
		{"group created", created, mgid, 0},
		{"group deleted", deleted, mgid, 0},
		{"port came", comes, mgid, 0},
		{"a vendor's trap", vendor, ib.GID{}, 0},
		{"link state", link, ib.GID{}, 0x0102},
		{"capability", port, ib.GID{}, 0x0304},
	} {
		if c.n.GID() != c.gid || c.n.LID() != c.lid {
			t.Errorf("%s: GID %v, LID %v", c.name, c.n.GID(), c.n.LID())
		}
	}
}
