// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"causeway/lcore/frame"
)

var (
	anyByte = rapid.Byte()
	anyMAC  = rapid.Custom(func(t *rapid.T) frame.MAC { return frame.MAC(drawn(t, 6)) })
	any4    = rapid.Custom(func(t *rapid.T) netip.Addr { return netip.AddrFrom4([4]byte(drawn(t, 4))) })
	any6    = rapid.Custom(func(t *rapid.T) netip.Addr { return netip.AddrFrom16([16]byte(drawn(t, 16))) })
	any16   = rapid.Uint16()
)

// drawn returns n random bytes.
func drawn(t *rapid.T, n int) []byte { return rapid.SliceOfN(anyByte, n, n).Draw(t, "bytes") }

// dirty returns n random bytes and one more, which no Put may touch.
func dirty(t *rapid.T, n int) []byte { return append(drawn(t, n), 0x77) }

// header is one kind of header for the round trip: fields are drawn at random, written and read back.
type header struct {
	name string
	trip func(t *rapid.T) (b []byte, got, want any)
}

func headerKinds() []header {
	return []header{
		{"Ethernet", func(t *rapid.T) ([]byte, any, any) {
			f := frame.EthernetFields{Dst: anyMAC.Draw(t, "dst"), Src: anyMAC.Draw(t, "src"), Type: any16.Draw(t, "type")}
			b := dirty(t, frame.EthernetLen)
			frame.PutEthernet(b, f)
			h, _ := frame.AsEthernet(b)
			return b, h.Fields(), f
		}},
		{"VLAN", func(t *rapid.T) ([]byte, any, any) {
			f := frame.VLANFields{
				PCP: rapid.Uint8Max(7).Draw(t, "pcp"), DEI: rapid.Bool().Draw(t, "dei"), VID: rapid.Uint16Max(4095).Draw(t, "vid"),
				Type: any16.Draw(t, "type"),
			}
			b := dirty(t, frame.VLANLen)
			frame.PutVLAN(b, f)
			h, _ := frame.AsVLAN(b)
			return b, h.Fields(), f
		}},
		{"IPv4", tripIPv4},
		{"IPv6", func(t *rapid.T) ([]byte, any, any) {
			f := frame.IPv6Fields{
				TrafficClass: anyByte.Draw(t, "tc"), FlowLabel: rapid.Uint32Max(0xfffff).Draw(t, "flow"),
				PayloadLen: int(any16.Draw(t, "len")), NextHeader: anyByte.Draw(t, "next"), HopLimit: anyByte.Draw(t, "hops"),
				Src: any6.Draw(t, "src"), Dst: any6.Draw(t, "dst"),
			}
			b := dirty(t, frame.IPv6Len)
			frame.PutIPv6(b, f)
			h, _ := frame.AsIPv6(b)
			return b, h.Fields(), f
		}},
		{"UDP", func(t *rapid.T) ([]byte, any, any) {
			f := frame.UDPFields{
				SrcPort: any16.Draw(t, "src"), DstPort: any16.Draw(t, "dst"), Len: int(any16.Draw(t, "len")), Checksum: any16.Draw(t, "sum"),
			}
			b := dirty(t, frame.UDPLen)
			frame.PutUDP(b, f)
			h, _ := frame.AsUDP(b)
			return b, h.Fields(), f
		}},
		{"ARP", func(t *rapid.T) ([]byte, any, any) {
			f := frame.ARPFields{
				Op: any16.Draw(t, "op"), SHA: anyMAC.Draw(t, "sha"), SPA: any4.Draw(t, "spa"), THA: anyMAC.Draw(t, "tha"), TPA: any4.Draw(t, "tpa"),
			}
			b := dirty(t, frame.ARPLen)
			frame.PutARP(b, f)
			h, _ := frame.AsARP(b)
			return b, h.Fields(), f
		}},
		{"ND", tripND},
		{"IGMPv3 report", tripReport},
		{"IGMPv3 and MLDv2 query", tripQuery},
	}
}

