// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/ibside/multipath"
)

// A rig can have two InfiniBand ports, each of a fabric of its own: ibside/multipath joins them, and the test is both
// fabrics.
//
//	worker ◀─▶ multipath ◀─▶ member 0's rings ◀─▶ toIB, arrive
//	                     ◀─▶ member 1's rings ◀─▶
//
// fabrics is also what the model knows: which port reaches what, and by which addresses.
type fabrics struct {
	prefer, down string // names of ports; "": none

	port         *multipath.Port
	members      [2]*memberPort
	destinations []*fabricsDestination          // groups first, each in the order of the fixture
	byNumber     map[ib.LID]*fabricsDestination // by the LID that stands for it
}

// fabricsDestination is a group or node. Its addresses are those that the datapath knows.
type fabricsDestination struct {
	gid        ib.GID
	lid        ib.LID
	sl         ib.SL
	group      bool
	rule       multipath.Rule
	by         [2]*fabricsWay // nil: the port does not reach it
	send, take [2]bool
}

// fabricsWay is how one port reaches a destination.
type fabricsWay struct {
	gid  ib.GID
	lid  ib.LID
	lmc  uint8
	sl   ib.SL
	hops uint8
	rate ib.Rate
	qkey ib.QKey // a group's
	grh  bool
}

// notCalled is what of a port nobody calls here.
type notCalled struct{ ibside.OpenPort }

// memberPort is one of the ports. Its Pointer and Close are the rings'.
type memberPort struct {
	notCalled
	*fabricport.Rings
	number int
	f      *fabrics
	pairs  int // that it will make
	qps    []uint32
	qpns   []ib.QPN
}

var (
	memberNames = [2]string{"a", "b"}
	memberPKeys = [2]ib.PKey{ib.PKeyDefault, 0x8001}
	memberGIDs  = [2][]ib.GID{{bridgeGID, aliasGID}, {mustGID("fe80::2:c903:0:b1")}}
	onlyOnAGID  = mustGID("fe80::2:c903:0:20")
	onlyOnBGID  = mustGID("fe80::2:c903:0:21")
)

// groupRules are by the order of smallFixture's groups. One of plain UDP is on the second fabric alone, because the
// first refuses it, and the last on the first.
var groupRules = []multipath.Rule{
	{Mode: multipath.Active}, {Mode: multipath.Both, Tell: multipath.TellImm}, {Mode: multipath.Both}, {Mode: multipath.Both},
	{Mode: multipath.Both, Tell: multipath.TellPGM}, {Mode: multipath.Active}, {Mode: multipath.Both, Tell: multipath.TellPGM},
	{Mode: multipath.Active}, {Mode: multipath.Active, Tell: multipath.TellImm}, {Mode: multipath.Both},
}

const refusedByA, refusedByB = 5, 9 // groups

// plan makes the addresses on both fabrics. The second fabric has the numbers of the first, for other nodes.
func (f *fabrics) plan(w *fixture) {
	for i, g := range w.groups {
		d := &fabricsDestination{gid: g.MGID, group: true, rule: groupRules[i]}
		for k := range d.by {
			x := &fabricsWay{gid: g.MGID, lid: ib.LID(0xc001 + i + k), sl: ib.SL(1 + i%7 + 8*k), hops: uint8(i + k), rate: ib.Rate(2 + i%8 + k), qkey: groupIB + ib.QKey(k), grh: true}
			x.gid[4], x.gid[5] = byte(memberPKeys[k]>>8), byte(memberPKeys[k])
			if !(i == refusedByA && k == 0) && !(i == refusedByB && k == 1) {
				d.by[k] = x
			}
		}
		f.destinations = append(f.destinations, d)
	}
	onB := map[ib.GID]fabricsWay{
		nodeGID: {lid: node4LID, sl: 1, hops: 1, grh: true}, node4GID: {lid: 16, lmc: 1, sl: 5}, localGID: {lid: nodeLID, sl: 3, rate: 7}, onlyOnBGID: {lid: localLID, hops: 5, grh: true},
	}
	for _, n := range w.nodes {
		if n.Bridge {
			continue // nobody has asked for a path there
		}
		d := &fabricsDestination{gid: n.GID}
		if n.GID != onlyOnBGID {
			d.by[0] = &fabricsWay{gid: n.GID, lid: n.LID, lmc: n.LMC, sl: n.SL, hops: n.HopLimit, rate: n.Rate, grh: n.GRH}
		}
		if x, ok := onB[n.GID]; ok {
			x.gid = n.GID
			x.gid[14] ^= 0xb0
			d.by[1] = &x
		}
		f.destinations = append(f.destinations, d)
	}
}

