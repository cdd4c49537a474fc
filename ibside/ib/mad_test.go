// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"net/netip"
	"testing"

	"causeway/ibside/ib"
)

// madOf returns the 256 bytes of MAD in a native example.
func madOf(t *testing.T, name string) []byte {
	t.Helper()
	p, fault := ib.ParsePacket(frame(t, name))
	if fault != ib.FaultNone || len(p.Payload) != ib.MADLen {
		t.Fatalf("%s: fault %q, %d bytes of payload", name, fault, len(p.Payload))
	}
	return p.Payload
}

// payloadOf returns the last n bytes before the ICRC of an Ethernet example without pad.
func payloadOf(t *testing.T, name string, n int) []byte {
	t.Helper()
	_, p, _ := find(t, name).covered(t)
	return p[len(p)-n:]
}

func private(n int, head ...byte) []byte { return append(head, make([]byte, n-len(head))...) }

var cma = ib.CMAFields{SrcPort: 50000, Src: netip.MustParseAddr("10.10.0.1"), Dst: netip.MustParseAddr("10.10.0.2")}

func TestSIDRReqExample(t *testing.T) {
	onIB, onRoCE := madOf(t, "ib-sidr-req"), payloadOf(t, "roce2-sidr-req", ib.MADLen)
	if !bytes.Equal(onIB, onRoCE) {
		t.Fatal("the two SIDR_REQ differ")
	}
	checkCodec(t, "MAD", "SIDR_REQ", onIB[:24], ib.MADFields{
		Class: ib.ClassCM, ClassVersion: 2, Method: ib.MethodSend, TID: 0x112345678, AttrID: ib.AttrSIDRReq,
	})
	hdr := make([]byte, ib.CMAHdrLen)
	ib.PutCMAHeader(hdr, cma)
	checkCodec(t, "SIDR_REQ", "rdma_cm", onIB[24:], ib.SIDRReqFields{
		RequestID: 1, PKey: 0xffff, ServiceID: ib.ServiceIDFromPort(ib.PortSpaceUDP, 7174),
		Private: private(ib.SIDRReqPrivateLen, hdr...),
	})
	checkCodec(t, "CMA", "IPv4", onIB[40:76], cma)
	h, _ := ib.AsMAD(onIB)
	if !h.IsCM() || h.IsSA() || h.IsResponse() {
		t.Errorf("IsCM %v, IsSA %v, IsResponse %v", h.IsCM(), h.IsSA(), h.IsResponse())
	}
}

func TestSIDRRepExample(t *testing.T) {
	b := payloadOf(t, "roce2-sidr-rep", ib.MADLen)
	checkCodec(t, "MAD", "SIDR_REP", b[:24], ib.MADFields{
		Class: ib.ClassCM, ClassVersion: 2, Method: ib.MethodSend, TID: 0x112345678, AttrID: ib.AttrSIDRRep,
	})
	checkCodec(t, "SIDR_REP", "success", b[24:], ib.SIDRRepFields{
		RequestID: 1, QPN: 0x123, ServiceID: 0x1111c06, QKey: ib.QKeyRDMAUDP,
		Additional: []byte{}, Private: make([]byte, ib.SIDRRepPrivateLen),
	})
}

func TestSIDRRepFull(t *testing.T) {
	head := unhex(t, "89 ab cd ef 04 48 00 00 fe dc ba 00 00 00 00 00 01 06 ff ff 80 01 00 00")
	additional, priv := bytes.Repeat([]byte{1}, 72), bytes.Repeat([]byte{2}, 136)
	wire := append(append(head, additional...), priv...)
	checkCodec(t, "SIDR_REP", "every field", wire, ib.SIDRRepFields{
		RequestID: 0x89abcdef, Status: ib.SIDRStatusRedirect, QPN: 0xfedcba,
		ServiceID: ib.ServiceIDFromPort(ib.PortSpaceTCP, 0xffff), QKey: ib.QKeyGSI, Additional: additional, Private: priv,
	})
	wire[5] = 73
	if _, ok := ib.AsSIDRRep(wire); ok {
		t.Error("73 bytes of additional information were taken; there is room for 72")
	}
}

func TestSIDRPrivateCut(t *testing.T) {
	long := bytes.Repeat([]byte{0xff}, 300)
	b := make([]byte, 300)
	req := ib.PutSIDRReq(b, ib.SIDRReqFields{Private: long})
	if !bytes.Equal(req.Private(), long[:216]) || b[232] != 0 {
		t.Error("SIDR_REQ: private data is not cut to its 216 bytes")
	}
	rep := ib.PutSIDRRep(b, ib.SIDRRepFields{Additional: long, Private: long})
	if !bytes.Equal(rep.Private(), long[:136]) || !bytes.Equal(rep.Additional(), long[:72]) || b[232] != 0 {
		t.Error("SIDR_REP: additional or private data is not cut to its 72 or 136 bytes")
	}
	// In place: only the request ID changes, which is what a bridge does.
	f := rep.Fields()
	f.RequestID = 7
	want := append([]byte{0, 0, 0, 7}, bytes.Clone(b[4:])...)
	if ib.PutSIDRRep(b, f); !bytes.Equal(b, want) {
		t.Errorf("in place\n got % x\nwant % x", b, want)
	}
}

