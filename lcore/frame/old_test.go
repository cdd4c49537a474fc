// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"encoding/hex"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/lcore/frame"
)

// TestOldMessages parses messages of older protocol versions, written out by hand.
func TestOldMessages(t *testing.T) {
	any4, any6 := addr("0.0.0.0"), addr("::")
	records := func(kind frame.RecordType, group netip.Addr) []frame.GroupRecord {
		return []frame.GroupRecord{{Type: kind, Group: group}}
	}
	const address15 = " ff15 0000 0000 0000 0000 0001 0002 0003"
	for _, c := range []struct {
		name string
		hex  string // IGMP or MLD with checksum 0
		want frame.Membership
	}{
		{"IGMPv1 report", "1200 0000 ef010203", frame.Membership{Version: 1, Records: records(frame.ModeIsExclude, group239)}},
		{"IGMPv1 query", "1100 0000 00000000", frame.Membership{Version: 1, Query: &frame.Query{Group: any4}}},
		{
			"IGMPv2 query, 25.5 s", "11ff 0000 ef010203",
			frame.Membership{Version: 2, Query: &frame.Query{Group: group239, MaxResp: 25500 * time.Millisecond}},
		},
		{
			"IGMPv3 report with auxiliary data", "2200 0000 0000 0002 0201 0000 ef010203 deadbeef 0600 0001 ef010203 0a0a0001",
			frame.Membership{Version: 3, Records: []frame.GroupRecord{
				{Type: frame.ModeIsExclude, Group: group239},
				{Type: frame.BlockOldSources, Group: group239, Sources: []netip.Addr{host1}},
			}},
		},
		{"MLDv1 report", "8300 0000 0000 0000" + address15, frame.Membership{Version: 1, Records: records(frame.ModeIsExclude, group15)}},
		{"MLDv1 done", "8400 0000 0000 0000" + address15, frame.Membership{Version: 1, Records: records(frame.ToInclude, group15)}},
		{
			"MLDv1 query", "8200 0000 ffff 0000" + strings.Repeat(" 0000", 8),
			frame.Membership{Version: 1, Query: &frame.Query{Group: any6, MaxResp: 65535 * time.Millisecond}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			got, fault := parseGroups(b)
			if fault != "" || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q\ngot  %+v\nwant %+v", fault, got, c.want)
			}
		})
	}
}

// parseGroups adds a right checksum and headers to an IGMP or MLD message and parses it.
func parseGroups(b []byte) (frame.Membership, frame.Fault) {
	if b[0] < 0x80 { // all types of IGMP are below, all of MLD above
		ip := frame.PutIPv4(make([]byte, frame.IPv4Len), frame.IPv4Fields{TTL: 1, Protocol: frame.ProtoIGMP, Src: host1, Dst: group239})
		return frame.ParseIGMP(ip, sealAt(b, frame.Checksum))
	}
	opts := frame.PutRouterAlert(make([]byte, frame.HopByHopLen), frame.ProtoICMPv6)
	b = append(opts, sealICMP(b, local1, group15)...)
	return frame.ParseMLD(header6(frame.ProtoHopByHop, 1, local1, group15, len(b)), b)
}

// TestQueryBytes compares queries with their bytes, written out by hand except for the checksum.
func TestQueryBytes(t *testing.T) {
	q4 := frame.Query{Group: group239, MaxResp: 10 * time.Second, Robustness: 2, Interval: 125 * time.Second, Sources: []netip.Addr{host1, host2}}
	q6 := frame.Query{Group: group15, MaxResp: time.Second, Suppress: true, Interval: time.Second, Sources: []netip.Addr{six1}}
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"IGMPv2", frame.PutIGMP(make([]byte, 8), frame.IGMPQuery, time.Second, group239), "110a 0000 ef010203"},
		{"IGMPv2, longer than it can express", frame.PutIGMP(make([]byte, 8), frame.IGMPQuery, time.Minute, group239), "11ff 0000 ef010203"},
		{
			"IGMPv3", frame.PutIGMPv3Query(make([]byte, frame.IGMPv3QueryFullLen(q4)), q4),
			"1164 0000 ef010203 02 7d 0002 0a0a0001 0a0a0002",
		},
		{
			"MLDv2", frame.PutMLDv2Query(make([]byte, frame.MLDv2QueryFullLen(q6)), local1, group15, q6),
			"8200 0000 03e8 0000 ff150000000000000000000100020003 08 01 0001 fd090000000000000000000000000001",
		},
	} {
		got := slices.Clone(c.got)
		got[2], got[3] = 0, 0
		if want := strings.ReplaceAll(c.want, " ", ""); hex.EncodeToString(got) != want {
			t.Errorf("%s\ngot  %x\nwant %s", c.name, got, want)
		}
	}
}

