// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"causeway/lcore/frame"
)

// seeds gives a fuzzer all frames of the test data, whole, cut short, and with a wrong length byte. take returns the
// part of a frame that the fuzzer needs, nil if none.
func seeds(f *testing.F, take func(frame.Frame) []byte) {
	f.Helper()
	var whole [][]byte
	for _, e := range examples(f) {
		whole = append(whole, e.frame)
	}
	for _, b := range builtFrames() {
		whole = append(whole, b.frame)
	}
	for _, list := range [][]hostile{hostileND(), hostileIGMP(), hostileMLD()} {
		for _, h := range list {
			whole = append(whole, h.edit(bytes.Clone(h.frame)))
		}
	}
	for _, b := range whole {
		fr, _ := frame.Open(b)
		if p := take(fr); p != nil {
			f.Add(p)
			f.Add(p[:len(p)/2])
		}
	}
}

// payloadOf returns a take function for the payloads of one protocol.
func payloadOf(proto uint8) func(frame.Frame) []byte {
	return func(f frame.Frame) []byte {
		if f.IsIP() && f.Protocol() == proto {
			return f.Payload
		}
		return nil
	}
}

// FuzzOpen: what Open accepts can be rebuilt from the getters and lies inside the frame.
func FuzzOpen(f *testing.F) {
	for _, e := range examples(f) {
		for n := 0; n <= len(e.frame) && n < 100; n++ {
			f.Add(e.frame[:n])
		}
	}
	for _, b := range builtFrames() {
		f.Add(b.frame)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, fault := frame.Open(b)
		_, _ = parse(b)
		if fault != "" {
			return
		}
		if at := headLen(fr); !bytes.Equal(fr.Payload, b[at:at+len(fr.Payload)]) {
			t.Fatalf("the payload %x is not where the headers end, %d in %x", fr.Payload, at, b)
		}
		if got, want := rebuild(t, fr), b[:headLen(fr)]; !bytes.Equal(got, want) {
			t.Fatalf("rebuilt\ngot  %x\nwant %x", got, want)
		}
	})
}

// rebuild writes the headers of f again from the values of the getters. A checksum may be 0 in one and 0xffff in the
// other: to the internet checksum these are the same number.
func rebuild(t testing.TB, f frame.Frame) []byte {
	t.Helper()
	b := bytes.Repeat([]byte{0xa5}, headLen(f))
	n := len(frame.PutEthernet(b, f.Eth.Fields()))
	if f.Tag != nil {
		n += len(frame.PutVLAN(b[n:], f.Tag.Fields()))
	}
	if f.IPv4 != nil {
		h := frame.PutIPv4(b[n:], f.IPv4.Fields())
		if !h.ChecksumOK() {
			t.Fatalf("the checksum of %x is wrong", []byte(h))
		}
		if f.IPv4.Checksum() == 0xffff && h.Checksum() == 0 {
			copy(h[10:], []byte{0xff, 0xff})
		}
	}
	if f.IPv6 != nil {
		frame.PutIPv6(b[n:], f.IPv6.Fields())
	}
	return b
}

