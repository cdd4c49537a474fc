// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"net/netip"
	"slices"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// Two segments, the first untagged: hosts of the same addresses, each in a partition of its own.
const (
	firstPartition  = uint8(0)
	secondPartition = uint8(3)
	secondVLAN      = uint16(200)

	inSecond = 50 // more are the numbers of its proxy QPs
)

// Nodes that are in one partition, and nodeGID's, which is in both.
var (
	inFirstIP  = netip.MustParseAddr("10.10.0.30")
	inSecondIP = netip.MustParseAddr("10.10.0.31")

	inFirstGID  = mustGID("fe80::2:c903:0:30")
	inSecondGID = mustGID("fe80::2:c903:0:31")
	onlySecond  = netip.MustParseAddr("10.10.0.40") // a host
)

// twoSegments is the fixture of the first; the second's is in it.
func twoSegments() *fixture {
	w, o := smallFixture(), smallFixture()
	for i := range w.nodes {
		w.nodes[i].Partition = tables.PartitionHeard
	}
	w.nodes = append(w.nodes,
		tables.Node{IP4: inFirstIP, GID: inFirstGID, LID: 30, Partition: firstPartition},
		tables.Node{IP4: inSecondIP, GID: inSecondGID, LID: 31, Partition: secondPartition})
	o.nodes = w.nodes
	w.config.Bound, w.config.Partition = true, firstPartition
	o.onVLAN(secondVLAN)
	o.config.Bound, o.config.Partition = true, secondPartition
	o.config.TTL, o.config.RoCEMTU, o.config.Versions = 33, 2048, lcore.V2
	o.config.Addresses = []netip.Prefix{netip.MustParsePrefix("10.10.0.253/24"), netip.MustParsePrefix("2001:db8::fd/64")}
	o.addHost(onlySecond, lcore.V2)
	for i := range o.proxyQPs {
		x := &o.proxyQPs[i]
		x.QP, x.QPN, x.QKey, x.Partition = x.QP+inSecond, x.QPN+inSecond, x.QKey+1, secondPartition
	}
	for i := range o.groups {
		g := &o.groups[i]
		g.MGID[15], g.MLID, g.QKey, g.Partition = g.MGID[15]^0x80, g.MLID+100, g.QKey+1, secondPartition
	}
	w.second, w.config.More = o, []lcore.Segment{o.config.Segment}
	return w
}

// segments is the reference of a bridge with two segments: two bridges, each with one, that share the nodes.
type segments [2]*reference

func newSegments(w *fixture) segments {
	s := segments{newReference(w), newReference(w.second)}
	s[1].psn = s[0].psn
	for i, own := range w.config.AllowIn {
		s[i].alone = own
	}
	s[1].second = &fixture{hosts: w.hosts} // for isRoCE
	return s
}

// of returns the segment of a frame; if it is of none, the first, which drops it.
func (s segments) of(f []byte) *reference {
	if len(f) >= frame.EthernetLen+frame.VLANLen && f[atEthType] == 0x81 && f[atEthType+1] == 0 && uint16(f[14]&15)<<8|uint16(f[15]) == secondVLAN {
		return s[1]
	}
	return s[0]
}

func (s segments) judge(frames [][]byte) judged {
	all := judged{drops: map[string]uint64{}}
	for _, f := range frames {
		j := s.of(f).judge([][]byte{f})
		for d, n := range j.drops {
			all.drops[d] += n
		}
		all.sent = append(all.sent, j.sent...)
	}
	return all
}

// fromIB takes a message to the segment whose proxy QP or group it names.
func (s segments) fromIB(m *message) ([]byte, string) {
	if _, mgid, _ := s[1].origin(m, &roce.Packet{}); s[1].byMGID[mgid] != nil {
		return s[1].fromIB(m)
	} else if x, _ := s[1].behind(m.QPN); x != nil && mgid.IsZero() {
		return s[1].fromIB(m)
	}
	return s[0].fromIB(m)
}

// TestDifferentialSegments compares a bridge of two segments with two bridges of one.
func TestDifferentialSegments(t *testing.T) {
	packets, seed := drawn(t)
	w := twoSegments()
	few := w.config.Allow[1:] // without the IPv4 subnet
	w.config.Allow, w.second.config.Allow = few, few
	w.config.AllowIn = [][]netip.Prefix{{netip.MustParsePrefix("10.10.0.0/28")}, {netip.MustParsePrefix("10.10.0.0/29"), netip.MustParsePrefix("10.10.0.128/25")}}
	s, r := newRig(t, w), newSegments(w)
	g := [2]*generator{newGenerator(w, seed, 90), newGenerator(w.second, seed, 91)}
	for i := range g {
		g[i].nodes = append(g[i].nodes, inFirstIP, inSecondIP, hostIP, onlySecond)
		g[i].sgids = append(g[i].sgids, inFirstGID, inSecondGID)
	}
	frames := make([][]byte, differentialBatch)
	for range packets / 4 / differentialBatch {
		for i := range frames {
			frames[i] = g[g[0].IntN(2)].frame()
		}
		compare(t, s, r, frames)
		compareFromIB(t, s, r, func() message { return g[g[0].IntN(2)].message() })
		if t.Failed() {
			return
		}
	}
	for d, least := range map[lcore.Direction][]string{
		lcore.RoCEToIB: {"wrong_partition", "same_side", "vlan_unknown"}, lcore.IBToRoCE: {"wrong_partition"},
	} {
		c := s.counters(d)
		t.Logf("%v: %d packets: %d sent, drops %v", d, c.Received, c.Sent, c.Drops)
		for _, name := range least {
			if x, _ := lcore.DropNamed(name); c.Drops[x] == 0 {
				t.Errorf("%v: no packet was dropped by %s", d, name)
			}
		}
		if c.Sent < c.Received/20 {
			t.Errorf("%v: only %d of %d packets were good", d, c.Sent, c.Received)
		}
	}
}

