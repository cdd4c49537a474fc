// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/app/command/commandtest"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
	"causeway/tables"
)

var (
	hostIP  = netip.MustParseAddr("10.9.0.1")
	nodeIP  = netip.MustParseAddr("10.9.0.7")
	group   = netip.MustParseAddr("239.1.2.3")
	nodeGID = gid("fe80::7")
	ownGID  = gid("fe80::1")
	start   = time.Unix(1700000000, 0).UTC()
)

func gid(s string) ib.GID {
	g, err := ib.ParseGID(s)
	if err != nil {
		panic(err)
	}
	return g
}

// fakeTables have one host, one node and one group.
type fakeTables struct{}

func (fakeTables) ProxyQP(_ manage.Place, of tables.HostQP) (tables.ProxyQP, bool) {
	host, qpn := of.Host, of.HostQPN
	if qpn == tables.PlainQPN {
		return tables.ProxyQP{HostQP: tables.HostQP{Host: hostIP, HostQPN: qpn}, QPN: 0x701}, host == hostIP
	}
	return tables.ProxyQP{HostQP: tables.HostQP{Host: hostIP, HostQPN: 0x55}, QPN: 0x700, Worker: 1}, host == hostIP && qpn == 0x55
}

func (fakeTables) ProxyQPN(qpn ib.QPN) (tables.ProxyQP, bool) {
	return tables.ProxyQP{HostQP: tables.HostQP{Host: hostIP, HostQPN: 0x55}, QPN: 0x700}, qpn == 0x700
}

func (fakeTables) Host(_ manage.Place, ip netip.Addr) (tables.Host, bool) {
	return tables.Host{IP: hostIP, MAC: [6]byte{2, 0, 0, 0, 0, 1}}, ip == hostIP
}

func (fakeTables) Node(ip netip.Addr) (tables.Node, bool) {
	return tables.Node{IP4: nodeIP, GID: nodeGID, LID: 7, SL: 2}, ip == nodeIP
}

func (fakeTables) Source(g ib.GID, lid ib.LID) (tables.Node, bool, bool) {
	return tables.Node{IP4: nodeIP, GID: nodeGID}, g == ownGID, g == nodeGID || g.IsZero() && lid == 7
}

func (fakeTables) Group(_ manage.Place, addr tables.GroupAddr) (tables.Group, bool) {
	if addr == (tables.GroupAddr{IP: group, UDPPort: 4711}) {
		return tables.Group{IP: group, UDPPort: 4711, MGID: gid("ff12::2"), QKey: 5, ToIB: true, MTUToIB: 2048}, true
	}
	g := tables.Group{IP: group, MGID: gid("ff12::1"), QKey: 5, RoCEQKey: ib.QKeyRDMAUDP, ToIB: true, MTUToIB: 2048}
	return g, addr == tables.GroupAddr{IP: group}
}

func (fakeTables) MGID(g ib.GID) (tables.Group, bool) {
	return tables.Group{IP: group, RoCEQKey: ib.QKeyRDMAUDP, ToIB: true, MTUToRoCE: 1024}, g == gid("ff12::1")
}

func udp(change ...func(*roce.Packet)) []byte {
	p := roce.Packet{
		Version: 2, Dst: frame.MAC{2, 0, 0, 0, 0, 2}, Src: frame.MAC{2, 0, 0, 0, 0, 1}, SrcIP: hostIP, DstIP: nodeIP, TClass: 0x60, HopLimit: 64,
		SrcPort: 0xc123, PKey: ib.PKeyDefault, DestQP: 0x77, QKey: ib.QKeyRDMAUDP, SrcQP: 0x55, PSN: 9, Payload: []byte("Hello"),
	}
	for _, f := range change {
		f(&p)
	}
	return p.AppendTo(nil)
}

// plain is a datagram to the group of plain UDP.
func plain(port uint16) []byte {
	return frame.AppendUDP(nil, frame.Link{MAC: frame.MAC{2, 0, 0, 0, 0, 1}}, frame.GroupMAC(group), frame.Datagram{
		Src: netip.AddrPortFrom(hostIP, 40000), Dst: netip.AddrPortFrom(group, port), TTL: 1, Checksum: true}, []byte("twenty bytes of data"))
}

func to(dst netip.Addr) func(*roce.Packet) {
	return func(p *roce.Packet) {
		p.DstIP, p.DestQP, p.Dst = dst, ib.QPMulticast, frame.GroupMAC(dst)
	}
}

