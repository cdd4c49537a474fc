// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/ibside/multipath"
	"causeway/lcore"
	"causeway/tables"
)

// Bridges with two InfiniBand ports, each of a fabric of its own, and which port carries what.
var fabricsFixtures = []struct {
	name   string
	change func(*fixture)
}{
	{"the first port is preferred", func(w *fixture) { w.fabrics.prefer = "a" }},
	{"the second port is preferred", func(w *fixture) { w.fabrics.prefer = "b" }},
	{"the first port is down", func(w *fixture) { w.fabrics.down = "a"; w.onVLAN(100) }},
	{"unknown sources bridged", func(w *fixture) { w.fabrics.prefer, w.config.BridgeUnknown = "b", true }},
}

// twoFabrics is smallFixture on two fabrics.
func twoFabrics() *fixture { return smallFixture().with(onTwoFabrics) }

// onTwoFabrics adds a second InfiniBand port, and a node that each reaches alone.
func onTwoFabrics(w *fixture) {
	w.fabrics = &fabrics{}
	w.own = tables.Own{GIDs: slices.Concat(memberGIDs[0], memberGIDs[1])}
	w.nodes = append(w.nodes,
		tables.Node{IP4: netip.MustParseAddr("10.10.0.20"), IP6: netip.MustParseAddr("2001:db8::20"), GID: onlyOnAGID, LID: 20, SL: 1},
		tables.Node{IP4: netip.MustParseAddr("10.10.0.21"), IP6: netip.MustParseAddr("2001:db8::21"), GID: onlyOnBGID})
}

// fabricsRig is a rig with two InfiniBand ports.
type fabricsRig struct{ *rig }

// judge returns all that the first port got, and then all that the second did. What no port reaches is a drop here.
func (s fabricsRig) judge(frames [][]byte) judged {
	before, _ := s.fabrics.port.Lost()
	j := s.rig.judge(frames)
	sent := make([]fabricport.Sent, rigRing)
	for _, m := range sent[:s.fabrics.members[1].Take(0, sent)] {
		p := postedOf(m)
		p.port = 1
		j.sent = append(j.sent, p)
	}
	after, _ := s.fabrics.port.Lost()
	for why, n := range after {
		if n -= before[why]; n > 0 {
			j.drops[why] += n
		}
	}
	return j
}

// TestDifferentialFabrics compares a bridge with two InfiniBand ports, which ibside/multipath joins, with the model:
// messages come by both ports at once, some of them as copies of what the other has brought.
func TestDifferentialFabrics(t *testing.T) {
	packets, seed := drawn(t)
	n := packets / 4 / len(fabricsFixtures)
	total, lost := map[string]uint64{}, uint64(0)
	for i, x := range fabricsFixtures {
		t.Run(x.name, func(t *testing.T) {
			w := twoFabrics().with(x.change)
			s := newRig(t, w)
			m, g := newFabricsModel(w), newGenerator(w, seed, uint64(100+i))
			draw := newArrivals(g, m)
			frames := make([][]byte, differentialBatch)
			for range n / differentialBatch {
				for i := range frames {
					frames[i] = g.frame()
				}
				compare(t, fabricsRig{s}, m, frames)
				compareFromFabrics(t, s, m, draw.next)
				if t.Failed() {
					return
				}
			}
			checkFabrics(t, s, m)
			for d, n := range s.counters(lcore.IBToRoCE).Drops {
				total[d.String()] += n
			}
			sends, _ := s.fabrics.port.Lost()
			lost += sends[multipath.LostNoWay]
		})
	}
	if t.Failed() || n < 25_000 {
		return
	}
	for _, name := range []string{
		"standby_port", "duplicate", "srcqp", "grh_class", "loop_self", "loop_bridge", "mc_direction", "proxy_qp_unknown",
		"mc_unknown", "mtu_exceeded", "node_unknown", "node_no_ip",
	} {
		if total[name] == 0 {
			t.Errorf("no message was dropped by %s", name)
		}
	}
	if lost == 0 {
		t.Error("no packet was for what no port reaches")
	}
}

