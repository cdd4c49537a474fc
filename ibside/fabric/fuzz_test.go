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
	f.Add(appendRefusal(nil, ErrClosed))
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

// FuzzIngress throws packets of a hostile port at a switch with adapters, and at the administrator behind it.
func FuzzIngress(f *testing.F) {
	f.Add(good(func(p *ib.Packet) { p.SLID, p.DLID = 2, 3 }), true)
	f.Add(multicast(func(p *ib.Packet) { p.SLID, p.DLID = 2, 0xc000 }), true)
	sa := func(method uint8, attr uint16, mask uint64, record []byte) []byte {
		mad := make([]byte, ib.MADLen)
		ib.PutMAD(mad, ib.MADFields{Class: ib.ClassSA, ClassVersion: 2, Method: method, AttrID: attr, TID: 1})
		ib.PutSAHeader(mad[ib.MADHdrLen:], ib.SAFields{Components: mask})
		copy(mad[ib.MADHdrLen+ib.SAHdrLen:], record)
		return good(func(p *ib.Packet) {
			p.SLID, p.DLID, p.DestQP, p.SrcQP, p.QKey, p.Payload = 2, 1, 1, 1, ib.QKeyGSI, mad
		})
	}
	record := make([]byte, ib.MCMemberRecordLen)
	ib.PutMCMemberRecord(record, ib.MCMemberFields{
		MGID: testMGID, PortGID: mustGID("fe80::100"), QKey: 1, PKey: 0xffff, JoinState: ib.JoinFull,
	})
	f.Add(sa(ib.MethodSet, ib.AttrMCMemberRecord, ib.MCMemberCreate, record), true)
	f.Add(sa(ib.MethodDelete, ib.AttrMCMemberRecord, ib.MCMemberJoin, record), true)
	f.Add(sa(ib.MethodGet, ib.AttrPathRecord, ib.PathResolve, nil), true)
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
		waitFor(t, "quiet subnet", func() bool { drain(hostile); return subnet.Quiet() })
		checkBooks(t, subnet)
	})
}
