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

var (
	port1   = frame.Link{MAC: mac1}
	port2   = frame.Link{MAC: mac2}
	tagged  = frame.Link{MAC: mac1, VID: 100, PCP: 3}
	local1  = mac1.LinkLocal()
	six1    = addr("fd09::1")
	six2    = addr("fd09::2")
	group15 = addr("ff15::1:2:3")
)

// builtFrame is a whole frame that this package makes.
type builtFrame struct {
	name    string
	frame   []byte
	example string // its bytes in testdata/frames.txt, if it is there
	summary string // what another decoder must find: see tshark_test.go
	want    any    // what its Parse function returns: ARPFields, NDFields, Membership
}

func builtFrames() []builtFrame {
	request := frame.ARPFields{Op: frame.ARPRequest, SHA: mac1, SPA: host1, TPA: host2}
	reply := frame.ARPFields{Op: frame.ARPReply, SHA: mac2, SPA: host2, THA: mac1, TPA: host1}
	list := []builtFrame{
		{
			name: "ARP request", example: "arp_request", want: request, frame: frame.AppendARPRequest(nil, port1, host1, host2),
			summary: "arp.opcode=1 arp.src.hw_mac=02:00:00:00:00:01 arp.src.proto_ipv4=10.10.0.1 arp.dst.proto_ipv4=10.10.0.2",
		},
		{
			name: "ARP reply", example: "arp_reply", want: reply, frame: frame.AppendARPReply(nil, port2, request),
			summary: "arp.opcode=2 arp.src.hw_mac=02:00:00:00:00:02 arp.src.proto_ipv4=10.10.0.2 arp.dst.hw_mac=02:00:00:00:00:01",
		},
		{
			name: "ARP request, tagged", want: request, frame: frame.AppendARPRequest(nil, tagged, host1, host2),
			summary: "vlan.id=100 vlan.priority=3 arp.opcode=1",
		},
		{
			name: "ARP announcement", frame: frame.AppendARPAnnouncement(nil, port1, host1),
			want:    frame.ARPFields{Op: frame.ARPRequest, SHA: mac1, SPA: host1, TPA: host1},
			summary: "eth.dst=ff:ff:ff:ff:ff:ff arp.opcode=1 arp.isannouncement=1 arp.src.hw_mac=02:00:00:00:00:01 arp.src.proto_ipv4=10.10.0.1",
		},
	}
	list = append(list, builtND()...)
	list = append(list, builtIGMP()...)
	return append(list, builtMLD()...)
}

func builtND() []builtFrame {
	ask := frame.NDFields{Type: frame.NDSolicitation, Target: six2, LinkLayer: mac1}
	answer := frame.NDFields{Type: frame.NDAdvertisement, Solicited: true, Target: six2, LinkLayer: mac2}
	unasked := frame.NDFields{Type: frame.NDAdvertisement, Target: six2, LinkLayer: mac2}
	probe := frame.NDFields{Type: frame.NDSolicitation, Target: six1}
	router := frame.NDFields{Type: frame.NDAdvertisement, Router: true, Override: true, Target: six1}
	return []builtFrame{
		{
			name: "NS", want: ask, frame: frame.AppendNS(nil, port1, six1, six2),
			summary: "eth.dst=33:33:ff:00:00:02 ipv6.dst=ff02::1:ff00:2 ipv6.hlim=255 icmpv6.type=135 icmpv6.checksum.status=1 " +
				"icmpv6.nd.ns.target_address=fd09::2 icmpv6.opt.type=1 icmpv6.opt.linkaddr=02:00:00:00:00:01",
		},
		{
			name: "NS of a sender without an address", want: probe,
			frame:   frame.AppendND(nil, port1, frame.GroupMAC(frame.SolicitedNode(six1)), addr("::"), frame.SolicitedNode(six1), probe),
			summary: "ipv6.src=:: icmpv6.type=135 icmpv6.checksum.status=1 icmpv6.opt.type=",
		},
		{
			name: "NA", want: answer, frame: frame.AppendNA(nil, port2, mac1, six1, six2),
			summary: "eth.dst=02:00:00:00:00:01 ipv6.src=fd09::2 ipv6.dst=fd09::1 icmpv6.type=136 icmpv6.checksum.status=1 " +
				"icmpv6.nd.na.target_address=fd09::2 icmpv6.nd.na.flag.s=1 icmpv6.nd.na.flag.o=0 icmpv6.opt.type=2 " +
				"icmpv6.opt.linkaddr=02:00:00:00:00:02",
		},
		{
			name: "NA to a receiver without an address", want: unasked, frame: frame.AppendNA(nil, port2, mac1, addr("::"), six2),
			summary: "eth.dst=33:33:00:00:00:01 ipv6.dst=ff02::1 icmpv6.checksum.status=1 icmpv6.nd.na.flag.s=0",
		},
		{
			name: "NA that announces", frame: frame.AppendNAAnnouncement(nil, port2, six2),
			want: frame.NDFields{Type: frame.NDAdvertisement, Override: true, Target: six2, LinkLayer: mac2},
			summary: "eth.dst=33:33:00:00:00:01 ipv6.src=fd09::2 ipv6.dst=ff02::1 ipv6.hlim=255 icmpv6.checksum.status=1 " +
				"icmpv6.nd.na.target_address=fd09::2 icmpv6.nd.na.flag.s=0 icmpv6.nd.na.flag.o=1 icmpv6.opt.linkaddr=02:00:00:00:00:02",
		},
		{
			name: "NA of a router, tagged", want: router, frame: frame.AppendND(nil, tagged, mac2, six1, six2, router),
			summary: "vlan.id=100 icmpv6.checksum.status=1 icmpv6.nd.na.flag.r=1 icmpv6.nd.na.flag.o=1",
		},
	}
}