func tripIPv4(t *rapid.T) ([]byte, any, any) {
	f := frame.IPv4Fields{
		TOS: anyByte.Draw(t, "tos"), TotalLen: int(any16.Draw(t, "len")), ID: any16.Draw(t, "id"), Flags: rapid.Uint8Max(7).Draw(t, "flags"),
		FragmentOffset: 8 * rapid.IntRange(0, 8191).Draw(t, "offset"), TTL: anyByte.Draw(t, "ttl"), Protocol: anyByte.Draw(t, "proto"),
		Src: any4.Draw(t, "src"), Dst: any4.Draw(t, "dst"),
	}
	if n := rapid.IntRange(0, 40).Draw(t, "options"); n > 0 {
		f.Options = drawn(t, n)
	}
	b := dirty(t, f.HeaderLen())
	frame.PutIPv4(b, f)
	h, _ := frame.AsIPv4(b)
	if !h.ChecksumOK() {
		t.Fatalf("the checksum of %x is wrong", []byte(h))
	}
	if f.Options != nil {
		f.Options = append(f.Options, make([]byte, -len(f.Options)&3)...)
	}
	return b, h.Fields(), f
}

func tripND(t *rapid.T) ([]byte, any, any) {
	f := frame.NDFields{Type: rapid.SampledFrom([]uint8{frame.NDSolicitation, frame.NDAdvertisement}).Draw(t, "type"), Target: any6.Draw(t, "target")}
	if f.Type == frame.NDAdvertisement {
		f.Router, f.Solicited, f.Override = rapid.Bool().Draw(t, "r"), rapid.Bool().Draw(t, "s"), rapid.Bool().Draw(t, "o")
	}
	if rapid.Bool().Draw(t, "option") {
		f.LinkLayer = anyMAC.Draw(t, "mac")
	}
	src, dst := any6.Draw(t, "src"), any6.Draw(t, "dst")
	b := dirty(t, f.Len())
	frame.PutND(b, src, dst, f)
	h, _ := frame.AsND(b[:f.Len()])
	if frame.PseudoChecksum(src, dst, frame.ProtoICMPv6, h) != 0 {
		t.Fatalf("the checksum of %x is wrong", []byte(h))
	}
	return b, h.Fields(), f
}

// drawRecords draws group records with addresses of one kind.
func drawRecords(t *rapid.T, kind *rapid.Generator[netip.Addr]) []frame.GroupRecord {
	var rs []frame.GroupRecord
	for range rapid.IntRange(0, 5).Draw(t, "records") {
		r := frame.GroupRecord{Type: frame.RecordType(anyByte.Draw(t, "type")), Group: kind.Draw(t, "group")}
		if n := rapid.IntRange(0, 5).Draw(t, "sources"); n > 0 {
			r.Sources = rapid.SliceOfN(kind, n, n).Draw(t, "source")
		}
		rs = append(rs, r)
	}
	return rs
}

func tripReport(t *rapid.T) ([]byte, any, any) {
	rs4, rs6 := drawRecords(t, any4), drawRecords(t, any6)
	n4, n6 := frame.IGMPv3ReportFullLen(rs4), frame.MLDv2ReportFullLen(rs6)
	b := dirty(t, n4+n6)
	frame.PutIGMPv3Report(b, rs4)
	frame.PutMLDv2Report(b[n4:], local1, frame.AllMLDv2, rs6)
	h4, _ := frame.AsIGMP(b[:n4])
	h6, _ := frame.AsMLD(b[n4 : n4+n6])
	if !h4.ChecksumOK() || frame.PseudoChecksum(local1, frame.AllMLDv2, frame.ProtoICMPv6, h6) != 0 {
		t.Fatalf("a checksum of %x or %x is wrong", []byte(h4), []byte(h6))
	}
	got4, _ := h4.Records()
	got6, _ := h6.Records()
	return b, [][]frame.GroupRecord{got4, got6}, [][]frame.GroupRecord{rs4, rs6}
}

