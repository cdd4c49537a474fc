// SPDX-License-Identifier: Apache-2.0

// Package dut builds the device under test (DUT): the bridge's own workers and tables, in this process, with a
// generator on both sides.
//
//	generator ─▶ ring port ─▶ worker ─▶ port ─▶ generator        roce_to_ib
//	generator ◀─ ring port ◀─ worker ◀─ port ◀─ generator        ib_to_roce
//
// There is no management: hosts, nodes, proxy QPs and groups are in the tables from the beginning, as management would
// put them there.
package dut

import (
	"fmt"
	"net/netip"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/perf/gen"
	"causeway/perf/trial"
	"causeway/tables"
)

// Traffic is which hosts and nodes send what.
type Traffic struct {
	Payloads []int     // bytes; flows use them in turn
	Flows    int       // hosts with one QP each, and the same number of nodes; each sends to one other
	IP       []int     // 4, 6 or both, in turn
	VLAN     uint16    // of the RoCE side; 0: untagged
	Groups   int       // the largest number of groups
	Share    float64   // of messages to groups
	Bridge   frame.MAC // the bridge's; zero: 02:00:00:00:00:02
}

// MaxFlows is a little less than the number of unicast LIDs.
const MaxFlows = 40000

// Check returns what is wrong with t.
func (t *Traffic) Check() error {
	switch {
	case t.Flows < max(1, len(t.IP)) || t.Flows > MaxFlows:
		return fmt.Errorf("%d flows; use %d to %d", t.Flows, max(1, len(t.IP)), MaxFlows)
	case t.Groups < 0 || t.Groups > maxGroups:
		return fmt.Errorf("%d groups; use 0 to %d", t.Groups, maxGroups)
	case t.Share < 0 || t.Share > 1 || t.Share > 0 && t.Groups == 0:
		return fmt.Errorf("a share of %g to %d groups; use 0 to 1, and at least one group for more than 0", t.Share, t.Groups)
	case t.VLAN > 4094:
		return fmt.Errorf("VLAN %d; use 0 to 4094", t.VLAN)
	case len(t.Payloads) == 0 || len(t.IP) == 0:
		return fmt.Errorf("no payload, or no IP version")
	}
	for _, p := range t.Payloads {
		if p < gen.MinPayload || p > gen.MaxPayload {
			return fmt.Errorf("a payload of %d bytes; use %d, for the stamp, to %d", p, gen.MinPayload, gen.MaxPayload)
		}
	}
	for _, v := range t.IP {
		if v != 4 && v != 6 {
			return fmt.Errorf("IP version %d; use 4 or 6", v)
		}
	}
	return nil
}

var bridgeMAC = frame.MAC{2, 0, 0, 0, 0, 2}

const (
	maxGroups = 8192
	hostQPN   = ib.QPN(0x456)
	nodeQPN   = ib.QPN(0x123)
	firstQPN  = 0x1000 // of the proxy QPs
	firstLID  = 0x100  // of the nodes
	hopLimit  = 64
	groupQKey = ib.QKey(0x0badcafe) // of groups on InfiniBand; on RoCE it is different
)

func (t *Traffic) version(i int) int { return t.IP[i%len(t.IP)] }

func hostMAC(i int) frame.MAC { return frame.MAC{2, 0, 1, byte(i >> 16), byte(i >> 8), byte(i)} }

// ip is an address in 10.net.0.0/16 or fdnet::/64.
func ip(version, net, i int) netip.Addr {
	if version == 4 {
		return netip.AddrFrom4([4]byte{10, byte(net), byte(i >> 8), byte(i)})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 1: byte(net), 13: 1, 14: byte(i >> 8), 15: byte(i)})
}

func hostIP(version, i int) netip.Addr { return ip(version, 9, i+1) }
func nodeIP(version, i int) netip.Addr { return ip(version, 10, i+1) }

func groupIP(version, i int) netip.Addr {
	if version == 4 {
		return netip.AddrFrom4([4]byte{239, 1, byte(i >> 8), byte(i)})
	}
	return netip.AddrFrom16([16]byte{0: 0xff, 1: 0x15, 13: 1, 14: byte(i >> 8), 15: byte(i)})
}

func nodeGID(i int) ib.GID {
	return ib.GIDFromGUID(0xfe80_0000_0000_0000, ib.GUID(0x0002_c903_0001_0000|uint64(i+1)))
}

func nodeLID(i int) ib.LID { return ib.LID(firstLID + i) }

// node is the node that host i sends to: neighbours in one table are not neighbours in the other.
func (t *Traffic) node(i int) int { return (i*389 + 511) % t.Flows }