// reported2 is what a report or leave of IGMPv2 means.
func reported2(kind frame.RecordType) frame.Membership {
	return frame.Membership{Version: 2, Records: []frame.GroupRecord{{Type: kind, Group: group239}}}
}

// igmpv2Query makes a general query of version 2, which frame only reads, of a report to the same group.
func igmpv2Query() []byte {
	b := frame.AppendIGMPv2Report(nil, port1, host1, frame.AllHosts4)
	// 4 bytes of router alert.
	frame.PutIGMP(b[frame.EthernetLen+frame.IPv4Len+4:], frame.IGMPQuery, 10*time.Second, netip.IPv4Unspecified())
	return b
}

func builtIGMP() []builtFrame {
	any4, second := addr("0.0.0.0"), addr("239.200.0.1")
	join, leave := frame.JoinRecord(group239), frame.LeaveRecord(second)
	some := frame.GroupRecord{Type: frame.AllowNewSources, Group: group239, Sources: []netip.Addr{host1, host2}}
	v2all := frame.Query{Group: any4, MaxResp: 10 * time.Second}
	v3one := frame.Query{
		Group: group239, MaxResp: time.Second, Suppress: true, Robustness: 2, Interval: 125 * time.Second,
		Sources: []netip.Addr{host1},
	}
	v3all := frame.Query{Group: any4, MaxResp: 1024 * time.Second / 10, Robustness: 2, Interval: 160 * time.Second}
	const good = " ip.ttl=1 ip.dsfield=0xc0 ip.checksum.status=1 igmp.checksum.status=1"
	return []builtFrame{
		{
			name: "IGMPv2 report", example: "igmpv2_report", want: reported2(frame.ModeIsExclude),
			frame:   frame.AppendIGMPv2Report(nil, port1, host1, group239),
			summary: "eth.dst=01:00:5e:01:02:03 ip.dst=239.1.2.3 igmp.type=0x16 igmp.maddr=239.1.2.3" + good,
		},
		{
			name: "IGMPv2 leave", want: reported2(frame.ToInclude), frame: frame.AppendIGMPv2Leave(nil, port1, host1, group239),
			summary: "eth.dst=01:00:5e:00:00:02 ip.dst=224.0.0.2 igmp.type=0x17 igmp.maddr=239.1.2.3" + good,
		},
		{
			name: "IGMPv2 query", want: frame.Membership{Version: 2, Query: &v2all},
			frame:   igmpv2Query(),
			summary: "ip.dst=224.0.0.1 igmp.type=0x11 igmp.version=2 igmp.max_resp=100" + good,
		},
		{
			name: "IGMPv3 report, join", example: "igmpv3_report", want: frame.Membership{Version: 3, Records: []frame.GroupRecord{join}},
			frame:   frame.AppendIGMPv3Report(nil, port1, host1, join),
			summary: "ip.dst=224.0.0.22 igmp.type=0x22 igmp.num_grp_recs=1 igmp.record_type=4 igmp.maddr=239.1.2.3" + good,
		},
		{
			name: "IGMPv3 report, leave, sources, tagged", want: frame.Membership{Version: 3, Records: []frame.GroupRecord{leave, some}},
			frame: frame.AppendIGMPv3Report(nil, tagged, host1, leave, some),
			summary: "vlan.id=100 igmp.num_grp_recs=2 igmp.record_type=3,5 igmp.maddr=239.200.0.1,239.1.2.3 " +
				"igmp.num_src=0,2 igmp.saddr=10.10.0.1,10.10.0.2" + good,
		},
		{
			name: "IGMPv3 query for a group and source", want: frame.Membership{Version: 3, Query: &v3one},
			frame: frame.AppendIGMPv3Query(nil, port1, host1, v3one),
			summary: "ip.dst=239.1.2.3 igmp.type=0x11 igmp.version=3 igmp.max_resp=10 igmp.s=1 igmp.qrv=2 igmp.qqic=125 " +
				"igmp.num_src=1 igmp.saddr=10.10.0.1" + good,
		},
		{
			name: "IGMPv3 general query, long times", want: frame.Membership{Version: 3, Query: &v3all},
			frame:   frame.AppendIGMPv3Query(nil, port1, host1, v3all),
			summary: "ip.dst=224.0.0.1 igmp.version=3 igmp.max_resp=1024 igmp.s=0" + good,
		},
	}
}

