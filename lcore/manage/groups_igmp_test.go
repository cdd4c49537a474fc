// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"causeway/lcore/frame"
)

var routerLink = frame.Link{MAC: frame.MAC{2, 0, 0, 0, 0, 0x99}}

// takeReports returns the loop's reports to the switches: version, kind of record, group.
func (s *rig) takeReports() []string {
	s.t.Helper()
	var out []string
	for _, f := range frames(s.t, s.w.take()) {
		var m frame.Membership
		var fault frame.Fault
		protocol := "MLD"
		switch {
		case f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP:
			protocol = "IGMP"
			m, fault = frame.ParseIGMP(f.IPv4, f.Payload)
		case f.IPv6 != nil && f.Protocol() == frame.ProtoHopByHop:
			m, fault = frame.ParseMLD(f.IPv6, f.Payload)
		default:
			continue
		}
		if fault != "" || f.Eth.Dst() != frame.GroupMAC(f.Dst()) || f.Eth.Src() != bridgeMAC || m.Query != nil {
			s.t.Fatalf("a bad report, %q: %+v to %v", fault, m, f.Eth.Dst())
		}
		for _, r := range m.Records {
			out = append(out, fmt.Sprintf("%sv%d %d %v > %v", protocol, m.Version, r.Type, r.Group, f.Dst()))
		}
	}
	return out
}

func (s *rig) wantReports(what string, want ...string) {
	s.t.Helper()
	synctest.Wait()
	got := s.takeReports()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: spoke %q, want %q", what, got, want)
	}
}

// Reports in the newest version and in the previous one.
const (
	join4, join6     = "IGMPv3 4 239.1.2.3 > 224.0.0.22", "MLDv2 4 ff05::1:3 > ff02::16"
	still4, still6   = "IGMPv3 2 239.1.2.3 > 224.0.0.22", "MLDv2 2 ff05::1:3 > ff02::16"
	leave4, leave6   = "IGMPv3 3 239.1.2.3 > 224.0.0.22", "MLDv2 3 ff05::1:3 > ff02::16"
	older4, older6   = "IGMPv2 2 239.1.2.3 > 239.1.2.3", "MLDv1 2 ff05::1:3 > ff05::1:3"
	oldBye4, oldBye6 = "IGMPv2 3 239.1.2.3 > 224.0.0.2", "MLDv1 3 ff05::1:3 > ff02::2"
)

// TestReports checks that there is a report at the join, one more within a second, and a leave at the end; and none for
// a group that is open only to RoCE.
func TestReports(t *testing.T) {
	bubble(t, "unsolicited", func(t *testing.T) {
		s := start(t, with(toIB(group4), toIB(group6), toRoCE(netip.MustParseAddr("239.1.2.4"))))
		s.wantReports("at the join", join4, join6)
		time.Sleep(1200 * time.Millisecond)
		s.wantReports("requeued", join4, join6)
		time.Sleep(5 * time.Minute)
		s.wantReports("unasked")
		if n := s.count().GroupReports; n != 4 {
			t.Errorf("counted %d reports", n)
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
		s.wantReports("at the end", leave4, leave6)
	})
}

// TestNoAddress checks that reports of a bridge without an IPv4 address come from 0.0.0.0.
func TestNoAddress(t *testing.T) {
	bubble(t, "IPv6 only", func(t *testing.T) {
		s := start(t, func(c *manageConfig, d *ibPort) {
			with(toIB(group4))(c, d)
			c.Addresses = c.Addresses[1:]
		})
		sent := frames(t, s.w.take())
		if len(sent) != 1 || !sent[0].Src().IsUnspecified() {
			t.Errorf("sent %x", sent)
		}
	})
}

func igmpQuery(q frame.Query) []byte {
	return frame.AppendIGMPv3Query(nil, routerLink, netip.MustParseAddr("10.9.0.99"), q)
}

// igmpv2Query makes a general query of version 2, or of version 1, of a report to the same group.
func igmpv2Query(maxResp time.Duration) []byte {
	b := frame.AppendIGMPv2Report(nil, routerLink, netip.MustParseAddr("10.9.0.99"), frame.AllHosts4)
	// 4 bytes of router alert.
	frame.PutIGMP(b[frame.EthernetLen+frame.IPv4Len+4:], frame.IGMPQuery, maxResp, netip.IPv4Unspecified())
	return b
}

func mldQuery(q frame.Query) []byte {
	return frame.AppendMLDv2Query(nil, routerLink, routerLink.MAC.LinkLocal(), q)
}

func TestQueries(t *testing.T) {
	general4, general6 := frame.Query{Group: netip.IPv4Unspecified()}, frame.Query{Group: netip.IPv6Unspecified()}
	general4.MaxResp, general6.MaxResp = 10*time.Second, 10*time.Second
	specific := func(g netip.Addr) frame.Query { return frame.Query{Group: g, MaxResp: time.Second} }
	for _, c := range []struct {
		name   string
		frame  []byte
		within time.Duration
		want   []string
	}{
		{"general, IPv4", igmpQuery(general4), 10 * time.Second, []string{still4}},
		{"general, IPv6", mldQuery(general6), 10 * time.Second, []string{still6}},
		{"specific, IPv4", igmpQuery(specific(group4)), time.Second, []string{still4}},
		{"specific, IPv6", mldQuery(specific(group6)), time.Second, []string{still6}},
		{"for another group", igmpQuery(specific(netip.MustParseAddr("239.1.2.9"))), time.Second, nil},
		{"for a group that goes to RoCE", igmpQuery(specific(netip.MustParseAddr("239.1.2.4"))), time.Second, nil},
		{"another's report", frame.AppendIGMPv3Report(nil, hostLink, host4, frame.JoinRecord(group4)), time.Second, nil},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, with(toIB(group4), toIB(group6), toRoCE(netip.MustParseAddr("239.1.2.4"))))
			time.Sleep(2 * time.Second)
			s.w.take()
			s.give(c.frame)
			time.Sleep(c.within + 200*time.Millisecond)
			s.wantReports("then", c.want...)
			time.Sleep(time.Minute)
			s.wantReports("afterwards")
		})
	}
}