func frameAt(p lcore.Point, data []byte) lcore.MirroredPacket {
	return lcore.MirroredPacket{Packet: 1, Time: start, Point: p, Side: lcore.RoCESide, Len: len(data), Data: data}
}

func died(name string, s lcore.MirroredPacket) []lcore.MirroredPacket {
	d, ok := lcore.DropNamed(name)
	if !ok {
		panic(name)
	}
	s.Point, s.Drop = lcore.Dropped, d
	return []lcore.MirroredPacket{s}
}

func messageAt(p lcore.Point, sgid, dgid ib.GID, qpn ib.QPN) lcore.MirroredPacket {
	return lcore.MirroredPacket{Packet: 2, Time: start, Direction: lcore.IBToRoCE, Point: p, Side: lcore.IBSide, Len: 200, Data: make([]byte, 200), IB: &lcore.MirroredIB{
		Known: true, QPN: qpn, Peer: 0x77, SGID: sgid, DGID: dgid, SLID: 7, GRH: !sgid.IsZero(), HopLimit: 3, Area: make([]byte, 40),
	}}
}

func sent() []lcore.MirroredPacket {
	out := frameAt(lcore.Sent, []byte("Hello"))
	out.Side, out.Worker, out.Time = lcore.IBSide, 1, start.Add(5*time.Microsecond)
	out.IB = &lcore.MirroredIB{Known: true, QPN: 0x700, Peer: 0x77, DGID: nodeGID, SGID: ownGID, DLID: 7, SL: 2, QKey: ib.QKeyRDMAUDP}
	return []lcore.MirroredPacket{frameAt(lcore.Received, udp()), frameAt(lcore.Handoffs, udp()), out}
}