// find returns the destination that a port knows by a GID.
func (f *fabrics) find(member int, gid ib.GID) *fabricsDestination {
	for _, d := range f.destinations {
		if x := d.by[member]; x != nil && x.gid == gid {
			return d
		}
	}
	return nil
}

// open joins the ports, and writes what they give into the fixture, as management would.
func (f *fabrics) open(t testing.TB, s *rig, w *fixture) {
	t.Helper()
	f.plan(w)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	second, err := fabricport.NewRings(s.pool, 1, rigRing)
	must(err)
	c := multipath.Config{
		Workers: 1, Pool: s.pool, ProxyQPs: 64, Groups: 32, Nodes: 32, HoldDown: time.Hour, MaxLoss: 1, Log: slog.New(slog.DiscardHandler),
		Rule: f.rule, GIDs: f.gids,
	}
	for i, rings := range []*fabricport.Rings{s.ibPort, second} {
		f.members[i] = &memberPort{Rings: rings, number: i, f: f, pairs: len(w.proxyQPs)}
		c.Members = append(c.Members, multipath.Member{Name: memberNames[i], Fabric: memberNames[i], Port: f.members[i], PKey: memberPKeys[i]})
	}
	f.port, err = multipath.New(c)
	must(err)
	must(f.port.Prefer(f.prefer))
	for i := range w.groups {
		g := &w.groups[i]
		m, err := f.port.Join(t.Context(), ibside.Join{MGID: g.MGID, QKey: groupIB, PKey: memberPKeys[0], Receive: true})
		must(err)
		g.MLID, g.SL, g.QKey, g.HopLimit, g.Rate = m.MLID, m.SL, m.QKey, m.HopLimit, m.Rate
		f.destinations[i].lid = m.MLID
	}
	for _, d := range f.destinations[len(w.groups):] {
		_, err := f.port.Path(t.Context(), d.gid, memberPKeys[0])
		must(err)
	}
	f.await(t)
	f.know(t, w)
	for i := range w.proxyQPs {
		x := &w.proxyQPs[i]
		x.QP, x.QPN, err = f.port.CreateProxyQP(0, memberPKeys[0], x.QKey)
		must(err)
	}
}

func (f *fabrics) rule(mgid ib.GID) multipath.Rule { return f.known(mgid).rule }

// known returns the destination that the datapath knows by a GID.
func (f *fabrics) known(gid ib.GID) *fabricsDestination {
	for _, d := range f.destinations {
		if d.gid == gid {
			return d
		}
	}
	return nil
}

// readdress puts a port's GID of a destination in place of the datapath's, if the port reaches it.
func (f *fabrics) readdress(port int, gid []byte) {
	if d := f.known(ib.GID(gid)); d != nil && d.by[port] != nil {
		copy(gid, d.by[port].gid[:])
	}
}

// byPort delivers a message to a group, which has the datapath's addresses, by one of the ports.
func (s *rig) byPort(port int, x message) {
	s.t.Helper()
	s.fabrics.readdress(port, x.GRH[8:24])
	s.fabrics.readdress(port, x.GRH[24:])
	if s.fabrics.members[port].Deliver(0, []fabricport.Received{fabricport.Received(x)}) != 1 {
		s.t.Fatal("the port did not take the message")
	}
	s.work()
}

func (f *fabrics) gids(gid ib.GID) []ib.GID {
	out := make([]ib.GID, 2)
	if d := f.known(gid); d != nil {
		for i, x := range d.by {
			if x != nil {
				out[i] = x.gid
			}
		}
	}
	return out
}