// TestQueryFlood checks that many queries get one answer, and that it is sent later when the worker's ring is full.
func TestQueryFlood(t *testing.T) {
	bubble(t, "flood", func(t *testing.T) {
		s := start(t, with(toIB(group4)))
		time.Sleep(2 * time.Second)
		s.w.take()
		s.w.setFull(true)
		for range 1000 {
			s.give(igmpQuery(frame.Query{Group: group4, MaxResp: time.Second}))
		}
		s.wantReports("while it is full")
		s.w.setFull(false)
		time.Sleep(1200 * time.Millisecond)
		s.wantReports("then", still4)
		if n := s.count(); n.GroupQueries != 1000 || n.SendFailed == 0 {
			t.Errorf("%+v", n)
		}
	})
}

// TestOlderQuerier checks that the older version is used for 260 s after its last query, for IPv4 and IPv6 each (RFC
// 3376 §7.2.1, RFC 3810 §8.2.1).
func TestOlderQuerier(t *testing.T) {
	igmpv2 := igmpv2Query(10 * time.Second)
	igmpv3 := igmpQuery(frame.Query{Group: group4, MaxResp: time.Second})
	igmpv1 := igmpv2Query(0)
	mldv2 := mldQuery(frame.Query{Group: group6, MaxResp: time.Second})
	for _, c := range []struct {
		name               string
		old, new           []byte
		old4, new4, bye    string
		otherNew, otherBye string
		query              []byte // of the other family
	}{
		{"IGMPv2", igmpv2, igmpv3, older4, still4, oldBye4, still6, leave6, mldv2},
		{"IGMPv1", igmpv1, igmpv3, strings.Replace(older4, "v2", "v1", 1), still4, "", still6, leave6, mldv2},
		{"MLDv1", mldv1Query(10 * time.Second), mldv2, older6, still6, oldBye6, still4, leave4, igmpv3},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := start(t, with(toIB(group4), toIB(group6)))
			time.Sleep(2 * time.Second)
			s.w.take()
			ask := func(b []byte, want string) {
				s.give(b)
				time.Sleep(11 * time.Second)
				s.wantReports("asked", want)
			}
			began := time.Now()
			ask(c.old, c.old4)
			ask(c.new, c.old4) // the older version stays in use after a newer query
			ask(c.query, c.otherNew)
			time.Sleep(time.Until(began.Add(258 * time.Second)))
			ask(c.new, c.old4)
			ask(c.new, c.new4)
			ask(c.old, c.old4)
			if err := s.end(); err != nil {
				t.Error(err)
			}
			s.wantReports("at the end", slices.DeleteFunc([]string{c.bye, c.otherBye}, func(s string) bool { return s == "" })...)
		})
	}
}

// mldv1Query is a general query of version 1: that of version 2 without its end.
func mldv1Query(maxResp time.Duration) []byte {
	src, dst := routerLink.MAC.LinkLocal(), frame.AllNodes6
	n := frame.HopByHopLen + frame.MLDLen
	b := make([]byte, frame.EthernetLen+frame.IPv6Len+n)
	frame.PutEthernet(b, frame.EthernetFields{Dst: frame.GroupMAC(dst), Src: routerLink.MAC, Type: frame.TypeIPv6})
	p := b[frame.EthernetLen:]
	frame.PutIPv6(p, frame.IPv6Fields{PayloadLen: n, NextHeader: frame.ProtoHopByHop, HopLimit: 1, Src: src, Dst: dst})
	frame.PutRouterAlert(p[frame.IPv6Len:], frame.ProtoICMPv6)
	m := p[frame.IPv6Len+frame.HopByHopLen:]
	m[0], m[4], m[5] = frame.MLDQuery, byte(maxResp/time.Millisecond>>8), byte(maxResp/time.Millisecond)
	sum := frame.PseudoChecksum(src, dst, frame.ProtoICMPv6, m)
	m[2], m[3] = byte(sum>>8), byte(sum)
	return b
}
