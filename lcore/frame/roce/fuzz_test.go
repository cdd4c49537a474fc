// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"bytes"
	"net/netip"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// sign makes the ICRC of a frame right, which no fuzzer finds by trying.
func sign(b []byte) []byte {
	b = bytes.Clone(b)
	f, fault := frame.Open(b)
	if fault != "" || len(f.Payload) < ib.ICRCLen {
		return b
	}
	packet, icrc := f.Payload, ib.ICRCRoCEv1
	switch {
	case f.IPv4 != nil:
		packet, icrc = append(bytes.Clone(f.IPv4), f.Payload...), ib.ICRCRoCEv2
	case f.IPv6 != nil:
		packet, icrc = append(bytes.Clone(f.IPv6), f.Payload...), ib.ICRCRoCEv2
	}
	ib.PutICRC(f.Payload[len(f.Payload)-ib.ICRCLen:], icrc(packet[:len(packet)-ib.ICRCLen]))
	return b
}

// FuzzParse checks that what is read as a packet and written again reads the same.
func FuzzParse(f *testing.F) {
	for _, p := range []Packet{
		{Version: 2, SrcIP: netip.MustParseAddr("10.9.0.1"), DstIP: netip.MustParseAddr("10.9.0.7")},
		{Version: 2, SrcIP: netip.MustParseAddr("fd09::1"), DstIP: netip.MustParseAddr("fd09::7")},
		{Version: 1, SrcIP: netip.MustParseAddr("fe80::1"), DstIP: netip.MustParseAddr("fe80::7")},
	} {
		p.Src, p.Dst, p.HopLimit, p.SrcPort = frame.MAC{2, 5: 1}, frame.MAC{2, 5: 2}, 64, 0xc123
		p.PKey, p.DestQP, p.SrcQP, p.QKey, p.Payload = 0xffff, 0x456, 0x123, 0x11111111, []byte("a message")
		f.Add(p.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(sign(b))
		if err != nil {
			return
		}
		again, err := Parse(p.AppendTo(nil))
		if err != nil || !bytes.Equal(again.Payload, p.Payload) || again.SrcIP != p.SrcIP || again.DstIP != p.DstIP ||
			again.DestQP != p.DestQP || again.SrcQP != p.SrcQP || again.QKey != p.QKey || again.PKey != p.PKey {
			t.Errorf("% x\nreads as %+v\nand again as %+v, %v", b, p, again, err)
		}
	})
}
