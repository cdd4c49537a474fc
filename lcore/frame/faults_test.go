// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"causeway/lcore/frame"
)

// hostile is a frame that is damaged, or only unusual, and the fault that is reported for it.
type hostile struct {
	name  string
	frame []byte
	edit  func(b []byte) []byte
	want  frame.Fault
}

// set returns an edit that writes v at off.
func set(off int, v ...byte) func([]byte) []byte {
	return func(b []byte) []byte { copy(b[off:], v); return b }
}

// cut returns an edit that leaves n bytes.
func cut(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }

func same(b []byte) []byte { return b }

// Offsets in untagged frames.
const (
	atIP  = frame.EthernetLen
	atARP = frame.EthernetLen
	atUDP = atIP + frame.IPv4Len
	at6   = atIP + frame.IPv6Len                  // what follows a fixed IPv6 header
	atMLD = at6 + frame.HopByHopLen               // MLD behind a router alert
	atIG  = frame.EthernetLen + frame.IPv4Len + 4 // IGMP behind a router alert
)

// ipSum returns an edit that first does edit, then makes the IPv4 header checksum right.
func ipSum(edit func([]byte) []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b = edit(b)
		h := b[atIP : atIP+int(b[atIP]&15)*4]
		binary.BigEndian.PutUint16(h[10:], 0)
		binary.BigEndian.PutUint16(h[10:], frame.Checksum(h))
		return b
	}
}

// igmpSum returns an edit that first does edit, then makes IP's and IGMP's checksums right.
func igmpSum(edit func([]byte) []byte) func([]byte) []byte {
	return ipSum(func(b []byte) []byte {
		b = edit(b)
		m := b[atIG : atIP+int(binary.BigEndian.Uint16(b[atIP+2:]))]
		binary.BigEndian.PutUint16(m[2:], 0)
		binary.BigEndian.PutUint16(m[2:], frame.Checksum(m))
		return b
	})
}

// icmpSum returns an edit that first does edit, then makes the checksum of the ICMPv6 message at off right.
func icmpSum(off int, edit func([]byte) []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b = edit(b)
		ip, _ := frame.AsIPv6(b[atIP:])
		m := b[off : at6+ip.PayloadLen()]
		binary.BigEndian.PutUint16(m[2:], 0)
		binary.BigEndian.PutUint16(m[2:], frame.PseudoChecksum(ip.Src(), ip.Dst(), frame.ProtoICMPv6, m))
		return b
	}
}

func hostileBelow(t *testing.T) []hostile {
	v4, v6, v6sum := exampleFrame(t, "rocev2_ipv4"), exampleFrame(t, "rocev2_ipv6"), exampleFrame(t, "rocev2_ipv6_checksum")
	tag := exampleFrame(t, "rocev2_ipv4_vlan")
	return []hostile{
		{"good", v4, same, ""},
		{"trailer", exampleFrame(t, "rocev2_ipv4_trailer"), same, ""},
		{"source port 69", v4, set(atUDP, 0, 69), ""},
		{"nothing", v4, cut(0), frame.L2Short},
		{"13 bytes", v4, cut(13), frame.L2Short},
		{"cut tag", tag, cut(17), frame.L2Short},
		{"two tags", tag, set(16, 0x81, 0), frame.VLANDouble},
		{"service tag", v4, set(12, 0x88, 0xa8), frame.VLANDouble},
		{"tag over service tag", tag, set(16, 0x88, 0xa8), frame.VLANDouble},
		{"IPv4 header cut", v4, cut(atIP + 19), frame.IPHdr},
		{"version 6 as IPv4", v4, set(atIP, 0x65), frame.IPHdr},
		{"header length 4 words", v4, set(atIP, 0x44), frame.IPHdr},
		{"header length behind the frame", v4, func(b []byte) []byte { return set(atIP, 0x4f)(b[:atIP+56]) }, frame.IPHdr},
		{"header checksum", v4, set(atIP+10, 0), frame.IPCsum},
		{"total length below the header", v4, ipSum(set(atIP+2, 0, 19)), frame.IPLen},
		{"total length behind the frame", v4, ipSum(set(atIP+2, 0, 61)), frame.IPLen},
		{"total length 4 less than UDP's", v4, ipSum(set(atIP+2, 0, 56)), frame.UDPLength},
		{"UDP 4 less than the packet", v4, set(atUDP+4, 0, 36), frame.IPLen},
		{"first fragment", v4, ipSum(set(atIP+6, 0x20)), frame.IPFrag},
		{"last fragment", v4, ipSum(set(atIP+7, 1)), frame.IPFrag},
		{"TTL 0", v4, ipSum(set(atIP+8, 0)), frame.IPTTL},
		{"IPv6 header cut", v6, cut(atIP + 39), frame.IPHdr},
		{"version 4 as IPv6", v6, set(atIP, 0x45), frame.IPHdr},
		{"jumbogram", v6, set(atIP+4, 0, 0), frame.IPLen},
		{"payload length behind the frame", v6, set(atIP+4, 0, 41), frame.IPLen},
		{"hop limit 0", v6, set(atIP+7, 0), frame.IPTTL},
		{"UDP cut", v4, func(b []byte) []byte { return ipSum(set(atIP+2, 0, 27))(b) }, frame.UDPLength},
		{"UDP length 7", v4, set(atUDP+4, 0, 7), frame.UDPLength},
		{"UDP checksum over IPv4", v4, set(atUDP+6, 0, 1), frame.UDPCsum},
		{"UDP checksum over IPv6", v6sum, set(at6+6, 0x61, 0x4d), frame.UDPCsum},
	}
}

