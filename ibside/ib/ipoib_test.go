// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	"net/netip"
	"testing"

	"causeway/ibside/ib"
)

func TestIPoIBARPExample(t *testing.T) {
	p, fault := ib.ParsePacket(frame(t, "ib-ipoib-arp"))
	if fault != ib.FaultNone {
		t.Fatal(fault)
	}
	h, ok := ib.AsIPoIBHeader(p.Payload)
	if !ok || h.EtherType() != ib.EtherTypeARP {
		t.Fatalf("ethertype %#x, %v", h.EtherType(), ok)
	}
	sha := ib.NewIPoIBAddr(0, 0x456, gid("fe80::2:c903:0:1"))
	checkCodec(t, "ARP", "request", p.Payload[4:], ib.IPoIBARPFields{
		Op: ib.ARPRequest, SHA: sha, SPA: netip.MustParseAddr("10.10.0.1"), TPA: netip.MustParseAddr("10.10.0.2"),
	})
	if p.QKey != ib.QKeyIPoIB || p.GRH.DGID != ib.MGIDIPoIB(netip.MustParseAddr("255.255.255.255"), p.PKey, 2) {
		t.Errorf("Q_Key %v, DGID %v", p.QKey, p.GRH.DGID)
	}
}

func TestIPoIBARPReply(t *testing.T) {
	checkCodec(t, "ARP", "reply", unhex(t, `00 20 08 00 14 04 00 02
		80 00 04 05 fe 80 00 00 00 00 00 00 00 02 c9 02 00 24 f6 36 0a 0a 00 02
		40 ff ff ff fe 80 00 00 00 00 00 00 00 02 c9 03 00 00 00 01 0a 0a 00 01`), ib.IPoIBARPFields{
		Op:  ib.ARPReply,
		SHA: ib.NewIPoIBAddr(ib.IPoIBFlagRC, 0x405, gid("fe80::2:c902:24:f636")), SPA: netip.MustParseAddr("10.10.0.2"),
		THA: ib.NewIPoIBAddr(ib.IPoIBFlagUC, 0xffffff, gid("fe80::2:c903:0:1")), TPA: netip.MustParseAddr("10.10.0.1"),
	})
	good := make([]byte, ib.IPoIBARPLen)
	for off, v := range map[int]byte{0: 1, 1: 1, 2: 0x86, 3: 1, 4: 6, 5: 16} { // both types, both lengths
		ib.PutIPoIBARP(good, ib.IPoIBARPFields{Op: ib.ARPReply})
		if _, ok := ib.AsIPoIBARP(good); !ok {
			t.Fatal("a good ARP is refused")
		}
		good[off] = v
		if _, ok := ib.AsIPoIBARP(good); ok {
			t.Errorf("byte %d is %#x, and it passes for an ARP of IPv4 on InfiniBand", off, v)
		}
	}
}

func TestIPoIBAddr(t *testing.T) {
	const text = "80:00:04:05:fe:80:00:00:00:00:00:00:00:02:c9:02:00:24:f6:36"
	a := ib.NewIPoIBAddr(ib.IPoIBFlagRC, 0xff000405, gid("fe80::2:c902:24:f636")) // the QPN has 24 bits
	if a.String() != text || a.Flags() != 0x80 || a.QPN() != 0x405 || a.GID() != gid("fe80::2:c902:24:f636") {
		t.Errorf("%v: flags %#x, QPN %v, GID %v", a, a.Flags(), a.QPN(), a.GID())
	}
}

func TestIPoIBHeader(t *testing.T) {
	b := bytes.Repeat([]byte{0xaa}, 5)
	if ib.PutIPoIBHeader(b, ib.EtherTypeIPv6); !bytes.Equal(b, []byte{0x86, 0xdd, 0, 0, 0xaa}) {
		t.Errorf("put % x", b)
	}
	if _, ok := ib.AsIPoIBHeader(b[:3]); ok {
		t.Error("taken from 3 bytes")
	}
}

func TestIPoIBNDOption(t *testing.T) {
	wire := unhex(t, "01 03 00 00 80 00 04 05 fe 80 00 00 00 00 00 00 00 02 c9 02 00 24 f6 36")
	h, ok := ib.AsIPoIBNDOption(wire)
	if !ok || h.Type() != ib.NDOptionSource || h.Addr() != ib.NewIPoIBAddr(0x80, 0x405, gid("fe80::2:c902:24:f636")) {
		t.Fatalf("type %d, address %v, %v", h.Type(), h.Addr(), ok)
	}
	b := bytes.Repeat([]byte{0xaa}, ib.IPoIBNDOptionLen)
	if ib.PutIPoIBNDOption(b, ib.NDOptionSource, h.Addr()); !bytes.Equal(b, wire) {
		t.Errorf("put % x, want % x", b, wire)
	}
	if _, ok := ib.AsIPoIBNDOption(wire[:23]); ok {
		t.Error("taken from 23 bytes")
	}
	for off, v := range []byte{3, 1} {
		bad := bytes.Clone(wire)
		bad[off] = v
		if _, ok := ib.AsIPoIBNDOption(bad); ok {
			t.Errorf("byte %d is %d, and it passes", off, v)
		}
	}
}