// checkFabrics asserts that all is accounted for: by the workers, and by each port.
func checkFabrics(t *testing.T, s *rig, m *fabricsModel) {
	t.Helper()
	c := s.counters(lcore.IBToRoCE)
	t.Logf("%d messages: %d sent, drops %v", c.Received, c.Sent, c.Drops)
	if c.Received != m.received[0]+m.received[1] || !c.Conserved() {
		t.Errorf("%v messages came; the workers received %d, sent %d and dropped %d", m.received, c.Received, c.Sent, c.Dropped())
	}
	if c.Sent < c.Received/20 {
		t.Errorf("only %d of %d messages were good: the generator is too destructive", c.Sent, c.Received)
	}
	for i, r := range s.fabrics.port.Reports() {
		p := r.Counters
		if p.Received != m.received[i] || p.Standby != m.marks[i]["standby_port"] || p.Duplicate != m.marks[i]["duplicate"] {
			t.Errorf("port %d: %+v, but %d messages came, of which these were to be dropped: %v", i, p, m.received[i], m.marks[i])
		}
		if p.Posted != p.Sent+p.Full || p.Full != 0 || p.Posted == 0 {
			t.Errorf("port %d posted %d, sent %d, and lost %d", i, p.Posted, p.Sent, p.Full)
		}
	}
}

// arrivals draws messages of both fabrics.
type arrivals struct {
	*generator
	m      *fabricsModel
	recent []message // with the datapath's addresses
}

func newArrivals(g *generator, m *fabricsModel) *arrivals {
	g.sgids = append(g.sgids, memberGIDs[1]...)
	return &arrivals{generator: g, m: m}
}

// next draws a message, or one of the last ones again. It mostly has the addresses of the fabric that it comes by.
func (a *arrivals) next() arrival {
	var x message
	if len(a.recent) == 64 && a.rarely(3) {
		x = one(a.generator, a.recent...)
	} else {
		x = a.message()
		a.recent = append(a.recent, x)
		a.recent = a.recent[max(0, len(a.recent)-64):]
	}
	return a.by(a.IntN(2), x)
}

// by gives a message the addresses of a port.
func (a *arrivals) by(port int, x message) arrival {
	if i := slices.Index(a.m.members[0].qpns, x.QPN); i >= 0 && !a.rarely(20) {
		x.QPN = a.m.members[port].qpns[i]
	}
	if !x.HasGRH {
		if port == 1 && a.rarely(2) {
			x.SLID = one[ib.LID](a.generator, 16, 17, 18)
		}
		return arrival{x, port}
	}
	for _, at := range []int{8, 24} {
		if !a.rarely(20) {
			a.m.readdress(port, x.GRH[at:at+16])
		}
	}
	return arrival{x, port}
}

// compareFromFabrics delivers messages by both ports at once.
func compareFromFabrics(t *testing.T, s *rig, m *fabricsModel, draw func() arrival) {
	t.Helper()
	all := make([]arrival, differentialBatch)
	for i := range all {
		all[i] = draw()
	}
	compareArrivals(t, s, m, all)
}

