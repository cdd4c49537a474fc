// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"net/netip"
	"slices"
	"testing"

	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// secondMAC is the second port's.
var secondMAC = frame.MAC{2, 0, 0, 0, 1, 2}

// twoPorts is twoSegments, but the second is another port, untagged, too.
func twoPorts() *fixture {
	w := twoSegments()
	w.second.onVLAN(0)
	w.second.config.Port = 1
	w.config.MoreMACs = [][6]byte{secondMAC}
	w.config.More = []lcore.Segment{w.second.config.Segment}
	return w
}

// toSecond is to the second port.
func toSecond(p *roce.Packet) {
	if p.Dst == bridgeMAC {
		p.Dst = secondMAC
	}
}

// judgeBy is judge for frames that come by a port.
func (s *rig) judgeBy(port int, frames ...[]byte) judged {
	s.t.Helper()
	s.arriveBy(port, 0, frames...)
	return s.judge(nil)
}

func dropNamed(t *testing.T, name string) lcore.Drop {
	d, ok := lcore.DropNamed(name)
	if !ok {
		t.Fatalf("no drop %q", name)
	}
	return d
}

// TestTwoPorts sends the same packets by both ports, whose hosts have the same addresses on the same VLAN: each by its own
// proxy QP, to its own group, and each message to its own host by its own port.
func TestTwoPorts(t *testing.T) {
	w := twoPorts()
	s := newRig(t, w)
	first := s.judgeBy(0, v4(), v4(to(group4)), v6(), plain4(group4, plainPort, 5))
	second := s.judgeBy(1, v4(toSecond), v4(to(group4), toSecond), v6(toSecond), plain4(group4, plainPort, 5))
	for i, f := range []*fixture{w, w.second} {
		var qps []uint32
		j := []judged{first, second}[i]
		for _, m := range j.sent {
			qps = append(qps, m.QP)
		}
		host, host6, plain := f.proxyQP(hostIP, hostQPN).QP, f.proxyQP(hostIP6, hostQPN).QP, f.proxyQP(hostIP, tables.PlainQPN).QP
		if wanted := []uint32{host, host, host6, plain}; !slices.Equal(qps, wanted) || len(j.drops) != 0 {
			t.Fatalf("port %d: sent by %v, want %v, dropped %v", i, qps, wanted, j.drops)
		}
		want(t, "the group", j.sent[1].DGID, f.group(group4).MGID)
	}
	s.fromIB(received(), received(func(m *message) { m.QPN += inSecond }), received(toGroup(w.group(group4).MGID)), received(toGroup(w.second.group(group4).MGID)),
		received(func(m *message) { m.QPN += inSecond; m.Payload = pattern(99) }))
	var bytes [2]uint64
	for port, mac := range []frame.MAC{bridgeMAC, secondMAC} {
		got := s.sentBy(port, 0)
		want(t, "frames", len(got), 2+port)
		for i, f := range got {
			p, err := roce.Parse(f)
			if err != nil || p.Src != mac || p.Tag != nil || i == 2 && len(p.Payload) != 99 {
				t.Errorf("port %d: frame %d: %v, %+v", port, i, err, p)
			}
			bytes[port] += uint64(len(p.Payload))
		}
	}
	for i, c := range s.datapath.PortCounters() {
		want(t, "received by a port", c[lcore.RoCEToIB].Received, uint64(4))
		want(t, "sent for it", c[lcore.RoCEToIB].Sent, uint64(4))
		want(t, "sent by it", c[lcore.IBToRoCE].Sent, uint64(2+i))
		want(t, "bytes sent by it", c[lcore.IBToRoCE].SentBytes, bytes[i])
	}
}