func builtMLD() []builtFrame {
	join, leave := frame.JoinRecord(group15), frame.LeaveRecord(addr("ff15::9"))
	some := frame.GroupRecord{Type: frame.BlockOldSources, Group: group15, Sources: []netip.Addr{six1, six2}}
	all := frame.Query{Group: addr("::"), MaxResp: 10 * time.Second, Robustness: 2, Interval: 125 * time.Second}
	one := frame.Query{
		Group: group15, MaxResp: 40960 * time.Millisecond, Suppress: true, Robustness: 7, Interval: time.Second,
		Sources: []netip.Addr{six1},
	}
	const good = " ipv6.hlim=1 ipv6.opt.router_alert=0 icmpv6.checksum.status=1"
	done := frame.Membership{Version: 1, Records: []frame.GroupRecord{frame.LeaveRecord(group15)}}
	return []builtFrame{
		{
			name: "MLDv1 report", want: frame.Membership{Version: 1, Records: []frame.GroupRecord{{Type: frame.ModeIsExclude, Group: group15}}},
			frame:   frame.AppendMLDv1Report(nil, port1, local1, group15),
			summary: "eth.dst=33:33:00:02:00:03 ipv6.dst=ff15::1:2:3 icmpv6.type=131 icmpv6.mld.multicast_address=ff15::1:2:3" + good,
		},
		{
			name: "MLDv1 done, tagged", want: done, frame: frame.AppendMLDv1Done(nil, tagged, local1, group15),
			summary: "vlan.id=100 eth.dst=33:33:00:00:00:02 ipv6.dst=ff02::2 icmpv6.type=132 icmpv6.mld.multicast_address=ff15::1:2:3" + good,
		},
		{
			name: "MLDv2 report, join", want: frame.Membership{Version: 2, Records: []frame.GroupRecord{join}},
			frame: frame.AppendMLDv2Report(nil, port1, local1, join),
			summary: "eth.dst=33:33:00:00:00:16 ipv6.src=fe80::ff:fe00:1 ipv6.dst=ff02::16 icmpv6.type=143 icmpv6.mldr.nb_mcast_records=1 " +
				"icmpv6.mldr.mar.record_type=4 icmpv6.mldr.mar.multicast_address=ff15::1:2:3" + good,
		},
		{
			name: "MLDv2 report, leave, sources, tagged", want: frame.Membership{Version: 2, Records: []frame.GroupRecord{leave, some}},
			frame: frame.AppendMLDv2Report(nil, tagged, local1, leave, some),
			summary: "vlan.id=100 icmpv6.mldr.mar.record_type=3,6 icmpv6.mldr.mar.multicast_address=ff15::9,ff15::1:2:3 " +
				"icmpv6.mldr.mar.source_address=fd09::1,fd09::2" + good,
		},
		{
			name: "MLDv2 general query", want: frame.Membership{Version: 2, Query: &all}, frame: frame.AppendMLDv2Query(nil, port1, local1, all),
			summary: "ipv6.dst=ff02::1 icmpv6.type=130 icmpv6.mld.multicast_address=:: icmpv6.mld.maximum_response_code=10000 icmpv6.mld.qqi=125" + good,
		},
		{
			name: "MLDv2 query for a group and source", want: frame.Membership{Version: 2, Query: &one},
			frame: frame.AppendMLDv2Query(nil, port1, local1, one),
			summary: "ipv6.dst=ff15::1:2:3 icmpv6.mld.flag.s=1 icmpv6.mld.flag.qrv=7 icmpv6.mld.nb_sources=1 icmpv6.mld.maximum_response_code=40960 " +
				"icmpv6.mld.source_address=fd09::1" + good,
		},
	}
}