// await waits until all that the ports reach is known: Join and Path return before, if one port is slow.
func (f *fabrics) await(t testing.TB) {
	t.Helper()
	var want [2]int
	for _, d := range f.destinations {
		for i, x := range d.by {
			if x != nil {
				want[i]++
			}
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		all := f.port.Reports()
		if all[0].Groups+all[0].Nodes == want[0] && all[1].Groups+all[1].Nodes == want[1] {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the ports reach %+v, want %v groups and nodes", all, want)
		}
	}
}

// know writes the nodes' addresses, and decides which port carries what.
func (f *fabrics) know(t testing.TB, w *fixture) {
	t.Helper()
	f.byNumber = map[ib.LID]*fabricsDestination{}
	for i := range w.nodes {
		n := &w.nodes[i]
		d := f.known(n.GID)
		if d == nil {
			continue
		}
		p, err := f.port.Path(t.Context(), n.GID, memberPKeys[0])
		if err != nil {
			t.Fatal(err)
		}
		n.LID, n.LMC, n.SL, n.Rate, n.HopLimit, n.GRH = p.LID, p.LMC, p.SL, p.Rate, p.HopLimit, p.GRH
		d.lid, d.sl = p.LID, p.SL
	}
	for _, d := range f.destinations {
		f.byNumber[d.lid] = d
		f.place(d)
		ports := ""
		for i, sends := range d.send {
			if sends && ports != "" {
				ports += "+"
			}
			if sends {
				ports += memberNames[i]
			}
		}
		if got := f.port.Sent(d.lid).Ports; got != ports {
			t.Fatalf("%v is sent to by %q, want %q", d.gid, got, ports)
		}
	}
}

// place decides by which ports a destination is sent to and heard.
func (f *fabrics) place(d *fabricsDestination) {
	best, rank := 0, -1
	for i, x := range d.by {
		if x == nil {
			continue
		}
		r := 0
		if memberNames[i] == f.prefer {
			r = 1
		}
		if memberNames[i] != f.down {
			r += 2
		}
		if r > rank {
			best, rank = i, r
		}
	}
	for i, x := range d.by {
		both := d.group && d.rule.Mode == multipath.Both
		d.send[i] = i == best || both && x != nil
		d.take[i] = d.send[i]
		if both && memberNames[i] == f.down {
			d.send[i] = false
		}
	}
}

func (m *memberPort) Info() ibside.Info {
	i := ibside.Info{MTU: ib.MTU4096}
	if memberNames[m.number] == m.f.down {
		i.Down = "no cable"
	}
	return i
}

func (m *memberPort) Own() ibside.Own                        { return ibside.Own{GIDs: memberGIDs[m.number]} }
func (m *memberPort) Lost() (sends, recvs map[string]uint64) { return nil, nil }
func (m *memberPort) LostByDevice() map[string]uint64        { return nil }
func (m *memberPort) AwaitSent(context.Context) error        { return nil }
func (m *memberPort) AwaitReceived(context.Context) error    { return nil }

// CreateProxyQP gives the second port the first's QPNs, for other proxy QPs.
func (m *memberPort) CreateProxyQP(_ int, pkey ib.PKey, _ ib.QKey) (uint32, ib.QPN, error) {
	if pkey != memberPKeys[m.number] {
		return 0, 0, fmt.Errorf("P_Key %v on port %d", pkey, m.number)
	}
	n := len(m.qps)
	m.qps = append(m.qps, proxyQP+uint32(n+100*m.number))
	m.qpns = append(m.qpns, proxyQPN+ib.QPN((n+m.number)%m.pairs))
	return m.qps[n], m.qpns[n], nil
}

func (m *memberPort) Join(_ context.Context, j ibside.Join) (ibside.Membership, error) {
	d := m.f.find(m.number, j.MGID)
	if d == nil || j.PKey != memberPKeys[m.number] {
		return ibside.Membership{}, fmt.Errorf("port %d has no group %v with P_Key %v", m.number, j.MGID, j.PKey)
	}
	x := d.by[m.number]
	return ibside.Membership{MLID: x.lid, SL: x.sl, QKey: x.qkey, HopLimit: x.hops, MTU: ib.MTU4096, Rate: x.rate}, nil
}

func (m *memberPort) Path(_ context.Context, gid ib.GID, _ ib.PKey) (ibside.Path, error) {
	if gid == memberGIDs[m.number][0] { // it is asked whether the subnet manager answers
		return ibside.Path{}, nil
	}
	d := m.f.find(m.number, gid)
	if d == nil {
		return ibside.Path{}, ibside.ErrNoPath
	}
	x := d.by[m.number]
	return ibside.Path{LID: x.lid, LMC: x.lmc, SL: x.sl, MTU: ib.MTU4096, Rate: x.rate, HopLimit: x.hops, GRH: x.grh}, nil
}
