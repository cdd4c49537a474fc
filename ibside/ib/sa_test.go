// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"testing"

	"causeway/ibside/ib"
)

func TestJoinExample(t *testing.T) {
	b := madOf(t, "ib-group-join")
	checkCodec(t, "MAD", "join", b[:24], ib.MADFields{
		Class: ib.ClassSA, ClassVersion: 2, Method: ib.MethodSet, TID: 0x200000001, AttrID: ib.AttrMCMemberRecord,
	})
	checkCodec(t, "SA", "join", b[24:56], ib.SAFields{Components: 0x130c7})
	checkCodec(t, "MCMemberRecord", "join", b[56:108], ib.MCMemberFields{
		MGID: gid("ff12:4001:ffff::f01:203"), PortGID: gid("fe80::2:c903:0:1"), QKey: ib.QKeyRDMAUDP, PKey: 0xffff,
		JoinState: ib.JoinFull,
	})
}

func TestComponents(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"MCMember, create", ib.MCMemberCreate, 0x130c7},
		{"MCMember, join", ib.MCMemberJoin, 0x10003},
		{"MCMember, last", ib.MCMemberProxyJoin, 1 << 17},
		{"Path, GIDs, TClass, NumbPath, P_Key", ib.PathDGID | ib.PathSGID | ib.PathTClass | ib.PathNumbPath | ib.PathPKey, 0x340c},
		{"Path, reversible", ib.PathReversible, 1 << 11},
		{"Path, flow label", ib.PathFlowLabel, 1 << 8},
		{"Path, last", ib.PathLife, 1 << 21},
	} {
		if c.got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, c.got, c.want)
		}
	}
}

func TestSARecords(t *testing.T) {
	checkCodec(t, "SA", "every field", unhex(t, `01 02 ff 78 00 00 00 03 00 00 00 dc
		fe dc ba 98 76 54 32 10 00 08 00 00 ff ff ff ff 00 00 00 01`), ib.SAFields{
		RMPPVersion: 1, RMPPType: ib.RMPPTypeAck, RMPPRespTime: 31, RMPPStatus: 0x78,
		RMPPFlags: ib.RMPPFlagActive | ib.RMPPFlagFirst | ib.RMPPFlagLast, RMPPData1: 3, RMPPData2: 220,
		SMKey: 0xfedcba9876543210, AttrOffsetWords: 8, Components: 0xffffffff00000001,
	})
	checkCodec(t, "MCMemberRecord", "every field", unhex(t, `ff 12 40 1b ff ff 00 00 00 00 00 00 0f 01 02 03
		fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 01
		00 00 0b 1b c0 05 84 62 80 01 45 d2 a1 23 45 40 25 80 00 00`), ib.MCMemberFields{
		MGID: gid("ff12:401b:ffff::f01:203"), PortGID: gid("fe80::2:c903:0:1"), QKey: ib.QKeyIPoIB, MLID: 0xc005,
		MTUSelector: ib.SelectExactly, MTU: ib.MTU2048, TClass: 0x62, PKey: 0x8001, RateSelector: ib.SelectLess, Rate: 5,
		LifeSelector: ib.SelectBest, Life: 0x12, SL: 10, FlowLabel: 0x12345, HopLimit: 64, Scope: 2,
		JoinState: ib.JoinFull | ib.JoinSendOnly, ProxyJoin: true,
	})
	checkCodec(t, "PathRecord", "every field", unhex(t, `00 00 00 00 01 11 1c 06
		fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 02 fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 01
		00 07 00 04 81 23 45 40 62 ff 80 01 ab c5 84 c3 12 07 00 00 00 00 00 00`), ib.PathFields{
		ServiceID: 0x1111c06, DGID: gid("fe80::2:c903:0:2"), SGID: gid("fe80::2:c903:0:1"), DLID: 7, SLID: 4,
		RawTraffic: true, FlowLabel: 0x12345, HopLimit: 64, TClass: 0x62, Reversible: true, NumbPath: 127, PKey: 0x8001,
		QoSClass: 0xabc, SL: 5, MTUSelector: ib.SelectExactly, MTU: ib.MTU2048, RateSelector: ib.SelectBest, Rate: 3,
		LifeSelector: ib.SelectGreater, Life: 0x12, Preference: 7,
	})
}