// group makes group i.
func (t *Traffic) group(i int) tables.Group {
	a := groupIP(t.version(i), i)
	return tables.Group{
		IP: a, MGID: ib.MGIDRDMACM(a, ib.PKeyDefault, ib.ScopeLinkLocal), MLID: ib.MLIDFirst + ib.LID(i), HopLimit: 1,
		QKey: groupQKey, RoCEQKey: ib.QKeyRDMAUDP, MTUToIB: gen.MaxPayload, MTUToRoCE: gen.MaxPayload, VLAN: t.VLAN,
		Version: lcore.V2, ToIB: true, ToRoCE: true,
	}
}

// fill puts all hosts, nodes and proxy QPs into the tables. Proxy QPs belong to the workers in turn.
func (t *Traffic) fill(to *tables.Tables, workers int) error {
	for i := range t.Flows {
		version := t.version(i)
		h := tables.Host{IP: hostIP(version, i), MAC: hostMAC(i), VLAN: t.VLAN, Version: lcore.V2}
		if _, err := to.Hosts.Put(h); err != nil {
			return err
		}
		_, err := to.ProxyQPs.Put(tables.ProxyQP{
			HostQP: tables.HostQP{Host: h.IP, HostQPN: hostQPN}, QP: uint32(i), QPN: ib.QPN(firstQPN + i), QKey: ib.QKeyRDMAUDP, Worker: i % workers,
			Version: lcore.V2,
		})
		if err != nil {
			return err
		}
		n := tables.Node{IP4: nodeIP(4, i), IP6: nodeIP(6, i), GID: nodeGID(i), LID: nodeLID(i)}
		if _, err := to.Nodes.Put(n); err != nil {
			return err
		}
	}
	return nil
}

func (t *Traffic) datapathConfig() lcore.DatapathConfig {
	prefix := netip.MustParsePrefix
	return lcore.DatapathConfig{
		MAC: bridgeMAC, RoCEPKey: ib.PKeyDefault, RewriteImm: true,
		Segment: lcore.Segment{
			VLAN: t.VLAN, RoCEMTU: gen.MaxPayload, Versions: lcore.V2, TTL: hopLimit,
			Addresses: []netip.Prefix{prefix("10.9.255.254/16"), prefix("fd09::fffe/64")},
		},
		Policy: lcore.Policy{Allow: []netip.Prefix{prefix("10.0.0.0/8"), prefix("fd00::/8")}},
	}
}

// packet is a frame from host i; the generator fills its payload.
func (t *Traffic) packet(i, payload int, dst netip.Addr, mac frame.MAC, qpn ib.QPN) roce.Packet {
	p := roce.Packet{
		Version: 2, Dst: mac, Src: hostMAC(i), SrcIP: hostIP(t.version(i), i), DstIP: dst, HopLimit: hopLimit,
		SrcPort: uint16(0xc000 | i&0x3fff), PKey: ib.PKeyDefault, DestQP: qpn, QKey: ib.QKeyRDMAUDP, SrcQP: hostQPN,
		Payload: make([]byte, payload),
	}
	if t.VLAN != 0 {
		p.Tag = &frame.VLANFields{VID: t.VLAN}
	}
	return p
}

// fromRoCE makes a flow of such packets.
func (t *Traffic) fromRoCE(p roce.Packet, want gen.Want) gen.Flow {
	b := p.AppendTo(nil)
	f := gen.Flow{
		From: gen.RoCE, Payload: len(p.Payload), Want: want, Net: frame.EthernetLen, Network: gen.IPv4,
		Head: b[:len(b)-len(p.Payload)-(-len(p.Payload)&3)-ib.ICRCLen],
	}
	if t.VLAN != 0 {
		f.Net += frame.VLANLen
	}
	f.BTH = f.Net + frame.IPv4Len + frame.UDPLen
	if p.SrcIP.Is6() {
		f.Network, f.BTH = gen.IPv6, f.Net+frame.IPv6Len+frame.UDPLen
	}
	return f
}

// flows are, in this order: one from each host, one to each host, one to each group from RoCE, one to each group from
// IB.
func (t *Traffic) flows() []gen.Flow {
	var out []gen.Flow
	for i := range t.Flows {
		out = append(out, t.toNode(i))
	}
	for i := range t.Flows {
		out = append(out, t.toHost(i))
	}
	for i := range t.Groups {
		out = append(out, t.toGroup(i))
	}
	for i := range t.Groups {
		out = append(out, t.fromGroup(i))
	}
	return out
}