// TestRecordMeaning says for each type of record, without and with sources, whether it joins or leaves.
func TestRecordMeaning(t *testing.T) {
	for _, c := range []struct {
		kind           frame.RecordType
		joins, leaves  bool // without sources
		joins1, leave1 bool // with one
	}{
		{frame.ModeIsInclude, false, true, true, false},
		{frame.ModeIsExclude, true, false, true, false},
		{frame.ToInclude, false, true, true, false},
		{frame.ToExclude, true, false, true, false},
		{frame.AllowNewSources, false, false, true, false},
		{frame.BlockOldSources, false, false, false, false},
		{7, false, false, false, false},
	} {
		none := frame.GroupRecord{Type: c.kind, Group: group239}
		one := frame.GroupRecord{Type: c.kind, Group: group239, Sources: []netip.Addr{host1}}
		if none.Joins() != c.joins || none.Leaves() != c.leaves || one.Joins() != c.joins1 || one.Leaves() != c.leave1 {
			t.Errorf("type %d: %v %v, with a source %v %v", c.kind, none.Joins(), none.Leaves(), one.Joins(), one.Leaves())
		}
	}
	if !frame.JoinRecord(group239).Joins() || !frame.LeaveRecord(group239).Leaves() {
		t.Error("JoinRecord does not join or LeaveRecord does not leave")
	}
}

// TestARPMeaning checks that probes and announcements are distinguished from requests.
func TestARPMeaning(t *testing.T) {
	for _, c := range []struct {
		name              string
		fields            frame.ARPFields
		probe, gratuitous bool
	}{
		{"question", frame.ARPFields{Op: frame.ARPRequest, SPA: host1, TPA: host2}, false, false},
		{"probe", frame.ARPFields{Op: frame.ARPRequest, SPA: addr("0.0.0.0"), TPA: host2}, true, false},
		{"announcement", frame.ARPFields{Op: frame.ARPRequest, SPA: host1, TPA: host1}, false, true},
		{"announcing reply", frame.ARPFields{Op: frame.ARPReply, SPA: host1, TPA: host1}, false, true},
	} {
		if c.fields.IsProbe() != c.probe || c.fields.IsGratuitous() != c.gratuitous {
			t.Errorf("%s: probe %v, gratuitous %v", c.name, c.fields.IsProbe(), c.fields.IsGratuitous())
		}
	}
}

// TestWrongAddresses writes addresses of the other IP version, and the invalid one: mapped where that is possible, else
// zeros.
func TestWrongAddresses(t *testing.T) {
	h4 := frame.PutIPv4(make([]byte, frame.IPv4Len), frame.IPv4Fields{Src: six1, Dst: addr("::ffff:10.10.0.1")})
	if h4.Src() != addr("0.0.0.0") || h4.Dst() != host1 {
		t.Errorf("IPv4: %s to %s", h4.Src(), h4.Dst())
	}
	h6 := frame.PutIPv6(make([]byte, frame.IPv6Len), frame.IPv6Fields{Src: host1, Dst: addr("fe80::1%eth0")})
	if h6.Src() != addr("::ffff:10.10.0.1") || h6.Dst() != addr("fe80::1") {
		t.Errorf("IPv6: %s to %s", h6.Src(), h6.Dst())
	}
	if h6 = frame.PutIPv6(h6, frame.IPv6Fields{}); h6.Src() != addr("::") {
		t.Errorf("no address is written as %s", h6.Src())
	}
}

// TestNoIP opens a frame without IP.
func TestNoIP(t *testing.T) {
	f, fault := frame.Open(exampleFrame(t, "rocev1"))
	if fault != "" || f.IsIP() || f.Protocol() != 0 || f.Src().IsValid() || f.Dst().IsValid() || len(f.Payload) != 72 {
		t.Errorf("%q: %+v", fault, f)
	}
}

// TestWrongKind calls getters for fields that a message does not have.
func TestWrongKind(t *testing.T) {
	report, _ := frame.AsIGMP(make([]byte, 8))
	if _, ok := report.Query(); ok || report.Version() != 0 {
		t.Error("a message of type 0 is a query")
	}
	if _, ok := report.Records(); ok {
		t.Error("a message of type 0 has records")
	}
	done := make([]byte, frame.MLDLen)
	done[0] = frame.MLDv1Done
	mld, ok := frame.AsMLD(done)
	if !ok || mld.Version() != 1 || mld.Group() != addr("::") {
		t.Error("a done of zeros is something else")
	}
	if _, ok := mld.Query(); ok {
		t.Error("a done is a query")
	}
	if _, ok := mld.Records(); ok {
		t.Error("a done has records")
	}
}

// TestPutPanics: a Put whose arguments cannot be written at all panics, because that is a mistake of the caller.
func TestPutPanics(t *testing.T) {
	for name, put := range map[string]func(){
		"41 bytes of options": func() { frame.PutIPv4(make([]byte, 100), frame.IPv4Fields{Options: make([]byte, 41)}) },
		"IPv4 in 19 bytes":    func() { frame.PutIPv4(make([]byte, 19), frame.IPv4Fields{}) },
		"IPv6 in 39 bytes":    func() { frame.PutIPv6(make([]byte, 39), frame.IPv6Fields{}) },
		"UDP in 7 bytes":      func() { frame.PutUDP(make([]byte, 7), frame.UDPFields{}) },
		"ARP in 27 bytes":     func() { frame.PutARP(make([]byte, 27), frame.ARPFields{}) },
		"checksum in 7 bytes": func() { frame.SetUDPChecksum(make([]byte, 7), host1, host2) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			put()
		}()
	}
}