// TestNothingCrossesPorts sends by each port what is only the other's.
func TestNothingCrossesPorts(t *testing.T) {
	w := twoPorts()
	s := newRig(t, w)
	s.datapath.AddSegment(2, &lcore.Segment{Port: 1, VLAN: secondVLAN, RoCEMTU: 4096, Versions: lcore.V2, TTL: 64})
	for _, c := range []struct {
		name  string
		port  int
		drop  string
		frame []byte
	}{
		{"to the other port's MAC address", 1, "l2_notus", v4()},
		{"the same to the first", 0, "l2_notus", v4(toSecond)},
		{"from the other port's MAC address", 1, "loop_self", v4(toSecond, func(p *roce.Packet) { p.Src = bridgeMAC })},
		{"from its own", 1, "loop_self", v4(toSecond, func(p *roce.Packet) { p.Src = secondMAC })},
		{"to a node of the other partition", 0, "wrong_partition", v4(dest(inSecondIP.String()))},
		{"the same by the second", 1, "wrong_partition", v4(toSecond, dest(inFirstIP.String()))},
		{"to a host of the other port", 0, "same_side", v4(dest(onlySecond.String()))},
		{"to a host of its own", 1, "same_side", v4(toSecond, dest(onlySecond.String()))},
		{"from a host that the other port has", 0, isPending, v4(from(onlySecond.String()))},
		{"from the same where it is", 1, "", v4(toSecond, from(onlySecond.String()))},
		{"on a VLAN that the other port has", 0, "vlan_unknown", v4(onSecond)},
		{"on that VLAN", 1, isPending, v4(toSecond, onSecond)},
		{"RoCEv1 where there is none", 1, "version_off", v1(toSecond)},
		{"the bridge's address of the other port", 0, isPending, v4(from("10.10.0.253"))},
		{"the bridge's address of its own", 1, "loop_self", v4(toSecond, from("10.10.0.253"))},
	} {
		j := s.judgeBy(c.port, c.frame)
		if c.drop == "" && len(j.sent) == 1 && len(j.drops) == 0 || c.drop != "" && j.drops[c.drop] == 1 && len(j.sent) == 0 {
			continue
		}
		t.Errorf("%s: %v, want %q", c.name, j, c.drop)
	}
}

// TestPortLosesItsSegment removes one of two segments, each an only one of its port: the other port's frames are not taken
// for the one that is left.
func TestPortLosesItsSegment(t *testing.T) {
	w := twoPorts()
	s := newRig(t, w)
	s.datapath.RemoveSegment(1)
	if j := s.judgeBy(1, v4(toSecond), v4(to(group4))); j.drops["vlan_unknown"] != 2 {
		t.Errorf("the port without a segment: %v", j)
	}
	if j := s.judgeBy(0, v4()); len(j.sent) != 1 {
		t.Errorf("the port with the other: %v", j)
	}
	s.datapath.AddSegment(1, &w.config.More[0])
	if j := s.judgeBy(1, v4(toSecond)); len(j.sent) != 1 {
		t.Errorf("the port that has one again: %v", j)
	}
}

// TestPortsPunted checks that management learns by which port a frame came, and chooses by which its own leave.
func TestPortsPunted(t *testing.T) {
	w := twoPorts()
	s := newRig(t, w)
	arp := frame.AppendARP(nil, frame.Link{MAC: hostMAC}, frame.Broadcast, frame.ARPFields{Op: frame.ARPRequest, SHA: hostMAC, SPA: hostIP, TPA: nodeIP})
	for port := range 2 {
		s.arriveBy(port, 0, arp, v4(fromNewcomer(newcomerIP), func(p *roce.Packet) { p.Dst = []frame.MAC{bridgeMAC, secondMAC}[port] }))
	}
	s.work()
	got := s.takePunted()
	want(t, "punted", len(got), 4)
	for i, f := range got {
		want(t, "by port", f.Port, uint8(i/2))
		if f.Pending != nil {
			want(t, "pending by port", f.Pending.Port(), uint8(i/2))
			if i == 1 {
				f.Pending.Requeue() // there is no proxy QP still
			} else {
				f.Pending.Drop(lcore.DropACL)
			}
		}
	}
	s.work()
	c := s.datapath.PortCounters()
	want(t, "dropped by management", c[1][lcore.RoCEToIB].Drops[lcore.DropACL], uint64(1))
	want(t, "requeued", c[0][lcore.RoCEToIB].Drops[dropNamed(t, "proxy_qp_unknown")], uint64(1))
	for _, port := range []uint8{1, 0, 1, 1} {
		if err := s.workers[0].Send(s.pool.Pointer(), port, arp); err != nil {
			t.Fatal(err)
		}
	}
	s.work()
	want(t, "sent by the first", len(s.sentBy(0, 0)), 1)
	want(t, "sent by the second", len(s.sentBy(1, 0)), 3)
}