func compareArrivals(t *testing.T, s *rig, m *fabricsModel, all []arrival) {
	t.Helper()
	before := s.counters(lcore.IBToRoCE)
	all = inOrder(all, s.datapath.Counters().Loops)
	drops := map[lcore.Drop]uint64{}
	var frames [][]byte
	var sent []int // the index of the message of each frame
	var in [2][]fabricport.Received
	for i := range all {
		in[all[i].port] = append(in[all[i].port], fabricport.Received(all[i].message))
		f, why := m.fromFabric(&all[i])
		if why == "" {
			frames, sent = append(frames, f), append(sent, i)
		} else {
			drops[dropNamed(t, why)]++
		}
	}
	for i, msgs := range in {
		if n := s.fabrics.members[i].Deliver(0, msgs); n != len(msgs) {
			t.Fatalf("port %d took %d of %d messages", i, n, len(msgs))
		}
	}
	s.work()
	if d := s.droppedSince(lcore.IBToRoCE, before); !maps.Equal(d, drops) {
		t.Errorf("the C drops %v, the model %v", d, drops)
	}
	after := s.counters(lcore.IBToRoCE)
	if after.Received-before.Received != uint64(len(all)) || after.Sent-before.Sent != uint64(len(frames)) {
		t.Errorf("of %d messages the C received %d and sent %d, the model %d", len(all), after.Received-before.Received, after.Sent-before.Sent, len(frames))
	}
	got := s.toRoCE(0)
	for i := range min(len(got), len(frames)) {
		if !bytes.Equal(got[i], frames[i]) {
			t.Errorf("message %+v\nthe C:     %x\nthe model: %x", all[sent[i]], got[i], frames[i])
			return
		}
	}
	if len(got) != len(frames) {
		t.Errorf("the C sent %d frames, the model %d", len(got), len(frames))
	}
}

// TestEveryMutationByFabrics sends frames that are damaged in every way to two fabrics, and takes messages from both in
// which each bit of the network header is wrong.
func TestEveryMutationByFabrics(t *testing.T) {
	w := twoFabrics().with(fabricsFixtures[1].change)
	s := newRig(t, w)
	m := newFabricsModel(w)
	n := 0
	for _, seed := range seeds() {
		for batch := range slices.Chunk(mutations(seed), differentialBatch) {
			compare(t, fabricsRig{s}, m, batch)
			n += len(batch)
		}
	}
	draw := newArrivals(newGenerator(w, 0, 0), m)
	var all []arrival
	for _, d := range w.fabrics.destinations {
		for port := range 2 {
			x := received(func(x *message) { x.HasImm, x.Imm, x.Payload = true, 7, pattern(24) })
			if d.group {
				toGroup(d.gid)(&x)
			} else {
				fromNode(d.gid, d.lid)(&x)
			}
			for bit := range 8 * len(x.GRH) {
				y := draw.by(port, x)
				y.GRH[bit/8] ^= 1 << (bit % 8)
				all = append(all, y, draw.by(1-port, x))
			}
		}
	}
	for batch := range slices.Chunk(all, differentialBatch) {
		if compareArrivals(t, s, m, batch); t.Failed() {
			return
		}
	}
	checkFabrics(t, s, m)
	t.Logf("%d frames and %d messages", n, len(all))
}

// TestStrangersNumberNothing: what a node that nobody knows sends is no copy, and makes no copy of what another one sends
// with its numbers; so it is with a node that is known, for numbers are the sender's.
func TestStrangersNumberNothing(t *testing.T) {
	for name, other := range map[string]func(*message){
		"a stranger": fromNode(mustGID("fe80::99"), 99),
		"a node":     fromNode(localGID, localLID),
	} {
		t.Run(name, func(t *testing.T) {
			w := twoFabrics()
			s := newRig(t, w)
			to := w.fabrics.destinations[slices.Index(groupRules, multipath.Rule{Mode: multipath.Both, Tell: multipath.TellPGM})]
			packet := func(m *message) { m.Payload = append([]byte{0x1b, 0x58, 0x1b, 0x59, 4, 15: 40}, pattern(48)...) }
			s.byPort(0, received(toGroup(to.gid), packet, other))
			before := s.counters(lcore.IBToRoCE)
			x := received(toGroup(to.gid), packet)
			s.byPort(1, x)
			want(t, "crossed", s.counters(lcore.IBToRoCE).Sent-before.Sent, 1)
			s.byPort(0, x)
			want(t, "copies", s.droppedSince(lcore.IBToRoCE, before)[dropNamed(t, "duplicate")], 1)
		})
	}
}