// parse passes a frame of management's protocols to the Parse function of its protocol.
func parse(b []byte) (any, frame.Fault) {
	f, fault := frame.Open(b)
	if fault != "" {
		return nil, fault
	}
	var got any
	switch {
	case f.Type == frame.TypeARP:
		got, fault = frame.ParseARP(f.Eth.Src(), f.Payload)
	case f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP:
		got, fault = frame.ParseIGMP(f.IPv4, f.Payload)
	case f.IPv6 != nil && f.Protocol() == frame.ProtoHopByHop:
		got, fault = frame.ParseMLD(f.IPv6, f.Payload)
	case f.IPv6 != nil && f.Protocol() == frame.ProtoICMPv6:
		got, fault = frame.ParseND(f.Eth.Src(), f.IPv6, f.Payload)
	case f.IsIP() && f.Protocol() == frame.ProtoUDP:
		var h frame.UDP
		if h, _, fault = f.UDP(); fault == "" {
			got = h.Fields()
		}
	}
	return got, fault
}

// TestBuild compares built frames with their examples, and the parsed fields with those that they were built from.
func TestBuild(t *testing.T) {
	for _, b := range builtFrames() {
		t.Run(b.name, func(t *testing.T) {
			if len(b.frame) < frame.MinLen {
				t.Errorf("%d bytes, less than Ethernet's %d", len(b.frame), frame.MinLen)
			}
			if b.example != "" && !bytes.Equal(b.frame, exampleFrame(t, b.example)) {
				t.Errorf("got  %x\nwant %x", b.frame, exampleFrame(t, b.example))
			}
			got, fault := parse(b.frame)
			if fault != "" {
				t.Fatalf("rejected: %s", fault)
			}
			if !reflect.DeepEqual(got, b.want) {
				t.Errorf("parsed\ngot  %+v\nwant %+v", got, b.want)
			}
		})
	}
}

// TestAppendKeeps checks that a frame is appended to the existing bytes and that no byte of old memory stays in it.
func TestAppendKeeps(t *testing.T) {
	dirty := bytes.Repeat([]byte{0xee}, 256)
	got := frame.AppendARPRequest(dirty[:3], port1, host1, host2)
	if want := exampleFrame(t, "arp_request"); !bytes.Equal(got[3:], want) || !bytes.Equal(got[:3], dirty[:3]) {
		t.Errorf("got  %x\nwant eeeeee %x", got, want)
	}
}

// TestAppendUDP builds RoCEv2 frames around existing transport packets, and compares them with the whole examples.
func TestAppendUDP(t *testing.T) {
	for _, name := range []string{"rocev2_ipv4", "rocev2_ipv4_vlan", "rocev2_ipv6", "rocev2_ipv6_checksum", "rocev2_ipv4_empty"} {
		want := exampleFrame(t, name)
		f, _ := frame.Open(want)
		h, transport, fault := f.UDP()
		if fault != "" {
			t.Fatalf("%s: %s", name, fault)
		}
		d := frame.Datagram{
			Src: netip.AddrPortFrom(f.Src(), h.SrcPort()), Dst: netip.AddrPortFrom(f.Dst(), h.DstPort()), Checksum: h.Checksum() != 0,
		}
		if f.IPv4 != nil {
			d.TOS, d.TTL = f.IPv4.TOS(), f.IPv4.TTL()
		} else {
			d.TOS, d.TTL, d.FlowLabel = f.IPv6.TrafficClass(), f.IPv6.HopLimit(), f.IPv6.FlowLabel()
		}
		l := frame.Link{MAC: f.Eth.Src()}
		if f.Tag != nil {
			l.VID, l.PCP = f.Tag.VID(), f.Tag.PCP()
		}
		if got := frame.AppendUDP(nil, l, f.Eth.Dst(), d, transport); !bytes.Equal(got, want) {
			t.Errorf("%s\ngot  %x\nwant %x", name, got, want)
		}
	}
}