// onSecond is on the second segment.
func onSecond(p *roce.Packet) { p.Tag = &frame.VLANFields{VID: secondVLAN} }

// TestSameAddressInTwoSegments sends the same packets from hosts of the same address: each by its own proxy QP, to its
// own group, and each message to its own host.
func TestSameAddressInTwoSegments(t *testing.T) {
	w := twoSegments()
	s := newRig(t, w)
	s.fromRoCE(v4(), v4(onSecond), v4(to(group4)), v4(to(group4), onSecond), v6(), v6(onSecond), onVLAN(plain4(group4, plainPort, 5)), plain4(group4, plainPort, 5))
	sent := s.toIB(0)
	first, second := w.proxyQP(hostIP, hostQPN).QP, w.second.proxyQP(hostIP, hostQPN).QP
	first6, plain := w.proxyQP(hostIP6, hostQPN).QP, w.proxyQP(hostIP, tables.PlainQPN).QP
	var qps []uint32
	for _, m := range sent {
		qps = append(qps, m.QP)
	}
	if wanted := []uint32{first, second, first, second, first6, first6 + inSecond, plain + inSecond, plain}; !slices.Equal(qps, wanted) {
		t.Errorf("sent by %v, want %v", qps, wanted)
	}
	want(t, "the first's group", sent[2].DGID, w.group(group4).MGID)
	want(t, "the second's group", sent[3].DGID, w.second.group(group4).MGID)

	s.fromIB(received(), received(func(m *message) { m.QPN += inSecond }), received(toGroup(w.group(group4).MGID)), received(toGroup(w.second.group(group4).MGID)))
	got := s.toRoCE(0)
	want(t, "frames", len(got), 4)
	for i, f := range got {
		want(t, "tagged", f[atEthType] == 0x81, i%2 == 1)
	}
}

// onVLAN puts a frame on the second segment.
func onVLAN(f []byte) []byte { return tagged(f, 0x81, 0, byte(secondVLAN>>8), byte(secondVLAN&0xff)) }

// TestNothingCrossesPartitions sends what must not cross from each side, as forged as it can be.
func TestNothingCrossesPartitions(t *testing.T) {
	w := twoSegments()
	s := newRig(t, w)
	first, second := w, w.second
	toHost := func(x *fixture, host netip.Addr) func(*message) {
		return func(m *message) { m.QPN = x.proxyQP(host, hostQPN).QPN }
	}
	for _, c := range []struct {
		name  string
		drop  string
		frame []byte
	}{
		{"to a node of the other partition", "wrong_partition", v4(dest(inSecondIP.String()))},
		{"the same from the second", "wrong_partition", v4(onSecond, dest(inFirstIP.String()))},
		{"to a host of the other segment", "same_side", v4(dest(onlySecond.String()))},
		{"to a host of its own segment", "same_side", v4(onSecond, dest(onlySecond.String()), from(hostIP.String()))},
		{"from a node's address of the other partition, which is a host's here", isPending, v4(from(inSecondIP.String()))},
		{"from a node's address of its own", "loop_bridge", v4(from(inFirstIP.String()))},
		{"from a host that the other segment has", isPending, v4(from(onlySecond.String()))},
		{"on a VLAN of nobody", "vlan_unknown", v4(func(p *roce.Packet) { p.Tag = &frame.VLANFields{VID: 201} })},
		{"with two tags", "vlan_double", tagged(onVLAN(v4()), 0x81, 0, 0, 0)},
		{"RoCEv1 where there is none", "version_off", v1(onSecond)},
		{"by a priority tag", "", v4(func(p *roce.Packet) { p.Tag = &frame.VLANFields{PCP: 7} })},
		{"the address that is the bridge's in the other", isPending, v4(from("10.10.0.253"))},
		{"the bridge's address there", "loop_self", v4(onSecond, from("10.10.0.253"))},
	} {
		if c.frame != nil {
			j := s.judge([][]byte{c.frame})
			if c.drop == "" && len(j.sent) == 1 && len(j.drops) == 0 || c.drop != "" && j.drops[c.drop] == 1 && len(j.sent) == 0 {
				continue
			}
			t.Errorf("%s: %v, want %q", c.name, j, c.drop)
		}
	}
	for _, c := range []struct {
		name string
		drop string
		msg  message
	}{
		{"to a host of the other partition", "wrong_partition", received(fromNode(inFirstGID, 30), toHost(second, hostIP))},
		{"the same to the first", "wrong_partition", received(fromNode(inSecondGID, 31), toHost(first, hostIP))},
		{"without a GRH", "wrong_partition", received(noGRH, func(m *message) { m.SLID = 31 }, toHost(first, hostIP))},
		{"to a group of the other partition", "wrong_partition", received(fromNode(inFirstGID, 30), toGroup(second.group(group4).MGID))},
		{"to a group of plain UDP", "wrong_partition", received(fromNode(inFirstGID, 30), toGroup(second.groupAt(tables.GroupAddr{IP: group4, UDPPort: plainPort}).MGID))},
		{"more than the second's MTU", "mtu_exceeded", received(toHost(second, hostIP), func(m *message) { m.Payload = pattern(2049) })},
		{"as much to the first", "", received(func(m *message) { m.Payload = pattern(2049) })},
		{"in its partition", "", received(fromNode(inSecondGID, 31), toHost(second, onlySecond))},
	} {
		before := s.counters(lcore.IBToRoCE)
		s.fromIB(c.msg)
		checkVerdict(t, s, lcore.IBToRoCE, before, c.drop)
		if got := s.toRoCE(0); t.Failed() {
			t.Fatalf("%s: %d frames", c.name, len(got))
		}
	}
}