func hostileARP(t *testing.T) []hostile {
	ask, answer := exampleFrame(t, "arp_request"), exampleFrame(t, "arp_reply")
	return []hostile{
		{"request", ask, same, ""},
		{"without padding", ask, cut(atARP + 28), ""},
		{"probe", ask, set(atARP+14, 0, 0, 0, 0), ""},
		{"gratuitous", ask, set(atARP+24, 10, 10, 0, 1), ""},
		{"cut", ask, cut(atARP + 27), frame.ARPShort},
		{"hardware type of InfiniBand", ask, set(atARP, 0, 32), frame.ARPKind},
		{"protocol IPv6", ask, set(atARP+2, 0x86, 0xdd), frame.ARPKind},
		{"hardware length 20", ask, set(atARP+4, 20), frame.ARPKind},
		{"protocol length 16", ask, set(atARP+5, 16), frame.ARPKind},
		{"operation 0", ask, set(atARP+6, 0, 0), frame.ARPOp},
		{"reverse ARP", ask, set(atARP+6, 0, 3), frame.ARPOp},
		{"another sender than the frame's", ask, set(atARP+13, 9), frame.ARPSenderMAC},
		{"sender all stations", ask, func(b []byte) []byte {
			return set(6, 255, 255, 255, 255, 255, 255)(set(atARP+8, 255, 255, 255, 255, 255, 255)(b))
		}, frame.ARPSenderMAC},
		{"sender nobody", ask, func(b []byte) []byte { return set(6, make([]byte, 6)...)(set(atARP+8, make([]byte, 6)...)(b)) }, frame.ARPSenderMAC},
		{"sender address of a group", ask, set(atARP+14, 239, 1, 2, 3), frame.ARPSenderIP},
		{"sender address loopback", ask, set(atARP+14, 127, 0, 0, 1), frame.ARPSenderIP},
		{"sender address broadcast", ask, set(atARP+14, 255, 255, 255, 255), frame.ARPSenderIP},
		{"sender address reserved", ask, set(atARP+14, 240, 1, 2, 3), frame.ARPSenderIP},
		{"reply of 0.0.0.0", answer, set(atARP+14, 0, 0, 0, 0), frame.ARPSenderIP},
	}
}

