// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"testing"

	"causeway/ibside/ib"
)

func FuzzHello(f *testing.F) {
	f.Add((&hello{name: "node", guid: 7, mtu: 5}).append(nil))
	f.Add([]byte(helloMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			return
		}
		if again := h.append(nil); !bytes.Equal(again, b) {
			t.Errorf("% x\nreads as %+v, which is written % x", b, h, again)
		}
		if h.guid == 0 || h.name == "" || h.mtu != 0 && !h.mtu.Valid() {
			t.Errorf("accepted %+v", h)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(appendReply(nil, newWire().info))
	f.Add(appendRejection(nil, ErrClosed))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseReply(b)
		if err != nil {
			return
		}
		if again := appendReply(nil, p); !bytes.Equal(again, b) {
			t.Errorf("% x\nreads as %+v, which is written % x", b, p, again)
		}
		if len(p.PKeys) == 0 || !p.LID.IsUnicast() {
			t.Errorf("accepted %+v", p)
		}
	})
}

// FuzzIngress sends packets of a hostile port to a switch with adapters, and to the administrator behind it.
func FuzzIngress(f *testing.F) {
	f.Add(good(func(p *ib.Packet) { p.SLID, p.DLID = 2, 3 }), true)
	f.Add(multicast(func(p *ib.Packet) { p.SLID, p.DLID = 2, 0xc000 }), true)
	for _, mad := range saSeeds("fe80::100") {
		f.Add(good(func(p *ib.Packet) {
			p.SLID, p.DLID, p.DestQP, p.SrcQP, p.QKey, p.Payload = 2, 1, 1, 1, ib.QKeyGSI, mad
		}), true)
	}
	f.Add([]byte{}, false)
	subnet := newFabric(f, Config{Nodes: []NodeConfig{{Name: "echo", GUID: 0x48, QPN: 0x777, QKey: testQKey, Role: RoleEcho}}})
	hostile := rawPorts(f, subnet, 1, 64)[0] // LID 3: the node has 2
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		b = bytes.Clone(b)
		if n := len(b) - ib.ICRCLen - ib.VCRCLen; mend && n >= ib.LRHLen { // so that the fuzzer comes past the CRCs
			b[6], b[7] = 0, 3
			ib.PutCRCs(b)
		}
		hostile.Send(b)
		subnet.sa.silence()
		waitFor(t, "quiet subnet", func() bool { drain(hostile); return subnet.Quiet() })
		checkConserved(t, subnet)
	})
}

// silence ends the reports and transfers that the administrator would repeat.
func (a *SA) silence() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endExchanges(func(ib.LID) bool { return true })
}

// saSeeds are requests of a port, one of each kind, and what else it may send the administrator.
func saSeeds(gid string) (all [][]byte) {
	add := func(method uint8, attr uint16, f ib.SAFields, record int, put func([]byte)) {
		mad := make([]byte, ib.MADLen)
		ib.PutMAD(mad, ib.MADFields{Class: ib.ClassSA, ClassVersion: 2, Method: method, AttrID: attr, TID: 1})
		ib.PutSAHeader(mad[ib.MADHdrLen:], f)
		if put != nil {
			put(mad[ib.MADHdrLen+ib.SAHdrLen:][:record])
		}
		all = append(all, mad)
	}
	member := func(b []byte) {
		ib.PutMCMemberRecord(b, ib.MCMemberFields{MGID: testMGID, PortGID: mustGID(gid), QKey: 1, PKey: 0xffff, JoinState: ib.JoinFull})
	}
	guids := func(b []byte) { ib.PutGUIDInfoRecord(b, ib.GUIDInfoFields{LID: 3, GUIDs: [8]ib.GUID{1: 0x999}}) }
	inform := func(b []byte) {
		ib.PutInformInfo(b, ib.InformInfoFields{
			LIDBegin: ib.InformAllLIDs, IsGeneric: true, Subscribe: true, Type: ib.InformAllTypes, Trap: 0xffff, Producer: ib.InformAllProducers,
		})
	}
	add(ib.MethodSet, ib.AttrInformInfo, ib.SAFields{}, ib.InformInfoLen, inform)
	add(ib.MethodSet, ib.AttrMCMemberRecord, ib.SAFields{Components: ib.MCMemberCreate}, ib.MCMemberRecordLen, member)
	add(ib.MethodGetTable, ib.AttrMCMemberRecord, ib.SAFields{SMKey: trustedKey}, ib.MCMemberRecordLen, member)
	add(ib.MethodDelete, ib.AttrMCMemberRecord, ib.SAFields{Components: ib.MCMemberJoin}, ib.MCMemberRecordLen, member)
	add(ib.MethodGet, ib.AttrPathRecord, ib.SAFields{Components: ib.PathResolve}, 0, nil)
	add(ib.MethodGetTable, ib.AttrPathRecord, ib.SAFields{}, 0, nil)
	const entry = ib.GUIDInfoLID | ib.GUIDInfoBlock | ib.GUIDInfoGUID0<<1
	add(ib.MethodSet, ib.AttrGUIDInfoRecord, ib.SAFields{Components: entry}, ib.GUIDInfoRecordLen, guids)
	add(ib.MethodDelete, ib.AttrGUIDInfoRecord, ib.SAFields{Components: entry}, ib.GUIDInfoRecordLen, guids)
	add(ib.MethodReportResp, ib.AttrNotice, ib.SAFields{}, 0, nil)
	for _, kind := range []uint8{ib.RMPPTypeData, ib.RMPPTypeAck, ib.RMPPTypeStop} {
		add(ib.MethodGetTable, ib.AttrMCMemberRecord, ib.SAFields{
			RMPPVersion: 1, RMPPType: kind, RMPPFlags: ib.RMPPFlagActive, RMPPData1: 1, RMPPData2: 40,
		}, 0, nil)
	}
	return all
}