func TestExplain(t *testing.T) {
	back := messageAt(lcore.Received, nodeGID, ownGID, 0x700)
	gone := frameAt(lcore.Sent, udp(func(p *roce.Packet) { p.SrcIP, p.DstIP = nodeIP, hostIP }))
	gone.Direction = lcore.IBToRoCE
	for _, c := range []struct {
		name    string
		mirrors []lcore.MirroredPacket
		want    []string // in the text, in this order
	}{
		{"sent", sent(), []string{"roce_to_ib: sent", "10.9.0.1 to 10.9.0.7", "DSCP 24", "TTL 64", "UD send", "P_Key 0xffff", "QP 0x55 to 0x77",
			"Q_Key 0x01234567", "payload 5 bytes", "ICRC correct", "host 10.9.0.1", "proxy QP 0x700 at worker 1", "node 10.9.0.7", "GID fe80::7", "LID 0x0007",
			"handoff at worker 0", "sent at worker 1 +5µs", "proxy QP 0x700", "from GID fe80::1", "to QP 0x77", "LID 0x0007", "SL 2"}},
		{"back", []lcore.MirroredPacket{back, gone}, []string{"ib_to_roce: sent", "from LID 0x0007", "GID fe80::7 to fe80::1", "QP 0x77 to 0x700", "node GID fe80::7", "IP 10.9.0.7",
			"proxy QP 0x700", "host 10.9.0.1", "QP 0x55", "10.9.0.7 to 10.9.0.1", "ICRC correct"}},
		{"no GRH", []lcore.MirroredPacket{messageAt(lcore.Received, ib.GID{}, ib.GID{}, 0x700)}, []string{"in progress", "GRH none", "node LID 0x0007"}},
		{"wrong ICRC", died("icrc", frameAt(0, flip(udp()))), []string{"DROPPED icrc", "ICRC wrong", "the ICRC is wrong", "expected 0x", "NAT"}},
		{"RC", died("bth_opcode", frameAt(0, udp(func(p *roce.Packet) { p.OpCode = 4 }))), []string{"DROPPED bth_opcode", "P_Key 0xffff", "to QP 0x77"}},
		{"plain UDP", []lcore.MirroredPacket{frameAt(lcore.Received, plain(4711))}, []string{"10.9.0.1 to 239.1.2.3", "TTL 1", "UDP 40000 to 4711",
			"UDP checksum correct", "payload 20 bytes", "host 10.9.0.1", "proxy QP 0x701", "group 239.1.2.3:4711", "MGID ff12::2", "UDP port 4711"}},
		{"plain UDP, damaged", died("udp_csum", frameAt(0, flip(plain(4711)))), []string{"DROPPED udp_csum", "UDP checksum wrong"}},
		{"UDP to another port", died("not_roce", frameAt(0, plain(4712))), []string{"DROPPED not_roce", "UDP 40000 to 4712", "ethernet = \"udp:PORT\""}},
		{"a stranger", died("acl", frameAt(0, udp(func(p *roce.Packet) { p.SrcIP = netip.MustParseAddr("10.99.0.1") }))),
			[]string{"DROPPED acl", "host 10.99.0.1 is not known", "no proxy QP for 10.99.0.1, QP 0x55", "not in the allowed subnets", "[policy] allow"}},
		{"no node", died("node_unknown", frameAt(0, udp(func(p *roce.Packet) { p.DstIP = netip.MustParseAddr("10.9.0.99") }))),
			[]string{"no InfiniBand node with address 10.9.0.99", "[[host]]"}},
		{"another Q_Key", died("qkey", frameAt(0, udp(to(group), func(p *roce.Packet) { p.QKey = 1 }))),
			[]string{"group 239.1.2.3", "MGID ff12::1", "the packet has 0x00000001, expected 0x01234567"}},
		{"RoCEv1 group", []lcore.MirroredPacket{frameAt(lcore.Received, udp(to(group), v1))}, []string{"RoCE version 1", "fe80::1 to 239.1.2.3", "ICRC correct", "MGID ff12::1"}},
		{"no group", died("mc_unknown", frameAt(0, udp(to(netip.MustParseAddr("239.9.9.9"))))), []string{"group 239.9.9.9 is not bridged", "check", "[[group]]"}},
		{"closed group", died("mc_direction", messageAt(0, nodeGID, gid("ff12::1"), 0x900)), []string{"group ff12::1", "open roce_to_ib", "goes ib_to_roce"}},
		{"nobody's QP", died("proxy_qp_unknown", messageAt(0, nodeGID, ownGID, 0x999)), []string{"QP 0x999 is not a proxy QP", "proxy_qp_idle"}},
		{"unknown node", died("node_unknown", messageAt(0, gid("fe80::99"), ownGID, 0x700)), []string{"no InfiniBand node with GID fe80::99"}},
		{"its own", died("loop_self", messageAt(0, ownGID, gid("ff12::1"), 0x700)), []string{"the bridge itself GID fe80::1"}},
		{"a service", served(), []string{"handed to management, mad_served"}},
		{"six bytes", died("l2_short", frameAt(0, []byte("abcdef"))), []string{"DROPPED l2_short", "length 6 bytes"}},
		{"ARP", []lcore.MirroredPacket{frameAt(lcore.Received, arp()), frameAt(lcore.ToManagement, arp())}, []string{"handed to management", "ARP 10.9.0.1 of 10.9.0.7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := explain(c.mirrors, fakeTables{})
			text := strings.Join(e.Lines(), "\n")
			rest := strings.Join(strings.Fields(text), " ")
			for _, w := range c.want {
				i := strings.Index(rest, w)
				if i < 0 {
					t.Fatalf("%q is not there, or not behind what comes before it:\n%s", w, text)
				}
				rest = rest[i:]
			}
			checkJSON(t, &e)
		})
	}
}

func served() []lcore.MirroredPacket {
	s := died("mad_served", frameAt(0, udp()))
	s[0].Point = lcore.ToManagement
	return s
}

func arp() []byte {
	return frame.AppendARPRequest(nil, frame.Link{MAC: frame.MAC{2, 0, 0, 0, 0, 1}}, hostIP, nodeIP)
}

func v1(p *roce.Packet) {
	p.Version, p.SrcIP, p.DstIP = 1, netip.MustParseAddr("fe80::1"), ib.MGIDRoCEv1(group).Addr()
	p.Dst = ib.MulticastMAC(ib.MGIDRoCEv1(group))
}

func flip(f []byte) []byte {
	f[len(f)-6] ^= 1
	return f
}

func checkJSON(t *testing.T, e *Explanation) {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Outcome  string
		Received map[string]any
		Drop     string
	}
	if err := json.Unmarshal(b, &back); err != nil || back.Outcome != e.Outcome || back.Drop != e.Drop || back.Received["port"] == "" {
		t.Errorf("%v: %s", err, b)
	}
	if found, err := commandtest.Prose(b); err != nil || len(found) > 0 {
		t.Errorf("%q are no numbers, %v: %s", found, err, b)
	}
}