func hostileND() []hostile {
	ask, answer := frame.AppendNS(nil, port1, six1, six2), frame.AppendNA(nil, port2, mac1, six1, six2)
	probe := frame.AppendND(nil, port1, mac2, addr("::"), frame.SolicitedNode(six1), frame.NDFields{Type: frame.NDSolicitation, Target: six1})
	sum := func(edit func([]byte) []byte) func([]byte) []byte { return icmpSum(at6, edit) }
	return []hostile{
		{"solicitation", ask, same, ""},
		{"no address yet", probe, same, ""},
		{"an option that is not known", ask, sum(set(at6+24, 200)), ""},
		{"code 1", ask, sum(set(at6+1, 1)), frame.NDCode},
		{"router solicitation", ask, sum(set(at6, 133)), frame.NDType},
		{"cut to 3 bytes", ask, set(atIP+4, 0, 3), frame.NDShort},
		{"cut to 23 bytes", ask, set(atIP+4, 0, 23), frame.NDShort},
		{"hop limit 254", ask, set(atIP+7, 254), frame.NDHops},
		{"checksum", ask, set(at6+2, 0, 0), frame.NDCsum},
		{"target a group", ask, sum(set(at6+8, 0xff, 0x02)), frame.NDTarget},
		{"target ::", ask, sum(set(at6+8, make([]byte, 16)...)), frame.NDTarget},
		{"target IPv4 mapped", ask, sum(set(at6+8, append(make([]byte, 10), 255, 255, 10, 10, 0, 2)...)), frame.NDTarget},
		{"from a group", ask, sum(set(atIP+8, 0xff, 0x02)), frame.NDSource},
		{"advertisement from ::", answer, sum(set(atIP+8, make([]byte, 16)...)), frame.NDSource},
		{"advertisement to a group, solicited", answer, sum(set(atIP+24, 0xff, 0x02)), frame.NDDest},
		{"from :: to one node", probe, sum(set(atIP+24, 0xfd)), frame.NDDest},
		{"from :: with a link-layer address", ask, sum(set(atIP+8, make([]byte, 16)...)), frame.NDOptionLL},
		{"option of length 0", ask, sum(set(at6+25, 0)), frame.NDOption},
		{"option behind the message", ask, sum(set(at6+25, 2)), frame.NDOption},
		{"option of one byte", ask, sum(set(atIP+4, 0, 25)), frame.NDOption},
		{"link-layer address of InfiniBand's length", func() []byte {
			b := slices.Concat(ask, make([]byte, 16))
			return icmpSum(at6, set(atIP+4, 0, 48))(set(at6+25, 3)(b))
		}(), same, frame.NDOption},
		{"link-layer address of another station", ask, sum(set(at6+31, 9)), frame.NDOptionLL},
		{"link-layer address of a group", answer, func(b []byte) []byte { return set(6, 3)(sum(set(at6+26, 3))(b)) }, frame.NDOptionLL},
	}
}

func hostileIGMP() []hostile {
	v2, v3 := frame.AppendIGMPv2Report(nil, port1, host1, group239), frame.AppendIGMPv3Report(nil, port1, host1, frame.JoinRecord(group239))
	query := frame.AppendIGMPv3Query(nil, port1, host1, frame.Query{Group: group239, Sources: []netip.Addr{host2}})
	many := make([]frame.GroupRecord, 150)
	for i := range many {
		many[i] = frame.JoinRecord(netip.AddrFrom4([4]byte{239, 9, 0, byte(i)}))
	}
	return []hostile{
		{"report", v2, same, ""},
		{"150 records", frame.AppendIGMPv3Report(nil, port1, host1, many...), same, ""},
		{"from 0.0.0.0", v2, ipSum(set(atIP+12, 0, 0, 0, 0)), ""},
		{"record of an unknown type", v3, igmpSum(set(atIG+8, 7)), ""},
		{"7 bytes", v2, ipSum(set(atIP+2, 0, 31)), frame.IGMPShort},
		{"query of 11 bytes", query, ipSum(set(atIP+2, 0, 35)), frame.IGMPShort},
		{"type 0x13", v2, igmpSum(set(atIG, 0x13)), frame.IGMPType},
		{"TTL 2", v2, ipSum(set(atIP+8, 2)), frame.IGMPTTL},
		{"checksum", v2, set(atIG+2, 0), frame.IGMPCsum},
		{"from a group", v2, ipSum(set(atIP+12, 239, 0, 0, 1)), frame.IGMPSource},
		{"group 10.1.2.3", v2, igmpSum(set(atIG+4, 10)), frame.IGMPGroup},
		{"group of a record 10.1.2.3", v3, igmpSum(set(atIG+12, 10)), frame.IGMPGroup},
		{"query about 10.1.2.3", query, igmpSum(set(atIG+4, 10)), frame.IGMPGroup},
		{"sources in a general query", query, igmpSum(set(atIG+4, 0, 0, 0, 0)), frame.IGMPGroup},
		{"2 records announced, 1 there", v3, igmpSum(set(atIG+6, 0, 2)), frame.IGMPRecords},
		{"10000 records announced", v3, igmpSum(set(atIG+6, 0x27, 0x10)), frame.IGMPRecords},
		{"1 source announced, none there", v3, igmpSum(set(atIG+10, 0, 1)), frame.IGMPRecords},
		{"65535 sources announced", v3, igmpSum(set(atIG+10, 0xff, 0xff)), frame.IGMPRecords},
		{"auxiliary data behind the packet", v3, igmpSum(set(atIG+9, 0xff)), frame.IGMPRecords},
		{"record cut", v3, igmpSum(set(atIP+2, 0, 39)), frame.IGMPRecords},
		{"2 sources announced in a query, 1 there", query, igmpSum(set(atIG+10, 0, 2)), frame.IGMPRecords},
	}
}