// drawQuery draws a query with addresses of one kind, and times that the codes express exactly.
func drawQuery(t *rapid.T, kind *rapid.Generator[netip.Addr], unit time.Duration, most int) frame.Query {
	q := frame.Query{
		Group: kind.Draw(t, "group"), MaxResp: time.Duration(rapid.IntRange(0, most).Draw(t, "resp")) * unit,
		Suppress: rapid.Bool().Draw(t, "s"), Robustness: rapid.Uint8Max(7).Draw(t, "qrv"),
		Interval: time.Duration(rapid.IntRange(0, 127).Draw(t, "interval")) * time.Second,
	}
	if n := rapid.IntRange(0, 5).Draw(t, "sources"); n > 0 {
		q.Sources = rapid.SliceOfN(kind, n, n).Draw(t, "source")
	}
	return q
}

func tripQuery(t *rapid.T) ([]byte, any, any) {
	q4, q6 := drawQuery(t, any4, time.Second/10, 127), drawQuery(t, any6, time.Millisecond, 1<<15-1)
	n4, n6 := frame.IGMPv3QueryFullLen(q4), frame.MLDv2QueryFullLen(q6)
	b := dirty(t, n4+n6)
	frame.PutIGMPv3Query(b, q4)
	frame.PutMLDv2Query(b[n4:], local1, frame.AllNodes6, q6)
	h4, _ := frame.AsIGMP(b[:n4])
	h6, _ := frame.AsMLD(b[n4 : n4+n6])
	got4, _ := h4.Query()
	got6, _ := h6.Query()
	return b, []frame.Query{got4, got6}, []frame.Query{q4, q6}
}

// TestRoundTrip draws the fields of each header, puts them over random bytes and reads them back.
func TestRoundTrip(t *testing.T) {
	for _, h := range headerKinds() {
		t.Run(h.name, rapid.MakeCheck(func(t *rapid.T) {
			b, got, want := h.trip(t)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got  %+v\nwant %+v\nin %x", got, want, b)
			}
			if b[len(b)-1] != 0x77 {
				t.Fatalf("the byte behind the header was written")
			}
		}))
	}
}

// TestUDPFrames draws whole datagrams and parses them again.
func TestUDPFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]*rapid.Generator[netip.Addr]{any4, any6}).Draw(t, "kind")
		d := frame.Datagram{
			Src: netip.AddrPortFrom(kind.Draw(t, "src"), any16.Draw(t, "sport")), Dst: netip.AddrPortFrom(kind.Draw(t, "dst"), any16.Draw(t, "dport")),
			TOS: anyByte.Draw(t, "tos"), TTL: rapid.Uint8Min(1).Draw(t, "ttl"), Checksum: rapid.Bool().Draw(t, "checksum"),
		}
		l := frame.Link{MAC: mac1, VID: rapid.Uint16Max(4095).Draw(t, "vid"), PCP: 5}
		payload := rapid.SliceOfN(anyByte, 0, 100).Draw(t, "payload")
		f, fault := frame.Open(frame.AppendUDP(nil, l, mac2, d, payload))
		if fault != "" {
			t.Fatal(fault)
		}
		h, got, fault := f.UDP()
		if fault != "" || !bytes.Equal(got, payload) {
			t.Fatalf("%q: payload %x, want %x", fault, got, payload)
		}
		if h.SrcPort() != d.Src.Port() || h.DstPort() != d.Dst.Port() || f.Src() != d.Src.Addr() || f.Dst() != d.Dst.Addr() {
			t.Fatalf("got %s:%d to %s:%d, want %s to %s", f.Src(), h.SrcPort(), f.Dst(), h.DstPort(), d.Src, d.Dst)
		}
		if (h.Checksum() != 0) != d.Checksum || (f.Tag != nil) != (l.VID != 0) {
			t.Fatalf("checksum %#x, tag %x", h.Checksum(), []byte(f.Tag))
		}
	})
}

// TestOneBit flips each bit of an IPv4 header: the checksum or an earlier check must detect it.
func TestOneBit(t *testing.T) {
	for i := range 8 * frame.IPv4Len {
		b := exampleFrame(t, "rocev2_ipv4")
		b[atIP+i/8] ^= 1 << (i % 8)
		if _, fault := frame.Open(b); fault == "" {
			t.Errorf("bit %d of byte %d: not detected", i%8, i/8)
		}
	}
}