func TestAdvice(t *testing.T) {
	for _, d := range lcore.Drops() {
		if advice[d.String()] == "" {
			t.Errorf("no advice for %v: %s", d, d.Sentence())
		}
	}
	for name := range advice {
		if _, ok := lcore.DropNamed(name); !ok {
			t.Errorf("advice for %s, which is no reason", name)
		}
	}
}

// A frame may end anywhere and contain any bytes: Explain must not panic.
func FuzzExplain(f *testing.F) {
	for _, b := range [][]byte{udp(), udp(v1), arp(), nil} {
		f.Add(b, 0)
		f.Add(b, 7)
	}
	f.Fuzz(func(_ *testing.T, data []byte, longer int) {
		s := frameAt(lcore.Received, data)
		s.Len += max(longer, 0)
		e := explain([]lcore.MirroredPacket{s}, fakeTables{})
		e.Lines()
	})
}

// A packet that is cut off anywhere is explained without a panic.
func TestCutAnywhere(t *testing.T) {
	for _, whole := range [][]byte{udp(), udp(v1), arp(), udp(func(p *roce.Packet) { p.HasImm = true }), udp(func(p *roce.Packet) {
		p.SrcIP, p.DstIP = netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2")
	})} {
		for n := range whole {
			e := explain([]lcore.MirroredPacket{frameAt(lcore.Received, slices.Clone(whole[:n]))}, fakeTables{})
			if e.Received.Get("ICRC") == "correct" {
				t.Errorf("%d of %d bytes have a right ICRC", n, len(whole))
			}
		}
	}
}

// script shows the same mirrored packets once, with the filter that it was given.
type script struct {
	mirrors []lcore.MirroredPacket
	filter  *lcore.Filter
}

func (s script) Mirror(ctx context.Context, f lcore.Filter, _ int, see func(lcore.MirroredPacket) bool) (uint64, error) {
	*s.filter = f
	for _, x := range s.mirrors {
		if !see(x) {
			return 0, nil
		}
	}
	<-ctx.Done()
	return 3, nil
}

func TestFollow(t *testing.T) {
	all := sent()
	other := frameAt(lcore.Received, udp())
	other.Packet = 9
	all = slices.Insert(all, 1, other) // a second packet between, whose last stage is not seen
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	var f lcore.Filter
	var told []Explanation
	tell := func(e Explanation) bool { told = append(told, e); return true }
	missed, err := Follow(ctx, script{all, &f}, fakeTables{}, lcore.Filter{Side: lcore.RoCESide}, tell)
	if err != nil || missed != 3 || len(told) != 2 || told[0].Outcome != Sent || len(told[0].Steps) != 3 || told[1].Outcome != InProgress || told[1].Packet != 9 {
		t.Errorf("%v, missed %d: %+v", err, missed, told)
	}
	if f.Side != lcore.AnySide || f.Direction != lcore.OnlyRoCEToIB {
		t.Errorf("it mirrors %v", f)
	}
	told = nil
	once := func(e Explanation) bool { told = append(told, e); return false }
	if _, err := Follow(t.Context(), script{died("icrc", all[0]), &f}, fakeTables{}, lcore.Filter{AnyDrop: true}, once); err != nil || len(told) != 1 || told[0].Drop != "icrc" {
		t.Errorf("%v: %+v", err, told)
	}
}

// The packets that are followed are bounded in number and in time.
func TestFollowBounds(t *testing.T) {
	o := &open{packets: map[uint64][]lcore.MirroredPacket{}}
	ended := 0
	for i := range 3 * openMost {
		s := frameAt(lcore.Received, nil)
		s.Packet = uint64(i)
		ended += len(o.take(s))
	}
	if len(o.packets) > openMost || ended != 3*openMost-len(o.packets) || len(o.order) > openMost {
		t.Errorf("%d open, %d ended", len(o.packets), ended)
	}
	late := frameAt(lcore.Received, nil)
	late.Packet, late.Time = 1<<40, start.Add(openTimeout)
	if got := len(o.take(late)); got != openMost {
		t.Errorf("%d were given up", got)
	}
	if !bytes.Equal(late.Data, nil) || len(o.all()) != 1 {
		t.Error("the late one is not there")
	}
}