func TestServiceIDs(t *testing.T) {
	for _, c := range []struct {
		id    ib.ServiceID
		ip    bool
		space ib.PortSpace
		port  uint16
	}{
		{0x0000000001111c06, true, ib.PortSpaceUDP, 7174},
		{0x0000000001061267, true, ib.PortSpaceTCP, 4711},
		{0x00000000013f0001, false, ib.PortSpaceIB, 1},
		{0x0000000000020001, false, ib.PortSpaceIPoIB, 1},
		{0x1000000001111c06, false, ib.PortSpaceUDP, 7174},
	} {
		if c.id.IsIP() != c.ip || c.id.PortSpace() != c.space || c.id.Port() != c.port {
			t.Errorf("%v: IP %v, space %#x, port %d", c.id, c.id.IsIP(), c.id.PortSpace(), c.id.Port())
		}
		if back := ib.ServiceIDFromPort(c.space, c.port); c.ip && back != c.id {
			t.Errorf("%v: back %v", c.id, back)
		}
	}
}

func TestCMAHeader(t *testing.T) {
	v6 := ib.CMAFields{SrcPort: 1, Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2")}
	checkCodec(t, "CMA", "IPv6", unhex(t, `00 60 00 01 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01
		20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02`), v6)
	good := make([]byte, ib.CMAHdrLen)
	for _, c := range []struct {
		name   string
		fields ib.CMAFields
		off    int
		v      byte
		want   bool
	}{
		{"IPv4", cma, 0, 0, true},
		{"IPv6", v6, 0, 0, true},
		{"version 1.0", cma, 0, 0x10, false},
		{"version 0.1", cma, 0, 0x01, false},
		{"reserved bits", cma, 1, 0x4f, true},
		{"IP version 5", cma, 1, 0x50, false},
		{"source 0.0.0.0", with(cma, "0.0.0.0", ""), 0, 0, false},
		{"source loopback", with(cma, "127.0.0.1", ""), 0, 0, false},
		{"destination multicast", with(cma, "", "239.1.2.3"), 0, 0, false},
		{"destination broadcast", with(cma, "", "255.255.255.255"), 0, 0, false},
		{"destination ::", with(v6, "", "::"), 0, 0, false},
		{"source ::1", with(v6, "::1", ""), 0, 0, false},
		{"destination ff02::1", with(v6, "", "ff02::1"), 0, 0, false},
		{"IPv4 in IPv6", with(v6, "::ffff:10.10.0.1", ""), 0, 0, false},
	} {
		h := ib.PutCMAHeader(good, c.fields)
		if c.v != 0 {
			h[c.off] = c.v
		}
		if h.IsSane() != c.want {
			t.Errorf("%s: sane %v, want %v", c.name, h.IsSane(), c.want)
		}
	}
	if h := ib.PutCMAHeader(good, ib.CMAFields{}); h.IsSane() || h.IPVersion() != 0 {
		t.Errorf("no addresses: IP version %d, sane %v", h.IPVersion(), h.IsSane())
	}
}

func with(f ib.CMAFields, src, dst string) ib.CMAFields {
	if src != "" {
		f.Src = netip.MustParseAddr(src)
	}
	if dst != "" {
		f.Dst = netip.MustParseAddr(dst)
	}
	return f
}

func TestMADKinds(t *testing.T) {
	good := ib.MADFields{Class: ib.ClassCM, ClassVersion: 2, Method: ib.MethodSend}
	b := make([]byte, ib.MADHdrLen)
	if h := ib.PutMAD(b, good); !h.IsCM() {
		t.Error("a CM MAD is not seen as one")
	}
	for off, v := range []byte{2, ib.ClassSA, 1, ib.MethodGet} { // base version, class, class version, method
		h := ib.PutMAD(b, good)
		h[off] = v
		if h.IsCM() {
			t.Errorf("byte %d is %#x, and it passes for a CM MAD", off, v)
		}
	}
	sa := ib.MADFields{Class: ib.ClassSA, ClassVersion: 2, Method: ib.MethodGetResp, Status: ib.SAStatusNoRecords,
		ClassSpecific: 0x1234, TID: 0x0123456789abcdef, AttrID: ib.AttrPathRecord, AttrMod: 0xfedcba98}
	wire := unhex(t, "01 03 02 81 03 00 12 34 01 23 45 67 89 ab cd ef 00 35 00 00 fe dc ba 98")
	checkCodec(t, "MAD", "every field", wire, sa)
	if h, _ := ib.AsMAD(wire); !h.IsSA() || !h.IsResponse() || h.IsCM() {
		t.Errorf("IsSA %v, IsResponse %v, IsCM %v", h.IsSA(), h.IsResponse(), h.IsCM())
	}
}