func hostileMLD() []hostile {
	join := frame.AppendMLDv2Report(nil, port1, local1, frame.JoinRecord(group15))
	query := frame.AppendMLDv2Query(nil, port1, local1, frame.Query{Group: group15, Sources: []netip.Addr{six1}})
	sum := func(edit func([]byte) []byte) func([]byte) []byte { return icmpSum(atMLD, edit) }
	return []hostile{
		{"report", join, same, ""},
		{"report from ::", join, sum(set(atIP+8, make([]byte, 16)...)), ""},
		{"alert behind one byte of padding", join, set(at6+2, 0, 5, 2, 0, 0, 0), ""},
		{"hop-by-hop header cut", join, set(atIP+4, 0, 7), frame.MLDShort},
		{"hop-by-hop header behind the packet", join, set(at6+1, 255), frame.MLDShort},
		{"nothing behind the hop-by-hop header", join, set(atIP+4, 0, 8), frame.MLDShort},
		{"report of 7 bytes", join, set(atIP+4, 0, 15), frame.MLDShort},
		{"query of 27 bytes", query, set(atIP+4, 0, 35), frame.MLDShort},
		{"UDP behind the hop-by-hop header", join, set(at6, 17), frame.MLDType},
		{"neighbour solicitation", join, sum(set(atMLD, 135)), frame.MLDType},
		{"hop limit 255", join, set(atIP+7, 255), frame.MLDHops},
		{"no alert", join, set(at6+2, 1, 4), frame.MLDAlert},
		{"option behind the header", join, set(at6+2, 1, 5), frame.MLDAlert},
		{"option cut", join, set(at6+2, 1, 3, 0, 0, 0, 5), frame.MLDAlert},
		{"alert for RSVP", join, set(at6+5, 1), frame.MLDAlert},
		{"checksum", join, set(atMLD+2, 0), frame.MLDCsum},
		{"from an address that is not link-local", join, sum(set(atIP+8, 0xfd, 0x09)), frame.MLDSource},
		{"query from ::", query, sum(set(atIP+8, make([]byte, 16)...)), frame.MLDSource},
		{"group fd15::", join, sum(set(atMLD+12, 0xfd)), frame.MLDGroup},
		{"group of IPv4, mapped", join, sum(set(atMLD+12, append(make([]byte, 10), 255, 255, 239, 1, 2, 3)...)), frame.MLDGroup},
		{"query about fd15::", query, sum(set(atMLD+8, 0xfd)), frame.MLDGroup},
		{"2 records announced, 1 there", join, sum(set(atMLD+6, 0, 2)), frame.MLDRecords},
		{"10000 records announced", join, sum(set(atMLD+6, 0x27, 0x10)), frame.MLDRecords},
		{"1 source announced, none there", join, sum(set(atMLD+10, 0, 1)), frame.MLDRecords},
		{"auxiliary data behind the packet", join, sum(set(atMLD+9, 1)), frame.MLDRecords},
		{"2 sources announced in a query, 1 there", query, sum(set(atMLD+26, 0, 2)), frame.MLDRecords},
	}
}

// TestFaults provokes every fault.
func TestFaults(t *testing.T) {
	seen := map[frame.Fault]bool{}
	for protocol, list := range map[string][]hostile{
		"below": hostileBelow(t), "ARP": hostileARP(t), "ND": hostileND(), "IGMP": hostileIGMP(), "MLD": hostileMLD(),
	} {
		for _, h := range list {
			t.Run(protocol+"/"+h.name, func(t *testing.T) {
				if _, got := parse(h.edit(bytes.Clone(h.frame))); got != h.want {
					t.Errorf("got %q, want %q", got, h.want)
				}
			})
			seen[h.want] = true
		}
	}
	for _, f := range declaredFaults(t) {
		if !seen[f] {
			t.Errorf("no case provokes %q", f)
		}
	}
}

// declaredFaults reads the faults that fault.go declares.
func declaredFaults(t *testing.T) []frame.Fault {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []frame.Fault
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			s, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, frame.Fault(s))
		}
		return true
	})
	if len(list) < 30 {
		t.Fatalf("fault.go: only %d faults found", len(list))
	}
	return list
}

// TestCounter gives the protocols' faults one counter each and leaves the others alone.
func TestCounter(t *testing.T) {
	for f, want := range map[frame.Fault]string{
		frame.ARPOp: "arp_bad", frame.NDCode: "nd_bad", frame.IGMPRecords: "igmp_bad", frame.MLDGroup: "mld_bad",
		frame.IPCsum: "ip_csum", frame.L2Short: "l2_short", "": "",
	} {
		if got := f.Counter(); got != want {
			t.Errorf("%q: got %q, want %q", f, got, want)
		}
	}
}