// TestFloodedPort floods one port: the other has its burst in each turn, and what a full port does not take is that port's
// loss alone.
func TestFloodedPort(t *testing.T) {
	w := twoPorts()
	s := newRig(t, w)
	flood := make([][]byte, 512)
	for i := range flood {
		flood[i] = v4()
	}
	s.arriveBy(0, 0, flood...)
	s.arriveBy(1, 0, v4(toSecond))
	s.workers[0].Step()
	c := s.datapath.PortCounters()
	if got := c[1][lcore.RoCEToIB].Sent; got != 1 || c[0][lcore.RoCEToIB].Sent >= 512 {
		t.Errorf("after a turn: %d of the second, %d of the first", got, c[0][lcore.RoCEToIB].Sent)
	}
	s.work()
	s.toIB(0)
	for range rigRing / 256 { // one more than the ring holds, which holds one less than its size
		msgs := make([]message, 256)
		for i := range msgs {
			msgs[i] = received()
		}
		s.fromIB(msgs...)
	}
	s.fromIB(received(), received(func(m *message) { m.QPN += inSecond }), received())
	c = s.datapath.PortCounters()
	if full := c[0][lcore.IBToRoCE].Drops[dropNamed(t, "eth_full")]; full == 0 || c[1][lcore.IBToRoCE].Dropped() != 0 || c[1][lcore.IBToRoCE].Sent != 1 {
		t.Errorf("the first %+v, the second %+v", c[0][lcore.IBToRoCE], c[1][lcore.IBToRoCE])
	}
}

// TestPortsShareGroup has a group that segments of both ports share: each has its copy by its own port.
func TestPortsShareGroup(t *testing.T) {
	w := twoPorts()
	w.nodes = append(w.nodes, tables.Node{IP4: inSharedIP, GID: inShared, LID: 32, Partition: sharedPartition})
	s := newRig(t, w)
	if _, err := s.tables.Shared.Put(sharedGroup); err != nil {
		t.Fatal(err)
	}
	msgs := make([]message, 100)
	for i := range msgs {
		msgs[i] = received(fromNode(inShared, 32), toGroup(sharedGroup.MGID))
	}
	s.fromIB(msgs...)
	for port, mac := range []frame.MAC{bridgeMAC, secondMAC} {
		got := s.sentBy(port, 0)
		want(t, "copies", len(got), len(msgs))
		for _, b := range got {
			if f, fault := frame.Open(b); fault != "" || f.Tag != nil || f.Eth.Src() != mac || f.Dst() != sharedIP {
				t.Fatalf("port %d: %v, % x", port, fault, b)
			}
		}
	}
}

// TestPortsHandoff has the other worker own the proxy QPs of both ports.
func TestPortsHandoff(t *testing.T) {
	w := twoPorts()
	w.workers = 2
	for _, f := range []*fixture{w, w.second} {
		for i := range f.proxyQPs {
			f.proxyQPs[i].Worker = 1
		}
	}
	s := newRig(t, w)
	s.arriveBy(0, 0, v4(), v4())
	s.arriveBy(1, 0, v4(toSecond), v4(toSecond, func(p *roce.Packet) { p.Payload = pattern(4000); p.DstIP = netip.MustParseAddr("10.10.0.99") }))
	s.work()
	want(t, "sent by the owner", len(s.toIB(1)), 3)
	c := s.datapath.PortCounters()
	want(t, "of the first port", c[0][lcore.RoCEToIB].Sent, uint64(2))
	want(t, "of the second", c[1][lcore.RoCEToIB].Sent, uint64(1))
	want(t, "dropped of the second", c[1][lcore.RoCEToIB].Dropped(), uint64(1))
}

// TestHostWithOwnMAC configures a host by the bridge's own MAC address: frames of the bridge that come back are not its.
func TestHostWithOwnMAC(t *testing.T) {
	w := smallFixture()
	for i := range w.hosts {
		w.hosts[i].MAC = bridgeMAC
	}
	s := newRig(t, w)
	if j := s.judge([][]byte{v4(func(p *roce.Packet) { p.Src = bridgeMAC })}); j.drops["loop_self"] != 1 || len(j.sent) != 0 {
		t.Errorf("from the bridge's own MAC address: %v", j)
	}
}