// FuzzSA gives the administrator requests of two ports, one after the other. The state that these cause is bounded, and
// removed with the ports.
func FuzzSA(f *testing.F) {
	var session []byte
	for _, mad := range saSeeds("fe80::101") { // of the second port, LID 3
		session = append(append(session, 1), mad...)
		f.Add(append([]byte{1}, mad...))
	}
	f.Add(session)
	f.Fuzz(func(t *testing.T, b []byte) {
		subnet, err := New(Config{Queue: 16})
		if err != nil {
			t.Fatal(err)
		}
		defer subnet.Close()
		ports := rawPorts(t, subnet, 2, 16)
		for len(b) > ib.MADLen && len(b) < 64*ib.MADLen {
			from := ports[b[0]&1].Info().LID
			subnet.sa.handle(MADAddress{LID: from}, b[1:ib.MADLen+1])
			b = b[ib.MADLen+1:]
		}
		checkSA(t, subnet.sa)
		for _, p := range ports {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		checkSA(t, subnet.sa)
		sa := subnet.sa
		if n := len(sa.groups.groups) + len(sa.groups.mlids) + len(sa.guids.owner) + len(sa.guids.tables) + len(sa.tables.transfers) +
			len(sa.informs.subscriptions) + len(sa.informs.reports) + len(sa.informs.waiting); n != 0 {
			t.Errorf("of ports that have gone: groups %v, aliases %v, transfers %v, subscriptions %v, reports %v",
				sa.groups.groups, sa.guids.owner, sa.tables.transfers, sa.informs.subscriptions, sa.informs.reports)
		}
	})
}

// checkSA asserts the administrator's bounds and the consistency of its state.
func checkSA(t testing.TB, a *SA) {
	t.Helper()
	if c := a.Reports(); c.Reports != c.Confirmed+c.GivenUp+c.Gone+uint64(c.Waiting) {
		t.Errorf("reports: %+v", c)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.groups.groups) != len(a.groups.mlids) || len(a.groups.groups) > maxGroups || len(a.tables.transfers) > maxTransfers ||
		len(a.informs.subscriptions) > maxSubscriptions || len(a.informs.reports) > maxReports {
		t.Errorf("%d groups, %d MLIDs, %d transfers, %d subscriptions, %d reports", len(a.groups.groups), len(a.groups.mlids),
			len(a.tables.transfers), len(a.informs.subscriptions), len(a.informs.reports))
	}
	for mgid, g := range a.groups.groups {
		if len(g.members) == 0 || g.record.MGID != mgid || !a.groups.mlids[g.record.MLID] {
			t.Errorf("group %v: %+v", mgid, g)
		}
	}
}