// FuzzViews: no getter of any view panics, and Put gives the bytes back wherever a view covers all of them.
func FuzzViews(f *testing.F) {
	seeds(f, func(fr frame.Frame) []byte { return fr.Payload })
	seeds(f, func(fr frame.Frame) []byte { return fr.IPv4 })
	seeds(f, func(fr frame.Frame) []byte { return fr.IPv6 })
	f.Fuzz(func(t *testing.T, b []byte) {
		requeued := func(view []byte, put func(b []byte)) {
			got := make([]byte, len(view))
			put(got)
			if !bytes.Equal(got, view) {
				t.Fatalf("got  %x\nwant %x", got, view)
			}
		}
		if h, ok := frame.AsEthernet(b); ok {
			requeued(h, func(b []byte) { frame.PutEthernet(b, h.Fields()) })
		}
		if h, ok := frame.AsVLAN(b); ok {
			requeued(h, func(b []byte) { frame.PutVLAN(b, h.Fields()) })
		}
		if h, ok := frame.AsIPv6(b); ok {
			requeued(h, func(b []byte) { frame.PutIPv6(b, h.Fields()) })
		}
		if h, ok := frame.AsUDP(b); ok {
			requeued(h, func(b []byte) { frame.PutUDP(b, h.Fields()) })
		}
		if h, ok := frame.AsARP(b); ok {
			requeued(h, func(b []byte) { frame.PutARP(b, h.Fields()) })
		}
		if h, ok := frame.AsIPv4(b); ok && h.ChecksumOK() && h.Checksum() != 0xffff {
			requeued(h, func(b []byte) { frame.PutIPv4(b, h.Fields()) })
		}
		if h, ok := frame.AsND(b); ok {
			_, _ = h.Fields(), h.Code()
		}
		if h, ok := frame.AsHopByHop(b); ok {
			_, _ = h.RouterAlert()
			_ = h.NextHeader()
		}
		look(b)
	})
}

// look calls every getter of the group protocols, to see that none panics.
func look(b []byte) {
	if h, ok := frame.AsIGMP(b); ok {
		_, _, _, _ = h.Type(), h.Version(), h.ChecksumOK(), h.Group()
		_, _ = h.Query()
		_, _ = h.Records()
	}
	if h, ok := frame.AsMLD(b); ok {
		_, _, _ = h.Type(), h.Version(), h.Group()
		_, _ = h.Query()
		_, _ = h.Records()
	}
}

// FuzzParseARP: a frame built from an accepted message is parsed into the same.
func FuzzParseARP(f *testing.F) {
	seeds(f, func(fr frame.Frame) []byte {
		if fr.Type != frame.TypeARP {
			return nil
		}
		return fr.Payload
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		var src frame.MAC
		if len(b) >= 14 {
			src = frame.MAC(b[8:14]) // so that the fuzzer gets past the comparison with the frame's source
		}
		got, fault := frame.ParseARP(src, b)
		if fault != "" {
			return
		}
		if got.SPA.IsMulticast() || got.SHA.IsMulticast() {
			t.Fatalf("taken from a group: %+v", got)
		}
		requeued(t, frame.AppendARP(nil, frame.Link{MAC: src}, frame.Broadcast, got), got)
	})
}

// again checks that a frame built from parsed fields is parsed into the same.
func requeued(t *testing.T, b []byte, want any) {
	t.Helper()
	if got, fault := parse(b); fault != "" || !reflect.DeepEqual(got, want) {
		t.Fatalf("sent again: %q\ngot  %+v\nwant %+v", fault, got, want)
	}
}

// FuzzParseND: a frame built from an accepted message is parsed into the same. The fuzzer corrects the checksum first.
func FuzzParseND(f *testing.F) {
	seeds(f, payloadOf(frame.ProtoICMPv6))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, src := range []netip.Addr{six1, addr("::")} {
			dst := six2
			if h, ok := frame.AsND(b); ok && src.IsUnspecified() {
				dst = frame.SolicitedNode(h.Target())
			}
			b := sealICMP(b, src, dst)
			ip := header6(frame.ProtoICMPv6, 255, src, dst, len(b))
			got, fault := frame.ParseND(mac1, ip, b)
			if fault == "" {
				requeued(t, frame.AppendND(nil, port1, mac2, src, dst, got), got)
			}
		}
	})
}