func (t *Traffic) payload(i int) int { return t.Payloads[i%len(t.Payloads)] }

func (t *Traffic) toNode(i int) gen.Flow {
	n := t.node(i)
	mac := t.Bridge
	if mac == (frame.MAC{}) {
		mac = bridgeMAC
	}
	p := t.packet(i, t.payload(i), nodeIP(t.version(i), n), mac, nodeQPN)
	return t.fromRoCE(p, gen.Want{
		Side: gen.IB, Addr: nodeGID(n), LID: uint16(nodeLID(n)), Src: uint32(i), QPN: uint32(nodeQPN), QKey: uint32(ib.QKeyRDMAUDP),
	})
}

func (t *Traffic) toHost(i int) gen.Flow {
	return gen.Flow{
		From: gen.IB, Head: make([]byte, ib.GRHLen), Payload: t.payload(i),
		Recv: gen.Recv{QPN: uint32(firstQPN + i), SrcQPN: uint32(nodeQPN), SLID: uint16(nodeLID(t.node(i)))},
		Want: gen.Want{
			Side: gen.RoCE, MAC: hostMAC(i), Addr: hostIP(t.version(i), i).As16(), QPN: uint32(hostQPN), Src: uint32(nodeQPN),
			QKey: uint32(ib.QKeyRDMAUDP),
		},
	}
}

// sender is the host or node, of the group's IP version, that sends to group i.
func (t *Traffic) sender(i int) int {
	host := i % t.Flows
	for t.version(host) != t.version(i) {
		host = (host + 1) % t.Flows
	}
	return host
}

func (t *Traffic) toGroup(i int) gen.Flow {
	g, host := t.group(i), t.sender(i)
	p := t.packet(host, t.payload(i), g.IP, frame.GroupMAC(g.IP), ib.QPMulticast)
	return t.fromRoCE(p, gen.Want{
		Side: gen.IB, Addr: g.MGID, LID: uint16(g.MLID), Src: uint32(host), QPN: uint32(ib.QPMulticast), QKey: uint32(g.QKey),
	})
}

func (t *Traffic) fromGroup(i int) gen.Flow {
	g, node := t.group(i), t.sender(i)
	area := make([]byte, ib.GRHLen)
	ib.PutGRH(area, ib.GRHFields{HopLimit: 1, SGID: nodeGID(node), DGID: g.MGID})
	return gen.Flow{
		From: gen.IB, Head: area, Payload: t.payload(i),
		Recv: gen.Recv{QPN: uint32(ib.QPMulticast), SrcQPN: uint32(nodeQPN), SLID: uint16(nodeLID(node)), GRH: true},
		Want: gen.Want{
			Side: gen.RoCE, MAC: frame.GroupMAC(g.IP), Addr: g.IP.As16(), QPN: uint32(ib.QPMulticast), Src: uint32(nodeQPN),
			QKey: uint32(g.RoCEQKey),
		},
	}
}

// order mixes a direction's unicast flows with those of the first groups.
func (t *Traffic) order(d trial.Direction, groups int, share float64) []int {
	first, firstGroup := 0, 2*t.Flows
	if d == trial.IBToRoCE {
		first, firstGroup = t.Flows, 2*t.Flows+t.Groups
	}
	n := t.Flows
	if share > 0 {
		n = max(n, groups)
	}
	var out []int
	unicast, multicast := 0, 0
	for i := range n {
		if groups > 0 && int(float64(i+1)*share) > int(float64(i)*share) {
			out = append(out, firstGroup+multicast%groups)
			multicast++
			continue
		}
		out = append(out, first+unicast%t.Flows)
		unicast++
	}
	return out
}

// owner is the worker that forwards a flow.
func (t *Traffic) owner(flow, workers int) int {
	switch {
	case flow < 2*t.Flows:
		return flow % t.Flows % workers
	case flow < 2*t.Flows+t.Groups:
		return t.sender(flow-2*t.Flows) % workers
	}
	return (flow - 2*t.Flows - t.Groups) % workers
}

// Frames are n frames from RoCE as the generator makes them, flow by flow in turn, for other generators.
func (t Traffic) Frames(n int) ([][]byte, error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("dut: %w", err)
	}
	flows, err := gen.NewFlows(t.flows())
	if err != nil {
		return nil, err
	}
	defer flows.Free()
	order := t.order(trial.RoCEToIB, t.Groups, t.Share)
	var out [][]byte
	for i := range n {
		out = append(out, flows.Frame(order[i%len(order)], 0))
	}
	return out, nil
}