// TestPolicyOfSegment checks that a source that one segment allows may send from there alone, and that all count against
// the limit.
func TestPolicyOfSegment(t *testing.T) {
	w := twoSegments()
	in := func(ips ...string) (list []netip.Prefix) {
		for _, ip := range ips {
			list = append(list, netip.MustParsePrefix(ip+"/32"))
		}
		return list
	}
	w.config.Policy = lcore.Policy{Allow: in("10.10.0.90"), AllowIn: [][]netip.Prefix{in("10.10.0.91"), in("10.10.0.92", "10.10.0.93")}}
	s := newRig(t, w)
	for _, c := range []struct {
		ip            string
		first, second string
	}{
		{"10.10.0.90", isPending, isPending}, {"10.10.0.91", isPending, "acl"}, {"10.10.0.92", "acl", isPending}, {"10.10.0.93", "acl", isPending},
		{"10.10.0.94", "acl", "acl"},
	} {
		for i, f := range [][]byte{v4(from(c.ip)), v4(from(c.ip), onSecond)} {
			if j, drop := s.judge([][]byte{f}), []string{c.first, c.second}[i]; j.drops[drop] != 1 || len(j.sent) != 0 {
				t.Errorf("%s in segment %d: %v, want %s", c.ip, i, j, drop)
			}
		}
	}
	many := lcore.Policy{Allow: make([]netip.Prefix, 60), AllowIn: [][]netip.Prefix{make([]netip.Prefix, 2), make([]netip.Prefix, 3)}}
	if err := s.datapath.SetPolicy(many); err == nil {
		t.Error("65 prefixes are taken")
	}
	if err := s.datapath.SetPolicy(lcore.Policy{AllowIn: make([][]netip.Prefix, 9)}); err == nil {
		t.Error("nine segments are taken")
	}
}

// TestGroupInAnotherPartition has an entry that management must not write: the workers do not send by it either.
func TestGroupInAnotherPartition(t *testing.T) {
	w := twoSegments()
	w.group(group4).Partition = secondPartition
	s := newRig(t, w)
	j := s.judge([][]byte{v4(to(group4)), v4(to(group4), onSecond)})
	if len(j.sent) != 1 || j.drops["wrong_partition"] != 1 {
		t.Errorf("%v", j)
	}
}

// TestFloodedSegment has one segment fill the punt ring as far as it can, with as many hosts as it likes: the other still
// has room.
func TestFloodedSegment(t *testing.T) {
	w := twoSegments()
	s := newRig(t, w)
	s.ignorePunts = true
	for i := range 40 {
		burst := make([][]byte, 0, 256)
		for j := range 128 {
			forged := netip.AddrFrom4([4]byte{10, 10, 0, byte(50 + j)})
			mac := frame.MAC{2, 1, 0, 0, byte(i), byte(j)}
			burst = append(burst, v4(from(forged.String()), func(p *roce.Packet) { p.SrcQP = ib.QPN(0x1000 + i) }),
				frame.AppendARP(nil, frame.Link{MAC: mac}, frame.Broadcast, frame.ARPFields{Op: frame.ARPRequest, SHA: mac, SPA: forged, TPA: nodeIP}))
		}
		s.fromRoCE(burst...)
	}
	before := s.counters(lcore.RoCEToIB)
	if full := before.Drops[lcore.DropPuntFull]; full == 0 {
		t.Fatal("the ring is not full: this tests nothing")
	}
	s.fromRoCE(v4(onSecond, fromNewcomer(newcomerIP)))
	if full := s.counters(lcore.RoCEToIB).Drops[lcore.DropPuntFull] - before.Drops[lcore.DropPuntFull]; full != 0 {
		t.Error("the other segment has no room on the punt ring")
	}
	s.ignorePunts = false
	s.work()
}