// FuzzParseIGMP: a frame built from an accepted message is parsed into the same. The fuzzer corrects the checksum
// first.
func FuzzParseIGMP(f *testing.F) {
	seeds(f, payloadOf(frame.ProtoIGMP))
	f.Fuzz(func(t *testing.T, b []byte) {
		ip := frame.PutIPv4(make([]byte, frame.IPv4Len), frame.IPv4Fields{TTL: 1, Protocol: frame.ProtoIGMP, Src: host1, Dst: frame.AllIGMPv3})
		got, fault := frame.ParseIGMP(ip, sealAt(b, frame.Checksum))
		if fault != "" || len(b) > 8000 {
			return
		}
		bounded(t, got, len(b))
		want := got
		want.Version = 3
		if got.Query != nil {
			if got.Version < 3 && got.Query.MaxResp >= 128*time.Second/10 {
				return // a query of version 3 cannot express all of these times
			}
			requeued(t, frame.AppendIGMPv3Query(nil, port1, host1, *got.Query), want)
			return
		}
		requeued(t, frame.AppendIGMPv3Report(nil, port1, host1, got.Records...), want)
	})
}

// FuzzParseMLD: a frame built from an accepted message is parsed into the same. The fuzzer corrects the checksum first.
func FuzzParseMLD(f *testing.F) {
	seeds(f, payloadOf(frame.ProtoHopByHop))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = frame.ParseMLD(header6(frame.ProtoHopByHop, 1, local1, frame.AllMLDv2, len(b)), b)
		opts, ok := frame.AsHopByHop(b)
		if !ok || len(b) > 8000 {
			return
		}
		b = append(bytes.Clone(opts), sealICMP(b[len(opts):], local1, frame.AllMLDv2)...)
		got, fault := frame.ParseMLD(header6(frame.ProtoHopByHop, 1, local1, frame.AllMLDv2, len(b)), b)
		if fault != "" {
			return
		}
		bounded(t, got, len(b))
		want := got
		want.Version = 2
		if got.Query != nil {
			if got.Version == 1 && got.Query.MaxResp.Milliseconds() >= 1<<15 {
				return // a query of version 2 cannot express all of these times
			}
			requeued(t, frame.AppendMLDv2Query(nil, port1, local1, *got.Query), want)
			return
		}
		requeued(t, frame.AppendMLDv2Report(nil, port1, local1, got.Records...), want)
	})
}

// bounded checks that a message of n bytes does not yield more records and sources than fit into it.
func bounded(t *testing.T, m frame.Membership, n int) {
	t.Helper()
	count := 0
	for _, r := range m.Records {
		count += 1 + len(r.Sources)
	}
	if m.Query != nil {
		count += len(m.Query.Sources)
	}
	if 4*count > n {
		t.Fatalf("%d records and sources from %d bytes", count, n)
	}
}

// header6 returns the header of a packet of n bytes.
func header6(next, hops uint8, src, dst netip.Addr, n int) frame.IPv6 {
	return frame.PutIPv6(make([]byte, frame.IPv6Len), frame.IPv6Fields{PayloadLen: n, NextHeader: next, HopLimit: hops, Src: src, Dst: dst})
}

// sealAt returns a copy of b with the checksum that sum returns in bytes 2 and 3, where ICMPv6 and IGMP have it.
func sealAt(b []byte, sum func([]byte) uint16) []byte {
	b = bytes.Clone(b)
	if len(b) < 4 {
		return b
	}
	b[2], b[3] = 0, 0
	c := sum(b)
	b[2], b[3] = byte(c>>8), byte(c)
	return b
}

func sealICMP(b []byte, src, dst netip.Addr) []byte {
	return sealAt(b, func(b []byte) uint16 { return frame.PseudoChecksum(src, dst, frame.ProtoICMPv6, b) })
}

// FuzzParseMAC: an accepted address is written back the same, except for case and separator.
func FuzzParseMAC(f *testing.F) {
	for _, s := range []string{"02:00:00:00:00:01", "FF-ff-00-12-34-56", "02:00:00:00:00", "::::::", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := frame.ParseMAC(s)
		if err != nil {
			return
		}
		if got, err := frame.ParseMAC(m.String()); err != nil || got != m {
			t.Fatalf("%q read as %s, and that as %s, %v", s, m, got, err)
		}
	})
}
